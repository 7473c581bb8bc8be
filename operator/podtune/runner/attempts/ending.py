"""The end of an attempt: what is still needed to classify it, and what follows from its class."""

from __future__ import annotations

from dataclasses import dataclass

from podtune.api.base import seconds
from podtune.api.conditions import clip
from podtune.api.names import DecisionAction, TrialReason, TrialState
from podtune.api.resources.trial import MAX_LOG_TAIL, AttemptEnd, PodRef
from podtune.runner.attempts import gangs, logs, lost_work, nodes, retries, usable_results
from podtune.runner.attempts.classification import (
    RESTORE_FAILED,
    AttemptOutcome,
    FailureClass,
    classify,
    without_result,
)
from podtune.runner.records import Pod
from podtune.runner.retry import Backoff
from podtune.runner.scheduling import clones
from podtune.runner.scheduling.result_processor import ResultProcessor
from podtune.runner.timestamps import rfc3339
from podtune.runner.trial import reports, usage
from podtune.runner.trial.ledger import DecisionKind
from podtune.runner.trial.machine import TrialMachine

WHOLE = frozenset({TrialReason.MAX_TIME_REACHED, TrialReason.STOPPED_BY_CRITERION})
"""Reasons of stopped trials that have trained for as long as they were meant to."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of a trial when its attempt ended.

    Attributes:
        outcome: How the attempt was classified.
        completed: Whether the trial came to a good end that the scheduler has not been told of.
    """

    outcome: AttemptOutcome
    completed: bool = False


def conclude(trial: TrialMachine, pod: Pod, processor: ResultProcessor, now: float) -> Ending:
    """Takes in the end of the current attempt and moves the trial on to its next state.

    Everything changes in the one status that is written next: the attempt's id beside the counter it went into, so an
    attempt is never counted twice.
    """
    final = trial.final_commit()
    if final is not None:
        reports.take_final(trial, final, logs.unacked_results(trial), processor, now)
    lost_work.note_loss(trial, final)
    decision = trial.status.decision
    outcome = classify(
        trial.attempt_pods.members,
        None if decision is not None and decision.action == DecisionAction.END else decision,
        said_done=final is not None and final.done,
        failures=trial.context.spec.failures,
        log_tail=logs.tail(trial),
        swept=gangs.swept(decision, trial.attempt_pods),
    )
    lack = _lack(trial, outcome)
    if lack:
        outcome = without_result(outcome, lack, trial.context.spec.failures, logs.tail(trial))
    if pod.training and trial.status.start_time is None:
        trial.set(start_time=rfc3339(pod.started or now))
    trial.set(usage=usage.concluded(trial.status, trial.attempt_pods.members, now))
    known = trial.status.pod
    since = known.since if known is not None and known.uid == pod.uid else ""
    return _close(trial, PodRef(name=pod.name, uid=pod.uid, node=pod.node, since=since), outcome, processor, now)


def _lack(trial: TrialMachine, outcome: AttemptOutcome) -> str:
    """What a trial that has run as long as it should has not reported, where that is an error; else empty.

    One that was stopped earlier, by whomever, keeps the reason for that.
    """
    objective = trial.context.spec.objective
    whole = outcome.failure_class is FailureClass.COMPLETE or (
        outcome.failure_class is FailureClass.OURS and outcome.reason in WHOLE
    )
    if objective.missing == "lenient" or not whole:
        return ""
    lack = usable_results.lack(trial.status, objective)
    if not lack:
        return ""
    lost = "; results of it were lost" if trial.results_lost else ""
    return f"{lack}{lost}; {usable_results.advice(objective)}"


def reject(trial: TrialMachine, message: str, processor: ResultProcessor, now: float) -> Ending:
    """The API server refuses the attempt's pod: an attempt that ended before it began."""
    outcome = AttemptOutcome(FailureClass.INFRASTRUCTURE, TrialReason.POD_REJECTED, message)
    return _close(trial, None, outcome, processor, now)


def _close(
    trial: TrialMachine, pod: PodRef | None, outcome: AttemptOutcome, processor: ResultProcessor, now: float
) -> Ending:
    _record(trial, pod, outcome, now)
    told = logs.with_last_line(trial, outcome)
    trial.attempt_over()
    if outcome.reason == RESTORE_FAILED and clones.restores_from_source(trial.status):
        trial.status = clones.without_restore_source(trial.status)
    elif outcome.reason == RESTORE_FAILED and trial.status.clone is not None:
        processor.undo_clone(trial, outcome.message, now)
    trial.touch(now)
    return _next_state(trial, outcome, told, now)


def _record(trial: TrialMachine, pod: PodRef | None, outcome: AttemptOutcome, now: float) -> None:
    trial.set(
        attempt=trial.attempt,
        pod=pod,
        last_attempt=AttemptEnd(
            attempt=trial.attempt,
            uid=pod.uid if pod else "",
            failure_class=str(outcome.failure_class),
            reason=str(outcome.reason),
            message=clip(outcome.message),
            exit_code=outcome.exit_code,
            log_tail=_last_lines(trial, outcome),
        ),
        durable_seq=0,
        failed_nodes=nodes.noted(trial.status, outcome, trial.context.spec.failures, now),
        **retries.counted(trial.status, outcome.failure_class),
    )


def _last_lines(trial: TrialMachine, outcome: AttemptOutcome) -> str:
    """The lines of the log that the status keeps: whole ones, if they are not too long, and of a bad end alone."""
    lines = logs.tail(trial) if outcome.failure_class.is_failure else ""
    if len(lines) <= MAX_LOG_TAIL:
        return lines
    kept = lines[-MAX_LOG_TAIL:]
    return kept.partition("\n")[2] or kept


def _next_state(trial: TrialMachine, outcome: AttemptOutcome, told: str, now: float) -> Ending:
    """Moves the trial on; `told` is what became of the attempt, with the last line of its log."""
    match outcome.failure_class:
        case FailureClass.OURS:
            return _carry_out(trial, outcome, now)
        case FailureClass.COMPLETE:
            trial.set(decision=None)
            trial.finish(TrialState.TERMINATED, TrialReason.COMPLETED, "", now)
            return Ending(outcome, completed=True)
        case FailureClass.FINAL | FailureClass.UNUSABLE:
            if trial.status.decision is None:  # else that stands in the ledger
                trial.log_decision(DecisionKind.FAIL, outcome.message, {"reason": str(outcome.reason)}, now=now)
            trial.finish(TrialState.ERROR, outcome.reason, lost_work.with_loss(trial.status, told), now)
        case _:
            _retry(trial, outcome, told, now)
    return Ending(outcome)


def _carry_out(trial: TrialMachine, outcome: AttemptOutcome, now: float) -> Ending:
    """The decision that was recorded is what the trial's state becomes.

    A pause stands however the attempt ended, and no failure is spent: results that were taken in stay, and the trial
    goes on from its last checkpoint. A program that fails for a reason will fail again then, and be told.
    """
    decision = trial.status.decision
    assert decision is not None  # else the class were another
    match decision.action:
        case DecisionAction.REQUEUE if decision.reason == TrialReason.NOT_PLACED:
            gangs.requeue(trial, outcome.message, now)
            return Ending(outcome)
        case DecisionAction.REQUEUE:
            trial.set(decision=None, retry_time=rfc3339(now))
            trial.explain(TrialState.PENDING, TrialReason.QUEUED, clip(outcome.message))
            return Ending(outcome)
        case DecisionAction.PAUSE:
            message = lost_work.with_loss(trial.status, f"{outcome.message}{_afresh(trial)}")
            trial.explain(TrialState.PAUSED, decision.reason, message)
            trial.set(retry_time=rfc3339(now) if trial.is_paused_by_scheduler else None)  # its place in the queue
            return Ending(outcome)
        case _:
            message = lost_work.with_loss(trial.status, decision.message)
            trial.finish(TrialState.TERMINATED, decision.reason, message, now)
            return Ending(outcome)


def _afresh(trial: TrialMachine) -> str:
    """What a pause costs a trial that has nothing to go on from."""
    if trial.awaits_restore_source or clones.to_restore(trial.status):
        return ""
    lack = "a checkpoint" if trial.context.store_prefix else "checkpoints.store"
    return f"; it will start afresh, for want of {lack}"


def _retry(trial: TrialMachine, outcome: AttemptOutcome, told: str, now: float) -> None:
    """Sends the trial to the back of the queue, not to run before its backoff is over, unless it has had its tries.

    The ledger does without the last line of the log, which stands in the status besides.
    """
    setting = trial.context.spec.failures
    budget = retries.of(trial.status, setting, outcome.failure_class)
    if budget.is_exceeded:
        follows = f"that was {budget.words}"
        trial.log_decision(
            DecisionKind.FAIL, f"{outcome.message}; {follows}", {str(outcome.failure_class): budget.spent}, now=now
        )
        trial.finish(TrialState.ERROR, budget.reason, lost_work.with_loss(trial.status, f"{told}; {follows}"), now)
        return
    backoff = Backoff(seconds(setting.backoff.initial), seconds(setting.backoff.max))
    wait = backoff.delay(budget.spent, f"{trial.uid}/{outcome.failure_class}")
    follows = f"will be retried {_place_to_go_on(trial)}"
    trial.set(decision=None)
    trial.log_decision(
        DecisionKind.RETRY, f"{outcome.message}; {follows}", {str(outcome.failure_class): budget.spent}, now=now
    )
    message = lost_work.with_loss(trial.status, f"{told}; {follows}")
    trial.explain(TrialState.PENDING, TrialReason.BACKING_OFF, message)
    trial.set(retry_time=rfc3339(now + wait))


def _place_to_go_on(trial: TrialMachine) -> str:
    if trial.awaits_restore_source:
        return "from another checkpoint, if there is one"
    start = next(iter(clones.to_restore(trial.status)), None)
    return f"from the checkpoint of iteration {start.step}" if start else "afresh, for want of a checkpoint"
