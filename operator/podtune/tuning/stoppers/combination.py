"""Stoppers made of stoppers."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from podtune.tuning.schedulers.base import CONTINUE, Action, Metrics, Verdict
from podtune.tuning.stoppers.base import ExperimentStopper, Progress, TrialStopper


class AnyOfTrial(TrialStopper):
    """Stops a trial when one of its parts does; without parts, never."""

    def __init__(self, parts: Sequence[TrialStopper]) -> None:
        """Makes a stopper of others."""
        self._parts = tuple(parts)

    @override
    def on_result(self, trial: int, metrics: Metrics) -> Verdict:
        """Shows every part the result, and answers with the first that stops."""
        return _first_stop([part.on_result(trial, metrics) for part in self._parts])


class AnyOfExperiment(ExperimentStopper):
    """Stops the experiment when one of its parts does; without parts, never."""

    def __init__(self, parts: Sequence[ExperimentStopper]) -> None:
        """Makes a stopper of others."""
        self._parts = tuple(parts)

    @override
    def check(self, progress: Progress) -> Verdict:
        """Asks every part, and answers with the first that stops."""
        return _first_stop([part.check(progress) for part in self._parts])

    @override
    def deadline(self) -> float | None:
        """The earliest of the parts."""
        deadlines = [deadline for part in self._parts if (deadline := part.deadline()) is not None]
        return min(deadlines, default=None)


def _first_stop(verdicts: Sequence[Verdict]) -> Verdict:
    return next((verdict for verdict in verdicts if verdict.action is not Action.CONTINUE), CONTINUE)
