"""Appends results to the results file, as a program would: from there on they go the way of all others."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping

from podtune.protocol.messages import MetricValue
from podtune.storage.directory import Directory
from podtune.trial import layout


class EndpointClosed(OSError):
    """The program has ended, so nothing is written any more."""


class ResultsWriter:
    """Writes one line a result; may be used by several threads."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._is_torn = False
        self._is_closed = False

    def append(self, metrics: Mapping[str, MetricValue]) -> None:
        """Writes a result; once this returns, an agent that is started again knows of it, too.

        Raises:
            OSError: It can't be written, for example because the disk is full.
        """
        line = json.dumps(metrics).encode() + b"\n"
        with self._lock:
            if self._is_closed:
                raise EndpointClosed("the program has ended")
            data = b"\n" + line if self._is_torn else line
            with self._directory.open_file(layout.RESULTS, os.O_WRONLY | os.O_APPEND) as file:
                self._is_torn = True  # until all of it is there: what follows a part of a line begins a new one
                while data:
                    data = data[os.write(file, data) :]
                self._is_torn = False

    def close(self) -> None:
        """Waits for what is being written; nothing is written afterwards."""
        with self._lock:
            self._is_closed = True
