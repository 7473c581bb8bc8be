"""A queue of keys that need a look: each key is in it once at most, and can be put in for later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class WorkQueue:
    """A deduplicating queue, first in, first out; a key that is added while it is worked on is queued again."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Makes an empty queue.

        Args:
            now: The present time, in seconds since the epoch.
        """
        self._now = now
        self._keys: dict[str, None] = {}
        self._filled = asyncio.Event()
        self._timers: dict[str, tuple[float, asyncio.TimerHandle]] = {}

    def add(self, key: str) -> None:
        """Puts a key in, unless it is in."""
        self._keys[key] = None
        self._filled.set()

    def add_at(self, key: str, moment: float) -> None:
        """Puts a key in at a point in time; the latest call counts, infinity for never."""
        known = self._timers.get(key)
        if known is not None:
            if known[0] == moment:
                return
            known[1].cancel()
            del self._timers[key]
        if moment == float("inf"):
            return
        loop = asyncio.get_running_loop()
        self._timers[key] = (moment, loop.call_later(max(0.0, moment - self._now()), self._ring, key))

    async def get(self) -> str:
        """Waits for the next key."""
        while not self._keys:
            self._filled.clear()
            await self._filled.wait()
        key = next(iter(self._keys))
        del self._keys[key]
        return key

    def forget(self, key: str) -> None:
        """Takes a key out, with its timer."""
        self._keys.pop(key, None)
        self.add_at(key, float("inf"))

    def __len__(self) -> int:
        return len(self._keys)

    def _ring(self, key: str) -> None:
        self._timers.pop(key, None)
        self.add(key)
