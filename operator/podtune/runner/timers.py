"""Points in time at which a trial has to be looked at again even if nothing happens to it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

SOON = 0.01
"""Seconds until a deadline is looked at again that was missed by a rounding error."""
EXPERIMENT = ""
"""The name under which the experiment as a whole has its timers."""


class Timers:
    """The earliest timer of each trial. Whoever still has to wait when it is due sets a new one."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._earliest: dict[str, float] = {}

    def set(self, name: str, at: float) -> None:
        """Asks for a trial to be looked at at a point in time; a later timer than it has already is not kept."""
        if at < self._earliest.get(name, float("inf")):
            self._earliest[name] = at
            heapq.heappush(self._heap, (at, name))

    def cancel(self, name: str) -> None:
        """Nothing of a trial has to wait any more."""
        self._earliest.pop(name, None)

    def pop_due(self, now: float) -> Iterator[str]:
        """Takes out the names whose timers are due."""
        while self._heap and self._heap[0][0] <= now:
            at, name = heapq.heappop(self._heap)
            if self._earliest.get(name) == at:
                del self._earliest[name]
                yield name

    @property
    def next(self) -> float:
        """When the next one is due; infinity where there is none."""
        while self._heap and self._earliest.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else float("inf")
