"""A person's request to retry a trial (`spec.retry`): the attempt that it names ends, and the next one goes on.

The request stays in the spec, and the new attempt must not be ended by it as well. So it names an attempt, and the
status says which one it was carried out for. That is written together with the decision, or before the attempt gets
pods. A restarted operator thus neither repeats the request nor loses it.

With `step`, the trial goes back to an earlier checkpoint of its own. Attempts start from the last checkpoint in the
status, so the chosen one moves there, and those that were taken after it count as older. That is written together with
the decision, too, and what the attempt stores from then on is not recorded. Results up to the iteration that the trial
had reached were told before, so they are hidden from the scheduler, as after any restore.
"""

from __future__ import annotations

from podtune.api.names import DecisionAction, DecisionKind, DesiredState, TrialReason, TrialState
from podtune.api.resources.trial import Checkpoint
from podtune.runner.scheduling import clones
from podtune.runner.timestamps import format_rfc3339, parse_rfc3339
from podtune.runner.trial.machine import TrialMachine


def carry_out(trial: TrialMachine, now: float) -> None:
    """Ends the attempt of a trial that is to be retried; one that waits for its backoff starts at once.

    A trial without pods that goes back to an earlier checkpoint does so when its next attempt starts.
    """
    asked = trial.spec.retry
    if asked is None or not _is_open(trial):
        return
    back_to = None if asked.step is None else clones.find_own_checkpoint(trial.status, asked.step)
    if asked.step is not None and back_to is None:
        return  # `find_problem_with_step` says why
    if trial.current.pods:
        if trial.spec.desired_state is DesiredState.RUNNING:  # else it is to be paused first
            _end_attempt(trial, back_to, now)
    elif back_to is not None:
        _go_back_unstarted(trial, back_to, now)
    else:
        _start_at_once(trial, now)


def find_problem_with_step(trial: TrialMachine) -> str:
    """Says why a trial can't go back to the checkpoint that is asked for; empty where it can, or isn't to."""
    asked = trial.spec.retry
    if asked is None or asked.step is None or trial.is_finished or not _is_open(trial):
        return ""
    return clones.explain_lack(trial.status, asked.step)


def _is_open(trial: TrialMachine) -> bool:
    asked = trial.spec.retry
    return asked is not None and asked.attempt == trial.attempt != trial.status.retried_attempt


def _end_attempt(trial: TrialMachine, back_to: Checkpoint | None, now: float) -> None:
    if trial.status.decision is not None or trial.current.pods.is_over:
        return  # it ends anyway
    message = f"attempt {trial.attempt} is retried by request (spec.retry)" + _describe_origin(back_to)
    trial.log_decision(DecisionKind.RETRY, message, {}, now=now)
    step = None if back_to is None else back_to.step
    trial.decide(DecisionAction.REQUEUE, TrialReason.RETRY_REQUESTED, message, restore_step=step, now=now)
    trial.set(retried_attempt=trial.attempt)
    if back_to is not None:
        _put_last(trial, back_to)


def _go_back_unstarted(trial: TrialMachine, back_to: Checkpoint, now: float) -> None:
    message = f"attempt {trial.attempt} starts by request (spec.retry)" + _describe_origin(back_to)
    trial.log_decision(DecisionKind.RETRY, message, {}, now=now)
    _put_last(trial, back_to)
    trial.set(retried_attempt=trial.attempt)
    if trial.is_to_run:
        trial.explain(TrialState.PENDING, TrialReason.QUEUED, message)
        _end_backoff(trial, now)
    trial.touch(now)


def _start_at_once(trial: TrialMachine, now: float) -> None:
    if not trial.is_to_run or not _end_backoff(trial, now):
        return
    message = f"attempt {trial.attempt} starts without waiting any longer, by request (spec.retry)"
    trial.log_decision(DecisionKind.RETRY, message, {}, now=now)
    trial.explain(TrialState.PENDING, TrialReason.QUEUED, message)
    trial.set(retried_attempt=trial.attempt)
    trial.touch(now)


def _end_backoff(trial: TrialMachine, now: float) -> bool:
    """Has a trial wait no longer; whether it did. One that only waits for a slot keeps its place in the queue."""
    if (parse_rfc3339(trial.status.retry_time) or 0.0) <= now:
        return False
    trial.set(retry_time=format_rfc3339(now))
    return True


def _describe_origin(back_to: Checkpoint | None) -> str:
    return "" if back_to is None else f", from the checkpoint of iteration {back_to.step}"


def _put_last(trial: TrialMachine, chosen: Checkpoint) -> None:
    """Has the next attempt start from a checkpoint; if it can't be restored, from those that were stored before it."""
    known = trial.status.checkpoints
    at = known.index(chosen)
    trial.set(checkpoints=[*known[at + 1 :], *known[: at + 1]], checkpoint=chosen)
