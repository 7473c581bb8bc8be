"""The end of an attempt: one pure function from what was observed to the trial's next status.

Everything that follows from an end goes into one status, which is written next. The attempt's id is stored beside the
counter that it was added to, so no attempt is counted twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from podtune.api.conditions import clip
from podtune.api.names import DecisionAction, DecisionKind, TrialReason, TrialState
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import MAX_LOG_TAIL, AttemptEnd, Clone, Decision, PodRef, TrialStatus
from podtune.protocol.messages import StoreProblem, Unstored
from podtune.runner.actions import EmitEvent
from podtune.runner.attempts import lost_work, retries, usable_results
from podtune.runner.attempts.classification import (
    RESTORE_FAILED,
    AttemptOutcome,
    FailureClass,
    classify,
    fail_without_result,
)
from podtune.runner.attempts.out_of_memory import help_after_out_of_memory
from podtune.runner.attempts.pods import AttemptPods
from podtune.runner.records import Trial
from podtune.runner.scheduling import clones, evaluations
from podtune.runner.scheduling.evaluations import FULL_LENGTH_REASONS
from podtune.runner.timestamps import format_rfc3339
from podtune.runner.trial import ledger, usage
from podtune.runner.trial.ledger import DecisionInputs

MAX_LOG_LINE = 160
"""How many characters of a program's last line messages quote."""
NOT_OF_PROGRAM = (FailureClass.COMPLETE, FailureClass.OURS, FailureClass.DISRUPTION, FailureClass.INFRASTRUCTURE)
"""Ends that the program's log says nothing of."""


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """What is known of an attempt that has ended.

    Attributes:
        trial: The Trial, as the API server has it.
        status: Its status as it should be, with all that the agent has left behind.
        number: The attempt's number.
        pods: Its pods, as they were last seen; none where they could not be made.
        spec: The experiment's spec.
        run_generation: How many times the experiment has resumed after an end.
        home: Where the attempt's checkpoints are; empty without a store.
        said_done: Whether the program had said that it was done.
        unstored: Checkpoints that were not stored, by the agent's last word, or else its last report.
        store_problem: What was wrong with the store at last.
        results_lost: Whether results of the trial are lost.
        log_tail: The last lines that the program has printed.
        records_times: Whether it is put on record where the attempt was, when it began and when it ended.
    """

    trial: Trial
    status: TrialStatus
    number: int
    pods: AttemptPods
    spec: ExperimentSpec
    run_generation: int = 0
    home: str = ""
    said_done: bool = False
    unstored: Unstored | None = None
    store_problem: StoreProblem | None = None
    results_lost: bool = False
    log_tail: str = ""
    records_times: bool = False


class SchedulerEvent(Enum):
    """What the scheduler has to be told of an attempt's end."""

    RECONFIGURED = auto()
    """An exploit was undone: the trial has the configuration of before."""
    COMPLETED = auto()
    FAILED = auto()
    REMOVED = auto()


@dataclass(frozen=True, slots=True)
class AttemptEnding:
    """What follows from the end of an attempt.

    Attributes:
        scheduler_events: What the scheduler is told, in this order.
    """

    status: TrialStatus
    outcome: AttemptOutcome
    scheduler_events: tuple[SchedulerEvent, ...]
    events: tuple[EmitEvent, ...]


@dataclass(frozen=True, slots=True)
class _NextState:
    """What a trial is after an attempt.

    Attributes:
        keeps_decision: Whether the decision that ended the attempt stays on record.
    """

    state: TrialState
    reason: str
    message: str
    retry_at: float | None = None
    keeps_decision: bool = True
    entry: tuple[DecisionKind, str, DecisionInputs] | None = None


def end_attempt(ended: EndedAttempt, now: float) -> AttemptEnding:
    """Classifies the end of an attempt and moves the trial on."""
    outcome, raised = help_after_out_of_memory(_classify(ended), ended.trial.spec, ended.status, ended.spec.failures)
    known, pod = ended.status.pod, ended.pods.members[0]
    since = known.since if known is not None and known.uid == pod.uid else ""
    facts: dict[str, object] = {
        "pod": PodRef(name=pod.name, uid=pod.uid, node=pod.node, since=since),
        "usage": usage.conclude(ended.status, ended.pods.members, now),
    }
    if raised is not None:
        facts["raised_memory"] = raised
    if pod.training and ended.status.start_time is None:
        facts["start_time"] = format_rfc3339(pod.started or now)
    loss = lost_work.find_loss(ended.status, ended.number, ended.home, ended.unstored, ended.store_problem)
    if loss is not None and ended.status.evaluation is None:  # what an evaluation stores counts for nothing
        facts["lost_checkpoint"] = loss
    return _move_on(ended, outcome, _record(ended, outcome, pod.uid, facts, now), now)


def reject_attempt(ended: EndedAttempt, message: str, now: float) -> AttemptEnding:
    """Ends an attempt before it begins, since the API server refuses one of its pods."""
    outcome = AttemptOutcome(FailureClass.INFRASTRUCTURE, TrialReason.POD_REJECTED, message)
    return _move_on(ended, outcome, _record(ended, outcome, "", {"pod": None}, now), now)


def _classify(ended: EndedAttempt) -> AttemptOutcome:
    failures = ended.spec.failures
    outcome = classify(
        ended.pods.members,
        ended.status.decision,
        said_done=ended.said_done,
        failures=failures,
        log_tail=ended.log_tail,
    )
    if not _is_whole(outcome):
        return outcome
    if _is_evaluated_next(ended):
        if evaluations.choose_evaluated(ended.status, ended.spec) is not None:
            return outcome
        lack, reason = evaluations.NO_CHECKPOINT, TrialReason.NOTHING_TO_EVALUATE
    else:
        lack, reason = _find_lack(ended), TrialReason.NO_USABLE_RESULT
    return fail_without_result(outcome, lack, failures, ended.log_tail, reason) if lack else outcome


def _is_whole(outcome: AttemptOutcome) -> bool:
    """Whether a stage has run its full time; a trial that was stopped earlier keeps the reason for that."""
    is_stopped_at_end = outcome.failure_class is FailureClass.OURS and outcome.reason in FULL_LENGTH_REASONS
    return outcome.failure_class is FailureClass.COMPLETE or is_stopped_at_end


def _is_evaluated_next(ended: EndedAttempt) -> bool:
    """Whether a trial is evaluated whose training has run its full time."""
    return ended.spec.evaluation is not None and ended.status.evaluation is None


def _find_lack(ended: EndedAttempt) -> str:
    """What a trial that has run its full time failed to report, if that is an error; otherwise empty."""
    objective, status = ended.spec.objective, ended.status
    if objective.missing == "lenient":
        return ""
    if status.evaluation is not None:
        status = evaluations.preview_end(status, ended.spec)
    lack = usable_results.describe_lack(status, objective)
    if not lack:
        return ""
    lost = "; some of its results were lost" if ended.results_lost else ""
    return f"{lack}{lost}; {usable_results.describe_remedy(status, ended.spec)}"


def _record(
    ended: EndedAttempt, outcome: AttemptOutcome, uid: str, facts: dict[str, object], now: float
) -> TrialStatus:
    """The status with what has happened; what the trial is now is still to be decided."""
    end = AttemptEnd(
        attempt=ended.number,
        uid=uid,
        failure_class=str(outcome.failure_class),
        reason=str(outcome.reason),
        message=clip(outcome.message),
        exit_code=outcome.exit_code,
        log_tail=_keep_last_lines(ended.log_tail) if outcome.failure_class.is_failure else "",
        **(_describe_course(ended, now) if ended.records_times else {}),
    )
    changes = {
        **facts,
        "attempt": ended.number,
        "last_attempt": end,
        "durable_seq": 0,
        "failed_nodes": retries.add_node_failure(ended.status, outcome, ended.spec.failures, now),
        **retries.count_attempt(ended.status, outcome.failure_class),
    }
    return ended.status.model_copy(update=changes)


def _describe_course(ended: EndedAttempt, now: float) -> dict[str, str]:
    """Where the attempt was, when it began and when it ended; no clock of a node brings the times into disorder."""
    pods = ended.pods.members
    created = min([now, *(pod.created for pod in pods if pod.created)])
    started = [min(now, max(created, pod.training_since)) for pod in pods if pod.training_since]
    return {
        **({"pod": pods[0].name, "node": pods[0].node} if pods else {}),
        "creation_time": format_rfc3339(created),
        **({"start_time": format_rfc3339(min(started))} if started else {}),
        "end_time": format_rfc3339(now),
    }


def _move_on(ended: EndedAttempt, outcome: AttemptOutcome, recorded: TrialStatus, now: float) -> AttemptEnding:
    """Decides what the trial is next, and whom to tell."""
    status, is_undone = recorded, False
    clone = status.clone if outcome.reason == RESTORE_FAILED else None
    if clone is not None and clones.restores_from_source(status):
        status = clones.drop_restore_source(status, clone)
    elif clone is not None:
        status, is_undone = _undo_clone(status, clone, outcome.message, now), True
    following = _choose_next_state(ended, status, outcome, now)
    status = _apply(following, status, ended.run_generation, now)
    status = _change_stage(ended, outcome, status, now)
    return AttemptEnding(
        status,
        outcome,
        _list_scheduler_events(outcome, status, is_undone=is_undone) if ended.status.evaluation is None else (),
        _list_events(ended, outcome, status),
    )


def _change_stage(ended: EndedAttempt, outcome: AttemptOutcome, status: TrialStatus, now: float) -> TrialStatus:
    """Has a trial evaluated whose training has ended well, and gives one that was evaluated its result."""
    if status.state is TrialState.ERROR:
        return status
    if status.evaluation is not None:
        if outcome.failure_class is FailureClass.COMPLETE:
            return evaluations.conclude_evaluation(status, ended.spec)
        return evaluations.restart_evaluation(status)
    chosen = evaluations.choose_evaluated(status, ended.spec) if ended.spec.evaluation is not None else None
    if chosen is None or not _is_whole(outcome):
        return status
    return evaluations.begin_evaluation(status, chosen, now, run_generation=ended.status.run_generation)


def _undo_clone(status: TrialStatus, clone: Clone, problem: str, now: float) -> TrialStatus:
    """Takes an exploit back whose checkpoint can't be restored: the trial is again what it was before."""
    status = clones.undo(status, clone)
    own = clones.list_own_checkpoints(status)
    where = f"from its own checkpoint of iteration {own[0].step}" if own else "from scratch"
    message = (
        f"the clone of {clone.donor} was undone; the trial continues {where} with its previous parameters: {problem}"
    )
    numbers: DecisionInputs = {"donor": clone.donor, "checkpoint": clone.checkpoint.step}
    return _log(status, DecisionKind.UNDO, message, numbers, now)


def _choose_next_state(ended: EndedAttempt, status: TrialStatus, outcome: AttemptOutcome, now: float) -> _NextState:
    match outcome.failure_class:
        case FailureClass.OURS:
            assert status.decision is not None  # else the class were another
            return _follow_decision(ended, status, status.decision, outcome, now)
        case FailureClass.COMPLETE if status.evaluation is not None:
            reason, message = status.evaluation.reason, status.evaluation.message
            return _NextState(TrialState.TERMINATED, reason, message, keeps_decision=False)
        case FailureClass.COMPLETE:
            return _NextState(TrialState.TERMINATED, TrialReason.COMPLETED, "", keeps_decision=False)
        case FailureClass.FINAL | FailureClass.UNUSABLE:
            message = lost_work.add_loss(status, _add_last_line(outcome, ended.log_tail))
            reason = str(outcome.reason)
            entry = (DecisionKind.FAIL, outcome.message, {"reason": reason})
            is_logged = status.decision is not None  # that stands in the ledger
            return _NextState(TrialState.ERROR, reason, message, entry=None if is_logged else entry)
        case _:
            return _retry(ended, status, outcome, now)


def _follow_decision(
    ended: EndedAttempt, status: TrialStatus, decision: Decision, outcome: AttemptOutcome, now: float
) -> _NextState:
    """The decision that was recorded is what the trial's state becomes.

    A pause holds however the attempt ended, and no failure is counted: accepted results stay, and the trial resumes
    from its last checkpoint. A program that fails for a lasting reason will fail again then, and that is reported.
    """
    match decision.action:
        case DecisionAction.REQUEUE if decision.reason == TrialReason.NOT_PLACED:
            wait = retries.build_placement_timeout(ended.spec).compute_delay(ended.number, f"{ended.trial.uid}/requeue")
            return _NextState(
                TrialState.PENDING,
                TrialReason.NOT_PLACED,
                outcome.message,
                retry_at=now + wait,
                keeps_decision=False,
                entry=(DecisionKind.RETRY, outcome.message, {}),
            )
        case DecisionAction.REQUEUE if decision.is_requested_retry:
            message = lost_work.add_loss(status, f"{outcome.message}; goes on {_describe_start(ended, status)}")
            return _NextState(TrialState.PENDING, TrialReason.QUEUED, message, retry_at=now, keeps_decision=False)
        case DecisionAction.REQUEUE:
            return _NextState(
                TrialState.PENDING, TrialReason.QUEUED, outcome.message, retry_at=now, keeps_decision=False
            )
        case DecisionAction.PAUSE:
            message = lost_work.add_loss(status, f"{outcome.message}{_describe_lack_of_checkpoint(ended, status)}")
            queued_at = now if decision.reason == TrialReason.PAUSED_BY_SCHEDULER else None  # its place in the queue
            return _NextState(TrialState.PAUSED, decision.reason, message, retry_at=queued_at)
        case _:
            message = lost_work.add_loss(status, decision.message)
            return _NextState(TrialState.TERMINATED, decision.reason, message)


def _retry(ended: EndedAttempt, status: TrialStatus, outcome: AttemptOutcome, now: float) -> _NextState:
    """Sends the trial to the back of the queue until its backoff is over, unless it has used all its attempts.

    The ledger omits the last line of the log, which is in the status anyway.
    """
    failures, failure_class = ended.spec.failures, outcome.failure_class
    told = _add_last_line(outcome, ended.log_tail)
    budget = retries.find_budget(status, failures, failure_class, ended.spec.evaluation)
    inputs: DecisionInputs = {str(failure_class): budget.spent}
    if budget.is_exceeded:
        follows = f"not retried: {budget.words}"
        message = lost_work.add_loss(status, f"{told}; {follows}")
        entry = (DecisionKind.FAIL, f"{outcome.message}; {follows}", inputs)
        return _NextState(TrialState.ERROR, budget.reason, message, entry=entry)
    follows = f"will be retried {_describe_start(ended, status)}"
    return _NextState(
        TrialState.PENDING,
        TrialReason.BACKING_OFF,
        lost_work.add_loss(status, f"{told}; {follows}"),
        retry_at=now + retries.draw_wait(failures, budget.spent, _key_wait(ended, failure_class)),
        keeps_decision=False,
        entry=(DecisionKind.RETRY, f"{outcome.message}; {follows}", inputs),
    )


def _key_wait(ended: EndedAttempt, failure_class: FailureClass) -> str:
    """What the jitter of a wait goes by: the trial, the kind of failure, and the stage where that is the second."""
    stage = "" if ended.status.evaluation is None else "/evaluation"
    return f"{ended.trial.uid}/{failure_class}{stage}"


def _apply(following: _NextState, status: TrialStatus, run_generation: int, now: float) -> TrialStatus:
    """The status of a trial in its next state."""
    changes: dict[str, object] = {
        "state": following.state,
        "reason": str(following.reason),
        "message": clip(following.message),
        "retry_time": None if following.retry_at is None else format_rfc3339(following.retry_at),
    }
    if not following.keeps_decision:
        changes["decision"] = None
    if following.state.is_finished:
        changes |= {
            "completion_time": format_rfc3339(now),
            "clone": None,
            "exploit": None,
            "run_generation": run_generation,
        }
    status = status.model_copy(update=changes)
    return status if following.entry is None else _log(status, *following.entry, now)


def _log(status: TrialStatus, kind: DecisionKind, message: str, inputs: DecisionInputs, now: float) -> TrialStatus:
    return ledger.enter(status, kind, message, inputs, now=now, attempt=status.attempt, step=status.iteration)


def _list_scheduler_events(
    outcome: AttemptOutcome, status: TrialStatus, *, is_undone: bool
) -> tuple[SchedulerEvent, ...]:
    holds = {
        SchedulerEvent.RECONFIGURED: is_undone,
        SchedulerEvent.COMPLETED: outcome.failure_class is FailureClass.COMPLETE,
        SchedulerEvent.FAILED: outcome.failure_class.is_failure,
        SchedulerEvent.REMOVED: status.state is TrialState.ERROR,
    }
    return tuple(event for event, is_due in holds.items() if is_due)


def _list_events(ended: EndedAttempt, outcome: AttemptOutcome, status: TrialStatus) -> tuple[EmitEvent, ...]:
    events = []
    if outcome.failure_class.is_failure:
        events.append(EmitEvent(ended.trial.name, outcome.reason, clip(status.message), warning=True))
    if loss := lost_work.describe_last_loss(status):
        events.append(EmitEvent(ended.trial.name, TrialReason.CHECKPOINT_LOST, loss, warning=True))
    return tuple(events)


def _keep_last_lines(lines: str) -> str:
    """The lines of a log that the status keeps: whole ones, if they are not too long."""
    if len(lines) <= MAX_LOG_TAIL:
        return lines
    kept = lines[-MAX_LOG_TAIL:]
    return kept.partition("\n")[2] or kept


def _add_last_line(outcome: AttemptOutcome, log_tail: str) -> str:
    """Says what became of an attempt; of a bad end, with the last line of its log."""
    lines = [line.strip() for line in log_tail.splitlines() if line.strip()]
    if not lines or outcome.failure_class in NOT_OF_PROGRAM:
        return outcome.message
    line = lines[-1] if len(lines[-1]) <= MAX_LOG_LINE else f"{lines[-1][: MAX_LOG_LINE - 1]}…"
    return f"{outcome.message} (last line of its log: {line})"


def _describe_lack_of_checkpoint(ended: EndedAttempt, status: TrialStatus) -> str:
    """Says what a pause costs a trial that has no checkpoint to continue from."""
    if status.evaluation is not None:
        return "; the evaluation will start anew"
    if clones.awaits_restore_source(ended.trial.spec, status) or clones.to_restore(status):
        return ""
    lack = "checkpoints.store" if ended.spec.checkpoints.store is None else "checkpoint"
    return f"; it will start from scratch (no {lack})"


def _describe_start(ended: EndedAttempt, status: TrialStatus) -> str:
    if status.evaluation is not None:
        return f"with the checkpoint of iteration {status.evaluation.step}"
    if clones.awaits_restore_source(ended.trial.spec, status):
        return "from another checkpoint, if there is one"
    start = next(iter(clones.to_restore(status)), None)
    return f"from the checkpoint of iteration {start.step}" if start else "from scratch (no checkpoint)"
