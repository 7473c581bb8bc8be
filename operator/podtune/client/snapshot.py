"""An Experiment and its Trials at one moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from podtune.api.resources.experiment import TrialCounts
from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.cli.views.progress import find_outcome
from podtune.cli.views.troubles import find_experiment_troubles
from podtune.cli.views.watch_view import render_summary
from podtune.client.errors import ExperimentFailed, NoResult
from podtune.client.facts import Best, TrialFacts, read_best
from podtune.client.page import draw_snapshot

AnyTrial = TypeVar("AnyTrial", bound=TrialFacts)
OtherTrial = TypeVar("OtherTrial", bound=TrialFacts)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How an Experiment has come to an end.

    Attributes:
        has_succeeded: Whether it is complete; else it has failed, waits for a correction, or was deleted.
        message: How, in a sentence.
    """

    has_succeeded: bool
    message: str


class ExperimentSnapshot(Generic[AnyTrial]):
    """An Experiment and its Trials as they were at one moment."""

    def __init__(
        self,
        view: ExperimentView,
        trials: Sequence[TrialView],
        make_trial: Callable[[TrialView, ExperimentView], AnyTrial],
        *,
        is_deleted: bool = False,
    ) -> None:
        """Shows an Experiment.

        Args:
            view: The Experiment.
            trials: Its Trials.
            make_trial: Makes what a Trial is shown as.
            is_deleted: Whether it has been deleted since.
        """
        self._view = view
        self._trials = trials
        self._make_trial = make_trial
        self._is_deleted = is_deleted

    @property
    def name(self) -> str:
        """Name of the Experiment."""
        return self._view.name

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self._view.namespace

    @property
    def state(self) -> str:
        """Its state in one word, such as Running or Complete; empty before an operator has seen it."""
        return self._view.state

    @property
    def message(self) -> str:
        """The state, in a sentence."""
        return self._view.status.message

    @property
    def counts(self) -> TrialCounts:
        """How many trials are in which state."""
        return self._view.status.trials

    @property
    def troubles(self) -> list[str]:
        """What somebody should look at, a sentence each."""
        return find_experiment_troubles(self._view)

    @property
    def best(self) -> Best | None:
        """The best result so far; None where there is none yet."""
        try:
            return read_best(self._view)
        except NoResult:
            return None

    @cached_property
    def trials(self) -> tuple[AnyTrial, ...]:
        """Its Trials, by their index."""
        ordered = sorted(self._trials, key=lambda trial: trial.index)
        return tuple(self._make_trial(trial, self._view) for trial in ordered)

    @property
    def outcome(self) -> Conclusion | None:
        """How it has ended; None while it goes on."""
        if self._is_deleted:
            return Conclusion(False, "the experiment was deleted")
        found = find_outcome(self._view)
        return Conclusion(found[0] == 0, found[1]) if found is not None else None

    def check_outcome(self) -> None:
        """Raises an error where the Experiment has come to no good end.

        Raises:
            ExperimentFailed: It has failed, waits for a correction, or was deleted.
        """
        outcome = self.outcome
        if outcome is not None and not outcome.has_succeeded:
            raise ExperimentFailed(f"{self.name}: {outcome.message}")

    def convert(self, make_trial: Callable[[TrialView, ExperimentView], OtherTrial]) -> ExperimentSnapshot[OtherTrial]:
        """The same with Trials of another kind."""
        return ExperimentSnapshot(self._view, self._trials, make_trial, is_deleted=self._is_deleted)

    def _repr_html_(self) -> str:
        return draw_snapshot(self)

    def __str__(self) -> str:
        return render_summary(self._view)

    def __repr__(self) -> str:
        return f"<ExperimentSnapshot {self}>"
