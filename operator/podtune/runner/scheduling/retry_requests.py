"""A person's request to retry a trial (`spec.retry`): the attempt that it names ends, and the next one goes on.

The request stays in the spec, and the new attempt must not be ended by it as well. So it names an attempt, and the
status says which one it was carried out for. That is written together with the decision, or before the attempt gets
pods. A restarted operator thus neither repeats the request nor loses it.
"""

from __future__ import annotations

from podtune.api.names import DecisionAction, TrialReason, TrialState
from podtune.runner.timestamps import format_rfc3339, parse_rfc3339
from podtune.runner.trial.ledger import DecisionKind
from podtune.runner.trial.machine import TrialMachine


def carry_out(trial: TrialMachine, now: float) -> None:
    """Ends the attempt of a trial that is to be retried; one that waits for its backoff starts at once."""
    if not _is_open(trial):
        return
    if trial.current.pods:
        _end_attempt(trial, now)
    else:
        _start_at_once(trial, now)


def _is_open(trial: TrialMachine) -> bool:
    asked = trial.spec.retry
    return asked is not None and asked.attempt == trial.attempt != trial.status.retried_attempt


def _end_attempt(trial: TrialMachine, now: float) -> None:
    if trial.status.decision is not None or trial.current.pods.is_over:
        return  # it ends anyway
    message = f"attempt {trial.attempt} is retried by request (spec.retry)"
    trial.log_decision(DecisionKind.RETRY, message, {}, now=now)
    trial.decide(DecisionAction.REQUEUE, TrialReason.RETRY_REQUESTED, message, now=now)
    trial.set(retried_attempt=trial.attempt)


def _start_at_once(trial: TrialMachine, now: float) -> None:
    if not trial.is_to_run or (parse_rfc3339(trial.status.retry_time) or 0.0) <= now:
        return
    message = f"attempt {trial.attempt} starts without waiting any longer, by request (spec.retry)"
    trial.log_decision(DecisionKind.RETRY, message, {}, now=now)
    trial.explain(TrialState.PENDING, TrialReason.QUEUED, message)
    trial.set(retry_time=format_rfc3339(now), retried_attempt=trial.attempt)
    trial.touch(now)
