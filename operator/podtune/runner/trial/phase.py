"""A trial's position between creation and end, derived from its status and the pods of its current attempt."""

from __future__ import annotations

from enum import Enum, auto

from podtune.api.names import DecisionAction, TrialReason, TrialState
from podtune.api.resources.trial import Decision, TrialStatus
from podtune.runner.attempts.pods import AttemptPods

USER_PAUSES = frozenset({TrialReason.PAUSED_BY_USER, TrialReason.SUSPENDED})
"""Pauses that a user asked for, of the trial or of the whole experiment: they end when the user takes that back."""


class TrialPhase(Enum):
    """Where a trial is: always in exactly one of these."""

    NEW = auto()
    """Nothing is on record of it."""
    QUEUED = auto()
    """It waits for a slot, or for the rest of its pods."""
    BACKING_OFF = auto()
    """It waits until it may be tried again."""
    STARTING = auto()
    """All pods of its attempt are there, and some of their programs have not started."""
    RUNNING = auto()
    """Its program runs."""
    STOPPING = auto()
    """What ends the trial is decided: results that come after do not count."""
    PAUSING = auto()
    """The scheduler has decided to pause it: results that come after do not count."""
    ENDING_ATTEMPT = auto()
    """Its attempt is to end and not the trial, for a user or a fault of its pods: results count until then."""
    PAUSED_BY_SCHEDULER = auto()
    """It waits for the scheduler to start it again, or to give it up."""
    PAUSED_BY_USER = auto()
    """It waits for a user to resume it."""
    FINISHED = auto()
    """It has ended, whether that is on record or not."""


WAITING_FOR_PODS = frozenset({TrialPhase.NEW, TrialPhase.QUEUED, TrialPhase.BACKING_OFF})
STARTABLE = WAITING_FOR_PODS | {TrialPhase.PAUSED_BY_SCHEDULER}
"""Phases in which a trial may be picked to run next."""
RESULTS_COUNT_NOT = frozenset({TrialPhase.STOPPING, TrialPhase.PAUSING, TrialPhase.PAUSED_BY_SCHEDULER})
"""Phases in which further results change nothing; of a pause, those up to the checkpoint that it goes on from do."""


def find_phase(status: TrialStatus, pods: AttemptPods) -> TrialPhase:
    """Finds the phase of a trial."""
    if status.state is not None and status.state.is_finished:
        return TrialPhase.FINISHED
    if status.state is TrialState.PAUSED and status.reason == TrialReason.PAUSED_BY_SCHEDULER:
        return TrialPhase.PAUSED_BY_SCHEDULER
    if status.state is TrialState.PAUSED and status.reason in USER_PAUSES:
        return TrialPhase.PAUSED_BY_USER
    if status.decision is not None:
        return _find_phase_of_decided(status.decision)
    if pods and not pods.lacks_some:
        return TrialPhase.RUNNING if pods.is_training else TrialPhase.STARTING
    if status.state is None:
        return TrialPhase.NEW
    if status.state is not TrialState.PENDING:
        return TrialPhase.RUNNING  # its pods have yet to be seen, or to be missed
    return TrialPhase.BACKING_OFF if status.reason == TrialReason.BACKING_OFF else TrialPhase.QUEUED


def _find_phase_of_decided(decision: Decision) -> TrialPhase:
    match decision.action:
        case DecisionAction.PAUSE:
            return TrialPhase.ENDING_ATTEMPT if decision.reason in USER_PAUSES else TrialPhase.PAUSING
        case DecisionAction.RETRY | DecisionAction.END | DecisionAction.REQUEUE:
            return TrialPhase.ENDING_ATTEMPT
        case _:
            return TrialPhase.STOPPING
