"""Stops a trial whose metric has reached a value."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from podtune.api.objective import Objective
from podtune.tuning.numbers import as_number, readable
from podtune.tuning.schedulers.base import CONTINUE, Action, Metrics, Verdict
from podtune.tuning.stoppers.base import TrialStopper


class MetricThresholds(TrialStopper):
    """Stops a trial as soon as one of several metrics has reached its value.

    Reached means at least the value; for the objective's own metric with mode min, at most. NaN reaches nothing.
    """

    def __init__(self, thresholds: Mapping[str, float], objective: Objective) -> None:
        """Makes a stopper.

        Args:
            thresholds: Values by metric; the first one reached, in this order, is the reason.
            objective: Says which metric is better when it is less.
        """
        self._thresholds = dict(thresholds)
        self._falling = objective.metric if objective.mode == "min" else None

    @override
    def on_result(self, trial: int, metrics: Metrics) -> Verdict:
        """Compares the result's metrics with their thresholds."""
        for metric, threshold in self._thresholds.items():
            value = as_number(metrics.get(metric))
            if value is not None and self._reached(metric, value, threshold):
                return self._stop(metric, value, threshold)
        return CONTINUE

    def _reached(self, metric: str, value: float, threshold: float) -> bool:
        return value <= threshold if metric == self._falling else value >= threshold

    def _stop(self, metric: str, value: float, threshold: float) -> Verdict:
        side = "at most" if metric == self._falling else "at least"
        return Verdict(
            Action.STOP,
            message=(
                f"stopped: {metric} {readable(value, threshold)} is {side} {readable(threshold, value)}, "
                f"as stop.metrics asks"
            ),
            because={"metric": metric, "value": value, "threshold": threshold},
        )
