"""The Pareto front: the trials that no other trial beats in all objectives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from podtune.api.tuning.objective import Criterion


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """A trial and its values.

    Attributes:
        values: One for each objective, in the manifest's order.
    """

    trial: int
    values: tuple[float, ...]


class ParetoFront:
    """Keeps the front of what it is told, whatever the order.

    Of trials with the same values, the one with the lowest number stands for all. A trial costs one comparison with
    each of the front.
    """

    def __init__(self, criteria: Sequence[Criterion]) -> None:
        self._signs = [1.0 if criterion.mode == "min" else -1.0 for criterion in criteria]
        self._points: list[ParetoPoint] = []

    def add(self, point: ParetoPoint) -> bool:
        """Takes in a trial.

        Returns:
            Whether the front is another one now. One with a value that is not finite is never on it.
        """
        if not all(map(math.isfinite, point.values)) or any(self._keeps_out(known, point) for known in self._points):
            return False
        self._points = [known for known in self._points if not self._keeps_out(point, known)]
        self._points.append(point)
        return True

    def spread(self, limit: int) -> list[ParetoPoint]:
        """The front, best by the first objective first.

        Args:
            limit: How many points at most. Of more, those with the most room around them are taken (the crowding
                distance of NSGA-II), so the best by each objective are among them.
        """
        chosen = self._points
        if len(chosen) > limit:
            room = self._compute_room()
            chosen = sorted(chosen, key=lambda point: (-room[point.trial], point.trial))[:limit]
        return sorted(chosen, key=lambda point: (self._signs[0] * point.values[0], point.trial))

    def _keeps_out(self, one: ParetoPoint, other: ParetoPoint) -> bool:
        """Whether `other` has no place beside `one`."""
        if one.values == other.values:
            return one.trial <= other.trial
        pairs = zip(self._signs, one.values, other.values, strict=True)
        return all(sign * own <= sign * others for sign, own, others in pairs)

    def _compute_room(self) -> dict[int, float]:
        """By trial: how far apart its neighbours are, summed up over the objectives, each scaled to its range."""
        room = {point.trial: 0.0 for point in self._points}
        for objective in range(len(self._signs)):
            ordered = sorted(self._points, key=lambda point: (point.values[objective], point.trial))
            values = [point.values[objective] for point in ordered]
            room[ordered[0].trial] = room[ordered[-1].trial] = math.inf
            width = values[-1] - values[0]
            if 0 < width < math.inf:
                for point, below, above in zip(ordered[1:-1], values[:-2], values[2:], strict=True):
                    room[point.trial] += (above - below) / width
        return room
