"""Ends an experiment after a time."""

from __future__ import annotations

from typing_extensions import override

from podtune.tuning.numbers import readable
from podtune.tuning.schedulers.base import CONTINUE, Action, Verdict
from podtune.tuning.stoppers.base import ExperimentStopper, Progress


class TotalTime(ExperimentStopper):
    """Stops once so many seconds have passed since the first trial was made."""

    def __init__(self, limit: float) -> None:
        """Makes a stopper.

        Args:
            limit: Seconds.
        """
        self._limit = limit

    @override
    def check(self, progress: Progress) -> Verdict:
        """Compares the time that has passed with the limit."""
        if progress.elapsed < self._limit:
            return CONTINUE
        return Verdict(
            Action.STOP,
            message=f"stopped after {readable(progress.elapsed)} s: stop.totalTime allows {readable(self._limit)} s",
            because={"elapsed": progress.elapsed, "totalTime": self._limit},
        )

    @override
    def deadline(self) -> float | None:
        """The limit."""
        return self._limit
