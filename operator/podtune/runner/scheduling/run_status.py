"""What a trial's run in a tracker is to be shown as."""

from __future__ import annotations

from typing import TypedDict

from podtune.api.names import DecisionAction, TrialReason, TrialState
from podtune.api.resources.trial import Decision, TrialStatus
from podtune.protocol.tracking import RunFacts, RunStatus
from podtune.runner.checkpoints.retention import STOPPED_REASONS
from podtune.runner.records import Experiment
from podtune.runner.trial.machine import TrialMachine

_KILLED = STOPPED_REASONS | {TrialReason.STOPPED_BY_EXPERIMENT}


def build_run_facts(trial: TrialMachine, *, is_flushed: bool, is_best: bool) -> RunFacts | None:
    """What the agent of a trial is told of its run; None where nobody asks.

    Args:
        trial: The trial.
        is_flushed: Whether all that its decision rests on is durable.
        is_best: Whether it is the experiment's best.
    """
    if not trial.context.spec.trackers.shows_ends:
        return None
    return RunFacts(foresee_run_status(trial, is_flushed=is_flushed), is_best)


class RunDescription(TypedDict, total=False):
    """The fields of a `StoredTrial` that are about the trial's run."""

    uid: str
    run: RunFacts
    attempt: int


def describe_tracked_run(experiment: Experiment, trial: TrialMachine) -> RunDescription:
    """What a storage pod is to tell a tracker of a trial, by what is recorded; nothing where there is no tracker."""
    if not trial.context.spec.trackers.shows_ends:
        return {}
    best = experiment.status.best
    is_best = best is not None and best.trial == trial.name
    last = trial.saved.last_attempt
    facts = RunFacts(find_run_status(trial.saved), is_best)
    return {"uid": trial.seen.uid, "run": facts, "attempt": last.attempt if last is not None else 0}


def find_run_status(status: TrialStatus) -> RunStatus:
    """What the run is shown as by the trial's state."""
    match status.state:
        case TrialState.TERMINATED:
            return _find_of_end(status.reason)
        case TrialState.ERROR:
            return RunStatus.FAILED
        case TrialState.RUNNING:
            return RunStatus.RUNNING
        case _:
            return RunStatus.SCHEDULED


def foresee_run_status(trial: TrialMachine, *, is_flushed: bool) -> RunStatus:
    """What the run of a trial with an agent will be shown as, as far as that can be told before the agent's end.

    Args:
        trial: The trial.
        is_flushed: Whether all that its decision rests on is durable.
    """
    if trial.is_finished:
        return find_run_status(trial.saved)
    if is_flushed and trial.saved.decision is not None:
        return _find_of_decision(trial.saved.decision)
    pod = trial.pod
    end = next((end for end in pod.ends if end.name == pod.program), None) if pod is not None else None
    if pod is None or (end is None and not pod.deleting):
        return RunStatus.RUNNING
    if end is None or pod.interrupted:
        return RunStatus.SCHEDULED
    if end.exit_code:
        return RunStatus.FAILED  # until its next attempt, if it gets one
    is_trained = trial.context.spec.evaluation is not None and not trial.is_evaluated
    return RunStatus.SCHEDULED if is_trained else RunStatus.FINISHED


def _find_of_decision(decision: Decision) -> RunStatus:
    match decision.action:
        case DecisionAction.STOP:
            return _find_of_end(decision.reason)
        case DecisionAction.FAIL:
            return RunStatus.FAILED
        case _:
            return RunStatus.SCHEDULED


def _find_of_end(reason: str) -> RunStatus:
    return RunStatus.KILLED if reason in _KILLED else RunStatus.FINISHED
