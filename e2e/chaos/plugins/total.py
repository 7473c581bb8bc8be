"""A stopper of the experiment that an observation changes which is lost or told twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typing_extensions import override

from podtune.tuning.searchers.base import Observation
from podtune.tuning.stoppers.base import Finding, ObservationStopper


class Total(ObservationStopper):
    """Ends an experiment when the values of its trials add up to a limit."""

    def __init__(self, **arguments: Any) -> None:
        self._limit: float = arguments["settings"]["limit"]
        self._values: list[float] = []

    @override
    def on_observation(self, observation: Observation) -> Finding | None:
        if observation.value is not None:
            self._values.append(observation.value)
        clause = find_end(self._values, self._limit)
        return Finding(clause, {"trials": len(self._values)}) if clause else None


def find_end(values: Iterable[float], limit: float) -> str:
    """What it says of the first of some values, in their order, that make the limit; empty where all don't."""
    total = 0.0
    for count, value in enumerate(values, 1):
        total += value
        if total >= limit:
            return f"{count} trials make {total!r}"
    return ""
