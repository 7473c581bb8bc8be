"""A file that is read while it grows, at any position, in few calls of the system."""

from __future__ import annotations

import os


class GrowingFile:
    """An open file; not thread-safe."""

    def __init__(self, file: int, chunk: int) -> None:
        """Takes a file's descriptor, which stays the caller's, and how many bytes are read at a time at least."""
        self._file = file
        self._chunk = chunk
        self._buffer = b""
        self._buffered_from = 0

    def read_at(self, position: int, length: int) -> bytes:
        """Bytes of the file; fewer where it ends.

        Raises:
            OSError: The file can't be read.
        """
        start = position - self._buffered_from
        if start < 0 or start + length > len(self._buffer):
            self._buffer = os.pread(self._file, max(length, self._chunk), position)
            self._buffered_from, start = position, 0
        return self._buffer[start : start + length]
