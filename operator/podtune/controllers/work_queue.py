"""The keys of the experiments that need a look, like client-go's rate-limited work queue.

A key that is added often is processed once: it is dirty, or it is not. There is one worker, and it never awaits while
it processes a key. So no set of keys that are being processed is needed: one that is added meanwhile is dirty again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from podtune.controllers.metrics import DECISION_WAIT_SECONDS
from podtune.runner.backoff import Backoff

RETRY_BACKOFF = Backoff(1.0, 300.0)
"""Seconds until a key whose processing has failed is processed again."""


class WorkQueue:
    """Dirty keys, first in, first out; a key can be added for later."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._dirty: dict[str, float] = {}
        """When each key has become dirty."""
        self._filled = asyncio.Event()
        self._timers: dict[str, tuple[float, asyncio.TimerHandle]] = {}
        self._failures: dict[str, int] = {}

    def add(self, key: str) -> None:
        """Makes a key dirty."""
        self._dirty.setdefault(key, self._now())
        self._filled.set()

    def add_at(self, key: str, moment: float) -> None:
        """Makes a key dirty at a point in time; the latest call counts, infinity for never."""
        known = self._timers.get(key)
        if known is not None:
            if known[0] == moment:
                return
            known[1].cancel()
            del self._timers[key]
        if moment == inf:
            return
        loop = asyncio.get_running_loop()
        self._timers[key] = (moment, loop.call_later(max(0.0, moment - self._now()), self._expire, key))

    def add_rate_limited(self, key: str) -> None:
        """Makes a key dirty after a while, since its processing has failed: the more often in a row, the later."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_at(key, self._now() + RETRY_BACKOFF.compute_delay(count, key))

    def forget(self, key: str) -> None:
        """The processing of a key was a success: its failures count no longer."""
        self._failures.pop(key, None)

    async def get(self) -> str:
        """Waits for the next key, and takes it out."""
        while not self._dirty:
            self._filled.clear()
            await self._filled.wait()
        key = next(iter(self._dirty))
        DECISION_WAIT_SECONDS.observe(max(0.0, self._now() - self._dirty.pop(key)))
        return key

    def remove(self, key: str) -> None:
        """Removes everything of a key."""
        self._dirty.pop(key, None)
        self.add_at(key, inf)
        self.forget(key)

    def __len__(self) -> int:
        return len(self._dirty)

    def _expire(self, key: str) -> None:
        self._timers.pop(key, None)
        self.add(key)
