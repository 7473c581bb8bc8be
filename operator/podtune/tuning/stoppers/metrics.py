"""Values of the last result: iterations and thresholds."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from podtune.api.tuning.objective import Objective
from podtune.trial.layout import ITERATION
from podtune.tuning.numbers import as_number, shorten
from podtune.tuning.stoppers.base import Finding, StopCriterion, TrialProgress


class MetricThresholds(StopCriterion[TrialProgress]):
    """Holds as soon as one of several metrics of the last result has reached its value.

    Example:
        stop: {metrics: {accuracy: 0.99}}

    Reached means at least the value, as in Ray's `stop={…}`; unlike there, for an objective's metric with mode min, at
    most. NaN reaches nothing.
    """

    def __init__(self, thresholds: Mapping[str, float], objective: Objective) -> None:
        """Makes a criterion; the first threshold that is reached, in this order, is the reason."""
        self._thresholds = dict(thresholds)
        self._objective = objective

    @override
    def check(self, progress: TrialProgress) -> Finding | None:
        for metric, threshold in self._thresholds.items():
            value = as_number(progress.metrics.get(metric))
            if value is not None and reaches(self._objective, metric, value, threshold):
                clause = f"{metric} {shorten(value, threshold)} is {describe_side(self._objective, metric)} "
                clause += shorten(threshold, value)
                return Finding(clause, {"metric": metric, "value": value, "threshold": threshold})
        return None


class IterationsReached(StopCriterion[TrialProgress]):
    """Holds once a trial has reported this `training_iteration`.

    Example:
        stop: {trial: [{iterations: 27}]}

    Ray's `MaximumIterationStopper` counts the results that it is shown; a stretch that is trained again after a failure
    is counted there twice, and here once.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit

    @override
    def check(self, progress: TrialProgress) -> Finding | None:
        iteration = as_number(progress.metrics.get(ITERATION))
        if iteration is None or not iteration >= self._limit:
            return None
        clause = f"iteration {shorten(iteration)} is at least {self._limit}"
        return Finding(clause, {"iteration": iteration, "limit": self._limit})


def reaches(objective: Objective, metric: str, value: float, threshold: float) -> bool:
    """Whether a metric's value has reached a threshold; NaN never has."""
    return value <= threshold if _falls(objective, metric) else value >= threshold


def describe_side(objective: Objective, metric: str) -> str:
    """On which side of a threshold a metric has reached it."""
    return "at most" if _falls(objective, metric) else "at least"


def _falls(objective: Objective, metric: str) -> bool:
    return any(criterion.metric == metric and criterion.mode == "min" for criterion in objective.criteria)
