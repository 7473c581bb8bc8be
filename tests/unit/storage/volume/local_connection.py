"""A connection to a process that reads a volume, without a pod: a thread that answers through pipes."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from io import FileIO as Sink
from typing import BinaryIO

from podtune.storage.object_store import ReadableStore
from podtune.storage.volume.reading_server import answer_requests
from podtune.storage.volume.remote_store import ConnectionLost


class LocalConnection:
    """See `ReaderConnection`.

    Attributes:
        lost_after: How many more bytes come through before it breaks; None for any number.
    """

    def __init__(self, store: ReadableStore) -> None:
        request_end, self._requests = _make_pipe()
        self._answers, answer_end = _make_pipe()
        self.lost_after: int | None = None
        self.is_closed = False
        threading.Thread(target=_answer, args=(store, request_end, answer_end), daemon=True).start()

    def write(self, data: bytes) -> None:
        if self.is_closed or self.lost_after == 0:
            raise ConnectionLost("it broke while nobody used it")
        self._requests.write(data)

    def readline(self, size: int, /) -> bytes:
        return self._count(self._answers.readline(size))

    def read(self, size: int, /) -> bytes:
        return self._count(self._answers.read(size))

    def close(self) -> None:
        self.is_closed = True
        self._requests.close()
        self._answers.close()

    def _count(self, data: bytes) -> bytes:
        if self.lost_after is None:
            return data
        data, self.lost_after = data[: self.lost_after], max(0, self.lost_after - len(data))
        return data


def _make_pipe() -> tuple[BinaryIO, Sink]:
    source, sink = os.pipe()
    return os.fdopen(source, "rb"), os.fdopen(sink, "wb", buffering=0)


def _answer(store: ReadableStore, requests: BinaryIO, answers: Sink) -> None:
    with requests, answers, suppress(OSError):  # nobody is there any more
        answer_requests(store, requests, answers)
