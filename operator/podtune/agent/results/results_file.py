"""Reading a file of lines while a program writes it."""

from __future__ import annotations

import os

from podtune.agent.state.result_line import LineSplitter
from podtune.storage.directory import Directory
from podtune.trial import layout

READ_SIZE = 1 << 20


class ResultsFile:
    """The results file, read on from where the last read ended.

    The file belongs to the training program, so nothing about it is trusted: links are not followed, and anything but a
    regular file is an error. Not thread-safe.
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
        data = os.pread(self._file, READ_SIZE, self._offset)
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
