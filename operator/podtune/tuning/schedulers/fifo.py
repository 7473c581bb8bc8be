"""First in, first out: every trial runs to its own end."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from podtune.trial.layout import ITERATION
from podtune.tuning.schedulers.base import CONTINUE, Metrics, Record, Scheduler, SchedulerDecision, StartDecision
from podtune.tuning.searchers.base import Configuration


class Fifo(Scheduler):
    """Stops nothing, remembers nothing, and starts trials in the order of their creation.

    It is the default if the manifest names no scheduler. It needs no metric.

    Example:
        scheduler: {}
    """

    @property
    @override
    def time_attribute(self) -> str:
        return ITERATION

    @override
    def on_result(self, trial: int, metrics: Metrics, *, waiting: int = 0) -> SchedulerDecision:
        return CONTINUE

    @override
    def choose(self, waiting: Sequence[int]) -> StartDecision | None:
        return StartDecision(waiting[0])

    @override
    def record(self, trial: int) -> Record:
        return {}

    @override
    def restore(self, trial: int, record: Record, configuration: Configuration) -> None:
        """Takes in nothing: there is nothing on record."""
