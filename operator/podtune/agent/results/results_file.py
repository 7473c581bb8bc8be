"""Reading a file of lines while a program writes it."""

from __future__ import annotations

import os

from podtune.storage.directory import Directory
from podtune.trial import layout

MAX_LINE = 1 << 18
CHUNK = 1 << 20


class LineSplitter:
    """Cuts a stream of bytes into lines; a line that is too long is passed over, whatever its length."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._rest = bytearray()
        self._skipping = False
        self.oversized = 0
        """How many lines were passed over."""

    def feed(self, data: bytes) -> list[bytes]:
        """Takes the next bytes in, and returns the lines that are complete now, without their ends."""
        self._rest += data
        *complete, rest = bytes(self._rest).split(b"\n") if b"\n" in data else [bytes(self._rest)]
        lines = [line for line in map(self._checked, complete) if line is not None]
        if len(rest) > self._max_line:
            self._skipping, rest = True, b""
        self._rest = bytearray() if self._skipping else bytearray(rest)
        return lines

    def finish(self) -> list[bytes]:
        """The last line, where it lacks its end."""
        return self.feed(b"\n") if self._rest or self._skipping else []

    def _checked(self, line: bytes) -> bytes | None:
        skipping, self._skipping = self._skipping, False
        if skipping or len(line) > self._max_line:
            self.oversized += 1
            return None
        return line if line.strip() else None


class ResultsFile:
    """The results file, read on from where the last read ended.

    The file belongs to the training program, so nothing about it is trusted: links are not followed, and whatever is
    no regular file is an error. Not thread-safe.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._file: int | None = None
        self._offset = 0
        self._splitter = LineSplitter()

    @property
    def oversized(self) -> int:
        """How many lines were passed over because of their length."""
        return self._splitter.oversized

    def read_lines(self) -> list[bytes]:
        """The next lines, at most about a MiB of them; none when nothing has been added.

        A file that was replaced or cut is read from its start, as a new one.

        Raises:
            OSError: The file can't be read; the next call tries again.
        """
        if not self._find():
            return []
        assert self._file is not None
        data = os.pread(self._file, CHUNK, self._offset)
        self._offset += len(data)
        return self._splitter.feed(data) if data else []

    def finish(self) -> list[bytes]:
        """The last line, where the program has ended in the midst of it."""
        return self._splitter.finish()

    def close(self) -> None:
        """Lets go of the file; it is opened again where it is read again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _find(self) -> bool:
        """Whether there is a file that may hold more; opens it where it is new."""
        try:
            status = self._directory.stat(layout.RESULTS)
        except FileNotFoundError:
            return False
        if self._file is not None:
            opened = os.fstat(self._file)
            replaced = (opened.st_dev, opened.st_ino) != (status.st_dev, status.st_ino)
            if not replaced and status.st_size >= self._offset:
                return status.st_size > self._offset
            os.close(self._file)
            self._file = None
        self._open()
        return True

    def _open(self) -> None:
        self._file, self._offset = self._directory.take_file(layout.RESULTS), 0
        self._splitter = LineSplitter()
