"""Which checkpoints are kept of trials that have ended, and of which trials that are to stop none is.

That none is kept is recorded with the decision to stop: from then on nothing is waited for, nothing is called lost, and
the trial's agent deletes what there is. So these trials are not asked for again. Others let go of theirs when their end
is recorded, or later, when a better trial has ended; a storage pod deletes those at the end of the experiment.
"""

from __future__ import annotations

from typing_extensions import override

from podtune.api.names import DecisionAction, TrialReason, TrialState
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import Checkpoint
from podtune.runner.checkpoints import retention
from podtune.runner.checkpoints.best_checkpoints import BestCheckpoints
from podtune.runner.checkpoints.pins import CheckpointPins
from podtune.runner.checkpoints.retention import STOPPED_REASONS
from podtune.runner.scheduling.exploits import Exploits
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trials import TrialIndex
from podtune.tuning.schedulers.base import Scheduler


class EndRetention(TrialIndex):
    """Says what is kept of a trial at its end."""

    def __init__(
        self, experiment: str, spec: ExperimentSpec, scheduler: Scheduler, exploits: Exploits, pins: CheckpointPins
    ) -> None:
        self._experiment = experiment
        self._scheduler = scheduler
        self._best = BestCheckpoints(spec.objective, spec.search.repeats, spec.checkpoints.keep.best_of_experiment)
        self._exploits = exploits
        self._pins = pins
        self._held_back: dict[str, TrialMachine] = {}
        """Stopped trials that keep what others need."""
        self._last_stop = ""
        self.take_spec(spec)

    def take_spec(self, spec: ExperimentSpec) -> None:
        """Hears what is to be kept from now on: what was let go of does not come back."""
        self._keep, self._objective = spec.checkpoints.keep, spec.training_objective
        self._best.count = self._keep.best_of_experiment
        sources = [entry.restore_from for entry in spec.search.initial if entry.restore_from is not None]
        own = ("", self._experiment)
        self._donors = {source.trial for source in sources if source.experiment in own}
        """Trials that others are to start from, which may not be made yet."""

    @override
    def update(self, trial: TrialMachine, now: float = 0.0) -> None:
        """Takes in what a trial has recorded."""
        self._best.update(trial, now)
        if trial.saved.state is TrialState.TERMINATED and trial.saved.reason in STOPPED_REASONS:
            self._last_stop = max(self._last_stop, trial.saved.completion_time or "")

    @property
    def last_stop(self) -> str:
        """When the last trial has ended that `keep.stopped` is about (RFC 3339); empty where there was none."""
        return self._last_stop if self._keep.stopped is not None else ""

    def discards(self, trial: TrialMachine, action: DecisionAction, reason: TrialReason) -> bool:
        """Whether a trial that this is decided of keeps no checkpoint, and need not store any more."""
        if self._keep.stopped != 0 or action is not DecisionAction.STOP or reason not in STOPPED_REASONS:
            return False
        return bool(trial.home) and not self._is_needed(trial) and not self._best.is_among_best(trial)

    def drop_surplus(self, trial: TrialMachine) -> bool:
        """Has a trial that has ended let go of checkpoints that are not kept; returns whether there were any."""
        kept = self._list_kept_of_stopped(trial) if self._is_stopped(trial) else self._list_kept(trial)
        if kept == trial.status.checkpoints:
            return False
        trial.set(checkpoints=kept, checkpoint=kept[-1] if kept else None)
        return True

    def review(self, trial: TrialMachine) -> bool:
        """Has a trial that was stopped let go of what it was left with, and is not to keep any longer."""
        return self._is_stopped(trial) and not trial.deleting and self.drop_surplus(trial)

    def take_due(self) -> list[str]:
        """The trials that are to be reviewed, since others have ended or have what they needed."""
        released = [name for name, trial in self._held_back.items() if not self._is_needed(trial)]
        for name in released:
            del self._held_back[name]
        return [*self._best.take_displaced(), *released]

    def _list_kept(self, trial: TrialMachine) -> list[Checkpoint]:
        pinned = self._scheduler.pinned_steps(trial.index)
        return retention.keep_some(trial.status.checkpoints, self._keep, self._objective, pinned)

    def _list_kept_of_stopped(self, trial: TrialMachine) -> list[Checkpoint]:
        if self._is_needed(trial):
            self._held_back[trial.name] = trial
            return self._list_kept(trial)
        best = self._best.is_among_best(trial)
        return retention.keep_of_stopped(trial.status.checkpoints, self._keep, self._objective, is_among_best=best)

    def _is_stopped(self, trial: TrialMachine) -> bool:
        """Whether it has ended as one of those that `keep.stopped` is about."""
        status = trial.status
        is_limited = self._keep.stopped is not None
        return is_limited and status.state is TrialState.TERMINATED and status.reason in STOPPED_REASONS

    def _is_needed(self, trial: TrialMachine) -> bool:
        """Whether other trials go on from a checkpoint of it, or may."""
        return (
            trial.name in self._donors
            or self._pins.is_needed(trial.name)
            or bool(self._exploits.list_waiting_for(trial))
            or bool(self._scheduler.pinned_steps(trial.index))
        )
