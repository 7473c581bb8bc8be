"""Time: how long a trial has run, and how long ago an experiment began."""

from __future__ import annotations

from typing_extensions import override

from podtune.tuning.numbers import shorten
from podtune.tuning.stoppers.base import ExperimentProgress, Finding, StopCriterion, TrialProgress


class TrainingTimeLimit(StopCriterion[TrialProgress]):
    """Holds once a trial's program has run for this long.

    Example:
        stop: {trial: [{time: 2h}]}

    As Ray's `stop={"time_total_s": …}`, it counts training over all attempts, and neither pauses nor waits. Unlike
    there, it does not need a result to be noticed.
    """

    def __init__(self, limit: float) -> None:
        """Makes a criterion of a limit in seconds."""
        self._limit = limit

    @override
    def check(self, progress: TrialProgress) -> Finding | None:
        return _compare(progress.elapsed, self._limit, "of training")

    @override
    def find_deadline(self, progress: TrialProgress) -> float | None:
        return self._limit


class TotalTimeLimit(StopCriterion[ExperimentProgress]):
    """Holds once this much time has passed since the first trial was created.

    Example:
        stop: {totalTime: 24h}

    Ray's `TimeoutStopper` starts counting at its first check, and again when an experiment is restored; here time also
    passes while the operator is down.
    """

    def __init__(self, limit: float) -> None:
        """Makes a criterion of a limit in seconds."""
        self._limit = limit

    @override
    def check(self, progress: ExperimentProgress) -> Finding | None:
        return _compare(progress.elapsed, self._limit, "since the first trial was made")

    @override
    def find_deadline(self, progress: ExperimentProgress) -> float | None:
        return self._limit


def _compare(elapsed: float, limit: float, what: str) -> Finding | None:
    if elapsed < limit:
        return None
    clause = f"{shorten(elapsed)} s {what} are at least {shorten(limit)} s"
    return Finding(clause, {"elapsed": elapsed, "limit": limit})
