"""What an experiment may use up: trials in ERROR, GPU-hours, money; and its target value."""

from __future__ import annotations

from typing_extensions import override

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.stop import CostBudget, FailureBudget
from podtune.tuning.numbers import shorten
from podtune.tuning.stoppers.base import ExperimentProgress, Finding, StopCriterion
from podtune.tuning.stoppers.metrics import describe_side, reaches

HOUR = 3600.0
SHARE_AFTER = 10
"""A share of failures counts from so many ended trials on, unless it is said."""


class TargetReached(StopCriterion[ExperimentProgress]):
    """Holds once the best value of the objective has reached the target.

    Example:
        stop: {experiment: [{target: 0.95}]}
    """

    def __init__(self, target: float, objective: Objective) -> None:
        self._target = target
        self._objective = objective

    def is_reached_by(self, value: float) -> bool:
        """Whether a value of the objective is good enough."""
        return reaches(self._objective, self._objective.metric, value, self._target)

    @override
    def check(self, progress: ExperimentProgress) -> Finding | None:
        best, metric = progress.best, self._objective.metric
        if best is None or not self.is_reached_by(best):
            return None
        clause = (
            f"the best {metric}, {shorten(best, self._target)} of {progress.best_trial}, is "
            f"{describe_side(self._objective, metric)} {shorten(self._target, best)}"
        )
        return Finding(clause, {"best": best, "target": self._target, "trial": progress.best_trial})


class FailuresReached(StopCriterion[ExperimentProgress]):
    """Holds once too many trials are in ERROR: a number of them, or a share of those that have ended.

    Example:
        stop: {experiment: [{failures: {share: 0.5, after: 10}}]}
    """

    def __init__(self, budget: FailureBudget) -> None:
        self._budget = budget

    @override
    def check(self, progress: ExperimentProgress) -> Finding | None:
        errors, ended, count = progress.errors, progress.ended, self._budget.count
        if count is not None:
            if errors < count:
                return None
            verb = "trial is" if errors == 1 else "trials are"
            return Finding(f"{errors} {verb} in ERROR, at least {count}", {"errors": errors, "count": count})
        limit = self._budget.share or 0.0  # the model holds that there is one of the two
        after = self._budget.after or SHARE_AFTER
        share = errors / ended if ended else 0.0
        if ended < after or share < limit:
            return None
        clause = f"{errors} of {ended} ended trials are in ERROR, a share of {shorten(share, limit)} that is at least "
        return Finding(clause + shorten(limit, share), {"errors": errors, "ended": ended, "share": limit})


class GpuHoursUsed(StopCriterion[ExperimentProgress]):
    """Holds once this many GPU-hours are used.

    Example:
        stop: {experiment: [{gpuHours: 100}]}
    """

    def __init__(self, budget: float) -> None:
        self._budget = budget

    @override
    def check(self, progress: ExperimentProgress) -> Finding | None:
        used = progress.gpu_seconds / HOUR
        if used < self._budget:
            return None
        clause = f"{shorten(used)} GPU-hours are at least {shorten(self._budget)}"
        return Finding(clause, {"gpuHours": used, "budget": self._budget})

    @override
    def find_deadline(self, progress: ExperimentProgress) -> float | None:
        """When the GPUs that are held now will have used it up."""
        return _compute_end(self._budget - progress.gpu_seconds / HOUR, progress.gpus, progress.elapsed)


class CostReached(StopCriterion[ExperimentProgress]):
    """Holds once this much money is spent, at the prices of pods and GPUs.

    Example:
        stop: {experiment: [{cost: {budget: 500, perGpuHour: 2.5}}]}
    """

    def __init__(self, budget: CostBudget) -> None:
        self._budget = budget

    @override
    def check(self, progress: ExperimentProgress) -> Finding | None:
        limit = self._budget.budget
        spent = self._compute_price(progress.pod_seconds, progress.gpu_seconds) / HOUR
        if spent < limit:
            return None
        gpu_hours, pod_hours = progress.gpu_seconds / HOUR, progress.pod_seconds / HOUR
        clause = (
            f"{shorten(gpu_hours)} GPU-hours and {shorten(pod_hours)} pod-hours cost {shorten(spent)}, at least "
            f"{shorten(limit)}"
        )
        inputs = {"cost": spent, "budget": limit, "gpuHours": gpu_hours, "podHours": pod_hours}
        return Finding(clause, inputs)

    @override
    def find_deadline(self, progress: ExperimentProgress) -> float | None:
        """When the pods that run now will have used it up."""
        left = self._budget.budget - self._compute_price(progress.pod_seconds, progress.gpu_seconds) / HOUR
        return _compute_end(left, self._compute_price(progress.pods, progress.gpus), progress.elapsed)

    def _compute_price(self, pods: float, gpus: float) -> float:
        return pods * (self._budget.per_pod_hour or 0.0) + gpus * (self._budget.per_gpu_hour or 0.0)


def _compute_end(left: float, an_hour: float, now: float) -> float | None:
    """When what is left will be used up, at so much an hour."""
    return now + left / an_hour * HOUR if an_hour > 0 else None
