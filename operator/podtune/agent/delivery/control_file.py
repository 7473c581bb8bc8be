"""The agent's side of the control file: instructions to the training program."""

from __future__ import annotations

import json
from collections.abc import Mapping

from podtune.storage.directory import Directory
from podtune.trial import layout


class ControlFileWriter:
    """Replaces the file whole whenever an instruction changes. Not thread-safe."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._written: dict[str, bool] | None = None

    def write(self, wants: Mapping[str, bool]) -> bool:
        """Makes the file say this; returns whether it had to be written.

        Raises:
            OSError: It can't be written; the next call tries again.
        """
        if dict(wants) == self._written:
            return False
        self._directory.replace_file(layout.CONTROL, json.dumps(dict(wants)).encode())
        self._written = dict(wants)
        return True
