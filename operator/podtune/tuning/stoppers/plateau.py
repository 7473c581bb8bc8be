"""Plateaus: of a trial, whose results don't change, and of an experiment, whose best trials don't get better."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence

from typing_extensions import override

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.stop import ExperimentPlateau, TrialPlateau
from podtune.tuning.numbers import shorten
from podtune.tuning.stoppers.base import ExperimentProgress, Finding, StopCriterion, TrialProgress
from podtune.tuning.stoppers.metrics import reaches


class TrialPlateauReached(StopCriterion[TrialProgress]):
    """Holds while the standard deviation of a trial's last results is at most a tolerance.

    Example:
        stop: {trial: [{plateau: {window: 5, tolerance: 0.001, grace: 10}}]}

    It is Ray's `TrialPlateauStopper`, with two differences: the tolerance itself is still a plateau, so that 0 means
    "does not change at all" (Ray wants less than it); and a result that lacks the metric, or holds no number, is passed
    over (in Ray nothing is a plateau until it has left the window). NaN and infinities are no plateau.
    """

    def __init__(self, settings: TrialPlateau, objective: Objective) -> None:
        self._settings = settings
        self._objective = objective
        self.metric = settings.metric or objective.metric

    @override
    def check(self, progress: TrialProgress) -> Finding | None:
        settings, window = self._settings, progress.windows.get(self.metric)
        if window is None or window.count < settings.grace or len(window.values) < settings.window:
            return None
        values = window.values[-settings.window :]
        threshold = settings.threshold
        if threshold is not None and not reaches(self._objective, self.metric, values[-1], threshold):
            return None
        deviation = compute_standard_deviation(values)
        if not deviation <= settings.tolerance:
            return None
        clause = (
            f"the last {settings.window} values of {self.metric} have a standard deviation of "
            f"{shorten(deviation, settings.tolerance)}, at most {shorten(settings.tolerance, deviation)}"
        )
        inputs: dict[str, float | int | str] = {
            "metric": self.metric,
            "value": values[-1],
            "deviation": deviation,
            "tolerance": settings.tolerance,
            "window": settings.window,
        }
        return Finding(clause, inputs)


class Leaders:
    """The best values of the ended trials, told one after the other, and for how long they have been close together.

    What it says follows from the values and their order alone.
    """

    def __init__(self, settings: ExperimentPlateau, objective: Objective) -> None:
        self.settings = settings
        self._sign = 1.0 if objective.mode == "min" else -1.0
        self._best: list[float] = []
        self.told = 0
        self.lasted = 0
        """How many values the plateau has lasted for, including the one that led to it."""
        self.deviation = math.inf

    def tell(self, value: float) -> None:
        """A trial has ended with this as its best value; NaN counts as none."""
        if math.isnan(value):
            return
        self.told += 1
        top = self.settings.top
        index = bisect.bisect_right(self._best, self._sign * value)
        if index < top:
            self._best.insert(index, self._sign * value)
            del self._best[top:]
            self.deviation = compute_standard_deviation(self._best) if len(self._best) == top else math.inf
        self.lasted = self.lasted + 1 if self.deviation <= self.settings.tolerance else 0


class ExperimentPlateauReached(StopCriterion[ExperimentProgress]):
    """Holds while the best ended trials are close together, and have been for some time.

    Example:
        stop: {experiment: [{plateau: {top: 10, tolerance: 0.001, patience: 20}}]}

    It is Ray's `ExperimentPlateauStopper` told one value a trial, its best, in the order of the ends that the Trials
    record. (Ray is told every result, so that one trial standing still is a plateau of the experiment.) Trials without
    a value, and those in ERROR, don't count.
    """

    def __init__(self, leaders: Leaders) -> None:
        self._leaders = leaders

    @override
    def check(self, progress: ExperimentProgress) -> Finding | None:
        leaders, settings = self._leaders, self._leaders.settings
        if leaders.lasted < max(1, settings.patience):
            return None
        deviation = leaders.deviation
        clause = (
            f"the best {settings.top} of {leaders.told} trials have a standard deviation of "
            f"{shorten(deviation, settings.tolerance)}, at most {shorten(settings.tolerance, deviation)}, "
            f"and have had it for {leaders.lasted}"
        )
        inputs = {
            "top": settings.top,
            "deviation": deviation,
            "tolerance": settings.tolerance,
            "lasted": leaders.lasted,
            "trials": leaders.told,
        }
        return Finding(clause, inputs)


def compute_standard_deviation(values: Sequence[float]) -> float:
    """The population's standard deviation, as NumPy's `std`; exactly 0 for equal values, NaN unless all are finite."""
    if not all(map(math.isfinite, values)):
        return math.nan
    if all(value == values[0] for value in values):
        return 0.0
    mean = math.fsum(value / len(values) for value in values)
    return math.hypot(*(value - mean for value in values)) / math.sqrt(len(values))
