"""Which of the trials that the scheduler paused end without running again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podtune.api.names import DecisionAction, TrialReason, TrialState
from podtune.api.resources.trial import TrialStatus
from podtune.runner.scheduling.result_processor import ResultProcessor
from podtune.runner.scheduling.slots import Slots
from podtune.runner.search.session import Search
from podtune.runner.trial.ledger import DecisionInputs
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trials import Trials


@dataclass(frozen=True, slots=True)
class PausedEnd:
    """A paused trial that will never run again, and why."""

    trial: TrialMachine
    reason: TrialReason
    message: str
    inputs: DecisionInputs


class PausedTrials:
    """Finds paused trials that end: those that the scheduler stops, and those that can't achieve anything more."""

    def __init__(self, trials: Trials, processor: ResultProcessor, slots: Slots, search: Search) -> None:
        self._trials = trials
        self._processor = processor
        self._slots = slots
        self._search = search
        self._said_over = False
        self._rests_on: dict[str, int] = {}
        """By trial to stop: the latest LSN when its stop was first requested."""

    @property
    def is_outdated(self) -> bool:
        """Whether the search continues although the scheduler was told it was over, as after maxTrials was raised."""
        return self._said_over and not self._search.is_over

    def list_stopped_by_scheduler(self) -> Iterator[PausedEnd]:
        """Yields the trials that the scheduler stops, once all that this rests on is durable.

        One that is on its way to its pause ends when it has arrived there.
        """
        if self._search.is_over and not self._said_over:
            self._said_over = True
            self._processor.scheduler.on_search_over()
        for stop in self._processor.scheduler.trials_to_stop():
            trial = self._trials.find_by_index(stop.trial)
            if trial is None or trial.is_finished or trial.deleting or trial.pod is not None:
                continue
            lsn = self._rests_on.setdefault(trial.name, self._processor.barrier.latest)
            if not self._processor.barrier.is_flushed(lsn):
                self._processor.barrier.waiting[trial.name] = None
                continue
            del self._rests_on[trial.name]
            reason = TrialReason.MAX_TIME_REACHED if stop.full else TrialReason.STOPPED_BY_SCHEDULER
            yield PausedEnd(trial, reason, stop.message, stop.inputs)

    def list_never_promoted(self, unfinished: int) -> Iterator[PausedEnd]:
        """Yields all paused trials, where nothing else is left and the scheduler starts none of them."""
        if not self._search.is_over or not self._slots.is_deadlocked(unfinished):
            return
        if not self._processor.barrier.is_flushed(self._processor.barrier.latest):
            return
        for trial in self._slots.queue.trials:
            message = (
                f"paused at iteration {trial.status.iteration} and never promoted: "
                "no other trial is left that could make room for it"
            )
            inputs: DecisionInputs = {"iteration": trial.status.iteration, "paused": unfinished}
            yield PausedEnd(trial, TrialReason.NOT_PROMOTED, message, inputs)


def was_removed(status: TrialStatus) -> bool:
    """Whether the scheduler learns about a trial's end from `on_trial_remove`.

    It does not if the program completed or was stopped while it ran: that was decided on an attempt. Nor does the
    experiment's own end count, because the trials continue if the experiment resumes.
    """
    if status.evaluation is not None:
        return status.evaluation.was_paused
    if status.state is TrialState.ERROR:
        return True
    stopped = status.decision is not None and status.decision.action is DecisionAction.STOP
    others = (TrialReason.COMPLETED, TrialReason.STOPPED_BY_EXPERIMENT)
    return status.state is TrialState.TERMINATED and status.reason not in others and not stopped
