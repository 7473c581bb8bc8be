"""Keeps when results were read, beside the results: a restarted agent reads them again and reports the same times."""

from __future__ import annotations

import math
import os
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from podtune.storage.directory import Directory

FILE = ".read-times"
_MAX_TIMES = 1 << 20
"""For results beyond these, a restarted agent reports when it read them itself."""
_TIME = struct.Struct("<d")


class ReadTimes:
    """A file of times, eight bytes each: first when the agent was started first, then when it has read each result.

    It lies in the shared directory, so what it holds is checked; a program that changes it changes its own times, which
    it may report itself. Not thread-safe.
    """

    def __init__(self, directory: Directory) -> None:
        """Prepares it; `open` comes before all else."""
        self._directory = directory
        self._file: int | None = None
        self._known: deque[float] = deque()
        self._count = 0
        self._last = -math.inf

    def open(self, now: float) -> float:
        """Reads what an earlier process has left.

        Returns:
            When the first process of this agent was started: now, where this is it.

        Raises:
            OSError: The file can't be used; times are not kept then.
        """
        with suppress(FileExistsError), self._directory.make_file(FILE):
            pass
        file = self._directory.take_file(FILE, os.O_RDWR)
        try:
            times = list(_parse_rising(os.pread(file, _MAX_TIMES * _TIME.size, 0)))
            os.ftruncate(file, len(times) * _TIME.size)
        except OSError:
            os.close(file)
            raise
        self._file, self._count = file, len(times)
        if not times:
            return self._take(now)
        self._known.extend(times[1:])
        self._last = times[0]
        return times[0]

    def record_next(self, now: float) -> float:
        """When the next result was read: now, unless an earlier process has read it.

        Raises:
            OSError: It can't be kept; nor are later ones.
        """
        if self._known:
            self._last = self._known.popleft()
            return self._last
        return self._take(now)

    def close(self) -> None:
        """Keeps no more times."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _take(self, now: float) -> float:
        self._last = max(self._last, now)
        if self._file is not None and self._count < _MAX_TIMES:
            try:
                os.pwrite(self._file, _TIME.pack(self._last), self._count * _TIME.size)
            except OSError:
                self.close()
                raise
            self._count += 1
        return self._last


def _parse_rising(data: bytes) -> Iterator[float]:
    """The times at the front of a file, up to the first that is none, or earlier than the one before."""
    last = 0.0
    for (time,) in _TIME.iter_unpack(data[: len(data) // _TIME.size * _TIME.size]):
        if not math.isfinite(time) or time < last:
            return
        last = time
        yield time
