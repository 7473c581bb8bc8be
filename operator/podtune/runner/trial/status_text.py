"""The text of a trial's status: projects what is known onto state, message and conditions."""

from __future__ import annotations

from collections.abc import Iterator

from podtune.api.conditions import MAX_MESSAGE, Condition, clip, find_condition, set_condition
from podtune.api.names import ConditionType, DesiredState, TrialReason, TrialState
from podtune.api.resources.trial import AttemptEnd, TrialStatus
from podtune.protocol.messages import Restored
from podtune.runner import resources
from podtune.runner.attempts import lost_work, usable_results
from podtune.runner.records import Pod, Waiting
from podtune.runner.scheduling import retry_requests
from podtune.runner.timestamps import format_rfc3339
from podtune.runner.trial import ledger, own_limits, revisions
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.phase import USER_PAUSES, TrialPhase
from podtune.runner.trial.results import show_briefly

HELD = "; also paused by its user (spec.desiredState)"
_OF_ROOT = ("has runAsNonRoot and image", "breaks non-root policy")
"""Pieces of what a kubelet says that won't start a container as root, or as a user that it can't tell from root."""


def explain_pods(trial: TrialMachine, limits: resources.TrialLimits, now: float) -> None:
    """Says in the status what the current attempt's pods are doing."""
    waiting = trial.current.pods.not_started
    if trial.status.decision is not None:
        if trial.explain(trial.status.state or TrialState.PENDING, TrialReason.DRAINING, trial.status.decision.message):
            trial.touch(now)
    elif taken := next((pod for pod in trial.current.pods if pod.disruption and not pod.is_over), None):
        message = f"{taken.disruption}; waiting for pod {taken.name} on node {taken.node} to end"
        if trial.explain(trial.status.state or TrialState.PENDING, TrialReason.DISRUPTED, clip(message)):
            trial.touch(now + trial.context.settings.pending_debounce)
    elif trial.current.pods.lacks_some:
        return  # why they can't be made is said where that is known
    elif waiting is None:
        if trial.status.state is not TrialState.RUNNING or trial.status.attempt != trial.attempt:
            trial.set(attempt=trial.attempt, start_time=trial.status.start_time or format_rfc3339(now), retry_time=None)
            _explain_running(trial, limits)
            trial.touch(now + trial.context.settings.running_debounce)
    else:
        reason, message = _explain_pending(trial, waiting)
        if trial.current.pods.replicas > 1:
            message = f"rank {waiting.rank}{f' ({waiting.role})' if waiting.role else ''}: {message}"
        before = trial.status.reason
        if trial.explain(TrialState.PENDING, reason, clip(message)):
            trial.set(attempt=trial.attempt)
            settings = trial.context.settings
            kept_from_starting = reason != TrialReason.STARTING
            patience = settings.pending_debounce if kept_from_starting else settings.starting_debounce
            trial.touch(now + (settings.message_debounce if before == reason else patience))


def describe_pending_pod(trial: TrialMachine, pod: Pod, waiting: Waiting) -> str:
    """What a pod waits for, in the kubelet's or the scheduler's words, and what to do where these don't say."""
    if not any(piece in waiting.message for piece in _OF_ROOT):
        return f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
    path = trial.context.spec.find_pod_role(pod.rank, evaluates=trial.is_evaluated).path
    remedy = f"set spec.{path}.spec.securityContext.runAsUser to a user other than 0"
    return f"{waiting.reason}: {waiting.message}; {remedy}, or use an image whose USER is such a number"


def explain_queue(trial: TrialMachine, now: float) -> None:
    """Says in the status that a trial without a pod waits for its turn."""
    if trial.status.state is None:
        trial.explain(TrialState.PENDING, TrialReason.QUEUED, "waiting for a free slot (maxConcurrentTrials)")
        trial.touch(now + trial.context.settings.starting_debounce)


def note_generation(trial: TrialMachine, now: float) -> None:
    """Has the status say, before long, that a changed spec was looked at."""
    if trial.seen.generation != trial.status.observed_generation and trial.status.observed_generation >= 0:
        trial.touch(now + trial.context.settings.pending_debounce)


def finish_wording(trial: TrialMachine, limits: resources.TrialLimits, now: float) -> None:
    """Brings what is derived from the rest up to date: done right before a write, never a reason for one."""
    if trial.status.state is TrialState.RUNNING and trial.status.reason in (
        TrialReason.TRAINING,
        TrialReason.EVALUATING,
    ):
        _explain_running(trial, limits)
    elif trial.status.state is TrialState.TERMINATED and trial.status.reason == TrialReason.COMPLETED:
        message = lost_work.add_loss(trial.status, _format_completion(trial))
        trial.explain(TrialState.TERMINATED, TrialReason.COMPLETED, message)
    elif trial.phase is TrialPhase.PAUSED_BY_SCHEDULER:
        trial.explain(TrialState.PAUSED, TrialReason.PAUSED_BY_SCHEDULER, _pause_message(trial))
    trial.set(
        conditions=list(_build_conditions(trial, now)),
        observed_generation=trial.seen.generation,
        folder=trial.folder if trial.status.attempt else "",
        best_text=show_briefly(trial.status.best_value),
    )
    trial.status = ledger.fit(trial.spec, trial.status)


def _explain_running(trial: TrialMachine, limits: resources.TrialLimits) -> None:
    if trial.is_evaluated:
        trial.explain(TrialState.RUNNING, TrialReason.EVALUATING, _format_evaluation(trial))
    else:
        trial.explain(TrialState.RUNNING, TrialReason.TRAINING, format_progress(trial, limits))


def _format_evaluation(trial: TrialMachine) -> str:
    """Such as: evaluates the checkpoint of iteration 9; accuracy 0.91; attempt 3 after exit code 1."""
    evaluation, metric = trial.status.evaluation, trial.context.spec.objective.metric
    assert evaluation is not None  # the caller has looked
    parts = [f"evaluates the checkpoint of iteration {evaluation.step}"]
    if metric in evaluation.result:
        parts.append(f"{metric} {evaluation.result[metric]}")
    last = trial.status.last_attempt
    if last is not None and last.attempt >= evaluation.attempt:
        parts.append(f"attempt {trial.attempt} after {_describe_end(last)}")
    if trial.current.store_problem is not None:
        parts.append(trial.current.store_problem.message)
    return clip("; ".join(parts))


def format_progress(trial: TrialMachine, limits: resources.TrialLimits) -> str:
    """Such as: epoch 9, accuracy 0.961; attempt 2 resumed from iteration 6 after exit code 1."""
    parts = [_format_last_result(trial)] if trial.status.last_result else ["no result yet"]
    last = trial.status.last_attempt
    if last is not None:
        restored = trial.current.restored
        parts.append(f"attempt {trial.attempt}{_start(trial, restored)} after {_describe_end(last)}")
        if restored and restored.message:
            parts.append(restored.message)
    # A template that has changed says nothing of the limits of an attempt that runs an earlier one.
    parts += own_limits.describe_limits(
        trial, limits.shown if revisions.has_present_revision(trial) else trial.saved.limits
    )
    if trial.current.store_problem is not None:
        parts.append(trial.current.store_problem.message)
    if trial.status.missing_metrics:
        parts.append(f"{trial.status.missing_metrics} results were ignored because they lack a metric")
    if trial.remark:
        parts.append(trial.remark)
    if trial.spec.desired_state is DesiredState.PAUSED and not trial.context.store_prefix:
        parts.append("can't be paused without checkpoints.store; add a store, or stop the trial")
    return clip("; ".join(parts))


def _start(trial: TrialMachine, restored: Restored | None) -> str:
    if restored is None:
        return ""  # not known yet
    clone = trial.status.clone
    if clone is not None and clone.checkpoint.uri == restored.uri:
        return f" cloned {clone.donor} at iteration {restored.step}"
    return f" resumed from iteration {restored.step}" if restored.step else " started from scratch"


def _describe_end(last: AttemptEnd) -> str:
    if last.reason in (TrialReason.PAUSED_BY_SCHEDULER, *USER_PAUSES):
        return "a pause"
    if last.reason == TrialReason.RETRY_REQUESTED:
        return "a retry by request"
    return f"exit code {last.exit_code}" if last.exit_code else last.reason


def _format_last_result(trial: TrialMachine) -> str:
    last, spec = trial.status.last_result, trial.context.spec
    wanted = dict.fromkeys((trial.context.time_attribute, spec.training_objective.metric, spec.objective.metric))
    shown = [name for name in wanted if name in last] or list(last)[:2]
    return ", ".join(f"{name} {show_briefly(last[name])}" for name in shown)


def _format_completion(trial: TrialMachine) -> str:
    objective = trial.context.spec.objective
    lack, metric = usable_results.describe_lack(trial.status, objective), objective.metric
    if metric not in trial.status.best:
        return clip(f"ended by itself, but {lack}")
    return clip(
        f"ended by itself; {_format_last_result(trial)}; best {metric} {show_briefly(trial.status.best[metric])}"
    )


def _pause_message(trial: TrialMachine) -> str:
    """The scheduler's reason, and whether the trial would resume if the scheduler wanted it."""
    reason = trial.status.message.removesuffix(HELD)
    return clip(reason, MAX_MESSAGE - len(HELD)) + HELD if trial.spec.desired_state is DesiredState.PAUSED else reason


def _explain_pending(trial: TrialMachine, pod: Pod) -> tuple[str, str]:
    if pod.restoring:
        return TrialReason.RESTORING, "restoring the checkpoint"
    if pod.waiting is None:
        return TrialReason.STARTING, f"pod {pod.name} is starting" + (f" on node {pod.node}" if pod.node else "")
    words = describe_pending_pod(trial, pod, pod.waiting)
    if pod.waiting.reason in ("Unschedulable", "SchedulingGated"):
        return TrialReason.UNSCHEDULABLE, words
    if "Image" in pod.waiting.reason:
        return TrialReason.PULLING_IMAGE, words
    return TrialReason.CANNOT_START if pod.waiting.hopeless else TrialReason.STARTING, words


def _describe_overrides(trial: TrialMachine) -> tuple[bool, str, str]:
    """Whether the trial runs with what its user has changed, or will."""
    if trial.refusal and not trial.is_evaluated:
        return False, TrialReason.INVALID_OVERRIDES, trial.refusal
    if trial.spec.overrides == trial.status.overrides:
        return True, TrialReason.ACCEPTED, ""
    if trial.is_evaluated and not trial.is_finished:
        return False, TrialReason.TRAINING_ENDED, "training had ended before a pod started with them"
    if not trial.is_finished:
        return (
            False,
            TrialReason.WAIT_FOR_POD,
            "they take effect when its next pod starts; pause and resume the trial to apply them now",
        )
    said = find_condition(trial.status.conditions, ConditionType.OVERRIDES_ACCEPTED)
    if said is not None and said.reason == TrialReason.INVALID_OVERRIDES:
        return False, said.reason, said.message
    return False, TrialReason.TRIAL_ENDED, "the trial ended before a pod started with them"


def _list_end_conditions(status: TrialStatus) -> Iterator[tuple[ConditionType, bool, str, str]]:
    """The conditions that a trial has from its first end on; Stalled is kstatus' word for a failure."""
    ended = status.state is not None and status.state.is_finished
    good, bad = status.state is TrialState.TERMINATED, status.state is TrialState.ERROR
    truths = ((ConditionType.COMPLETE, good), (ConditionType.FAILED, bad), (ConditionType.STALLED, bad))
    for type_, holds in truths:
        # Where it goes on after an end, those that are there become False.
        is_there = find_condition(status.conditions, type_) is not None
        if is_there or holds or (ended and type_ is not ConditionType.STALLED):
            yield type_, holds, status.reason, status.message if holds else ""


def _build_conditions(trial: TrialMachine, now: float) -> tuple[Condition, ...]:
    status = trial.status
    moment, generation = format_rfc3339(now), trial.seen.generation
    conditions = tuple(status.conditions)

    def put(type_: ConditionType, holds: bool, reason: str, message: str) -> None:
        nonlocal conditions
        conditions = set_condition(conditions, type_, holds, reason, message, now=moment, generation=generation)

    put(ConditionType.RUNNING, status.state is TrialState.RUNNING, status.reason, "")
    for ended in _list_end_conditions(status):
        put(*ended)
    if trial.current.store_problem is not None:
        put(
            ConditionType.CHECKPOINTS_STORED,
            False,
            trial.current.store_problem.reason,
            trial.current.store_problem.message,
        )
    elif trial.pod is None and (loss := lost_work.describe_last_loss(status)):
        put(ConditionType.CHECKPOINTS_STORED, False, TrialReason.CHECKPOINT_LOST, loss)
    elif any(c.type == ConditionType.CHECKPOINTS_STORED for c in conditions) and trial.pod is not None:
        put(ConditionType.CHECKPOINTS_STORED, True, TrialReason.STORED, "the store works again")
    if trial.refused_since is not None:
        put(ConditionType.POD_ACCEPTED, False, TrialReason.POD_REFUSED, status.message)
    elif find_condition(conditions, ConditionType.POD_ACCEPTED) is not None:
        put(ConditionType.POD_ACCEPTED, True, TrialReason.ACCEPTED, "")
    lack = retry_requests.find_problem_with_step(trial)
    if lack or (not trial.is_finished and find_condition(conditions, ConditionType.RETRY_ACCEPTED) is not None):
        answer = TrialReason.NO_SUCH_CHECKPOINT if lack else TrialReason.ACCEPTED
        put(ConditionType.RETRY_ACCEPTED, not lack, answer, lack)
    if trial.spec.overrides or any(c.type == ConditionType.OVERRIDES_ACCEPTED for c in conditions):
        put(ConditionType.OVERRIDES_ACCEPTED, *_describe_overrides(trial))
    if trial.results_lost:
        put(
            ConditionType.RESULTS_COMPLETE,
            False,
            TrialReason.RESULTS_LOST,
            "some results of an earlier attempt are lost",
        )
    return conditions
