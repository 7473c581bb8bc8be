"""A store of which a page reads no more than it can wait for, and hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from podtune.storage.errors import StoreError
from podtune.storage.object_store import ReadableStore


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What reading for one page may take.

    Attributes:
        seconds: After so many, nothing more is asked for. A request that is under way then is still waited for.
        bytes: Of all objects together.
        keys: How many may be listed.
    """

    seconds: float = 15.0
    bytes: int = 48 << 20
    keys: int = 50_000


class LimitReached(StoreError):
    """As much was read as a page may; the text says of what there was too much."""


class LimitedStore:
    """A store that is read within limits."""

    def __init__(self, store: ReadableStore, limits: ReadLimits, clock: Callable[[], float]) -> None:
        """Time counts from now on."""
        self._store = store
        self._limits = limits
        self._clock = clock
        self._end = clock() + limits.seconds
        self._bytes = 0
        self._keys = 0

    def check(self) -> None:
        """See `ReadableStore`."""
        self._store.check()

    def get(self, key: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
        """See `ReadableStore`."""
        self._look_at_clock()
        for piece in self._store.get(key, start, size):
            self._count(len(piece))
            yield piece
            self._look_at_clock()

    def get_bytes(self, key: str, limit: int) -> bytes:
        """See `ReadableStore`."""
        self._look_at_clock()
        # No more than there is room for is fetched; what then is longer than allowed is refused by its size.
        data = self._store.get_bytes(key, min(limit, self._limits.bytes - self._bytes))
        self._count(len(data))
        return data

    def exists(self, key: str) -> bool:
        """See `ReadableStore`."""
        self._look_at_clock()
        return self._store.exists(key)

    def list(self, prefix: str) -> Iterator[str]:
        """See `ReadableStore`."""
        self._look_at_clock()
        for key in self._store.list(prefix):
            self._keys += 1
            if self._keys > self._limits.keys:
                raise LimitReached(f"there are more than {self._limits.keys:,} objects")
            self._look_at_clock()
            yield key

    def _look_at_clock(self) -> None:
        if self._clock() >= self._end:
            raise LimitReached(f"reading took {self._limits.seconds:g} seconds")

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.bytes:
            raise LimitReached(f"there are more than {self._limits.bytes >> 20} MiB")
