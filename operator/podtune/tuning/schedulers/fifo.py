"""First in, first out: every trial runs to its own end."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from podtune.trial.layout import ITERATION
from podtune.tuning.schedulers.base import CONTINUE, Metrics, Record, Scheduler, SchedulerDecision, StartDecision
from podtune.tuning.searchers.base import Configuration


class Fifo(Scheduler):
    """Stops nothing, remembers nothing, and starts trials in the order in which they were made."""

    @override
    def on_trial_add(self, trial: int, configuration: Configuration) -> None:
        """Does nothing."""

    @override
    def on_result(self, trial: int, metrics: Metrics, *, waiting: int = 0) -> SchedulerDecision:
        """Lets the trial go on; no metric is needed for that."""
        return CONTINUE

    @override
    def on_trial_complete(self, trial: int, metrics: Metrics) -> bool:
        """Changes no record."""
        return False

    @override
    def on_trial_error(self, trial: int) -> None:
        """Does nothing."""

    @override
    def on_trial_remove(self, trial: int) -> None:
        """Does nothing."""

    @override
    def forget(self, trial: int) -> None:
        """Does nothing."""

    @override
    def choose(self, waiting: Sequence[int]) -> StartDecision | None:
        """Picks the first in the queue."""
        return StartDecision(waiting[0])

    @override
    def record(self, trial: int) -> Record:
        """Is always empty."""
        return {}

    @override
    def restore(self, trial: int, record: Record, configuration: Configuration) -> None:
        """Does nothing."""

    @property
    @override
    def time_attribute(self) -> str:
        """`training_iteration`, which every result has."""
        return ITERATION
