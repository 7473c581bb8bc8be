"""A thread that looks again and again for what a program has left, and once more when that has ended."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod

LAST_LOOK_SECONDS = 10.0
"""How long the last look may take: the trial's end waits for it."""
_BREATH = 1.0
"""Seconds that a look which is late may take to notice it."""


class Poller(ABC):
    """Looks once each period, from `start` to `close`; see `Closeable`."""

    def __init__(self, name: str, period: float) -> None:
        """Looks not yet.

        Args:
            name: The thread's name.
            period: Seconds from the end of one look to the next.
        """
        self._period = period
        self._has_ended = threading.Event()
        self._last_moment = float("inf")
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def look(self) -> None:
        """Takes what is new; called by one thread. It returns early where `is_late`."""

    @abstractmethod
    def finish(self) -> None:
        """Takes what is left after the program's end; called by the same thread, before `close` returns."""

    @property
    def is_late(self) -> bool:
        """Whether the trial's end has waited long enough."""
        return time.monotonic() > self._last_moment

    def start(self) -> None:
        """Looks from now on."""
        self._thread.start()

    def close(self) -> None:
        """The program has ended: looks once more, and no more afterwards."""
        self._last_moment = time.monotonic() + LAST_LOOK_SECONDS
        self._has_ended.set()
        self._thread.join(LAST_LOOK_SECONDS + _BREATH)

    def wait(self, seconds: float) -> bool:
        """Waits so many seconds; returns early, and whether it does, when the program has ended."""
        return self._has_ended.wait(seconds)

    def _run(self) -> None:
        self.look()
        while not self.wait(self._period):
            self.look()
        self.finish()
