"""Virtual time: what happens when."""

from __future__ import annotations

import heapq
from collections.abc import Callable

START = 946_684_800.0
"""When simulations begin, in seconds since the epoch: the first moment of the year 2000 (UTC)."""
NOTHING_DUE = float("inf")


class Clock:
    """What is still to happen, in the order of time; what is due at the same moment, in the order of asking."""

    def __init__(self, start: float = START) -> None:
        self.now = start
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._asked = 0

    def call_later(self, seconds: float, what: Callable[[], None]) -> None:
        """Has something happen so many seconds from now."""
        self._asked += 1
        heapq.heappush(self._queue, (self.now + seconds, self._asked, what))

    @property
    def next(self) -> float:
        """When the next thing happens; infinity where nothing does."""
        return self._queue[0][0] if self._queue else NOTHING_DUE

    def step(self) -> None:
        """Goes on to the next thing and lets it happen."""
        self.now, _, what = heapq.heappop(self._queue)
        what()

    def skip(self, to: float) -> None:
        """Goes on to a moment before which nothing happens."""
        self.now = to
