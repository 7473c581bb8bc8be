"""Classifies how an attempt ended: the only place where failures are classified.

An attempt is classified once, after all its pods have ended, from everything that was observed of them. The order of
the rules matters: what the operator did comes first, then what happened to a pod, then what the program did. With
several pods, a disrupted one decides for all of them; otherwise the one that failed first does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from podtune.api.names import DecisionAction, TrialReason
from podtune.api.patterns import compile_pattern
from podtune.api.pods.pod_template import RESTORE_CONTAINER
from podtune.api.resources.failures import FailureAction, FailureRule, Failures
from podtune.api.resources.trial import Decision
from podtune.protocol.messages import NOT_RESTORABLE
from podtune.runner.records import ContainerEnd, Pod, PodPhase


class FailureClass(StrEnum):
    """What an ended attempt means for its trial."""

    COMPLETE = "complete"
    """The program came to its own end."""
    OURS = "ours"
    """We deleted the pod, after the decision to do so was recorded."""
    DISRUPTION = "disruption"
    """The pod was taken away; spends no failure, capped."""
    INFRASTRUCTURE = "infrastructure"
    """The pod could not be run at all; spends no failure, capped."""
    USER = "user"
    """The program failed; spends a failure."""
    FINAL = "final"
    """It failed in a way that a retry can't mend."""
    UNUSABLE = "unusable"
    """The program came to its own end, and the trial has nothing to show for it: no finite value of the objective."""
    IGNORED = "ignored"
    """A rule of the user's says that it counts as nothing; capped."""

    @property
    def is_failure(self) -> bool:
        """Whether the attempt did not achieve its purpose, whatever the cause."""
        return self not in (FailureClass.COMPLETE, FailureClass.OURS)

    @property
    def is_own(self) -> bool:
        """Whether the program is to blame."""
        return self in OWN_FAILURES


OWN_FAILURES = frozenset({FailureClass.USER, FailureClass.FINAL, FailureClass.UNUSABLE})
"""The classes of failures that the program is to blame for."""


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """How an attempt ended, and the words for it.

    Attributes:
        exit_code: Exit code of the container that failed first, where one did.
        node: The node that the pod was on which tells the end; empty where it was on none.
        excludes_node: Whether a rule says that the trial is to be tried on another node.
        memory: Memory limit of the training container, where that was killed for using more: empty where it had none.
            None where it was not.
        role: In a gang with roles, that of the pod that tells the end.
    """

    failure_class: FailureClass
    reason: str
    message: str
    exit_code: int | None = None
    node: str = ""
    excludes_node: bool = False
    memory: str | None = None
    role: str = ""

    @property
    def blames_node(self) -> bool:
        """Whether the node may be to blame: enough such ends of different trials, and it is avoided."""
        may_be = self.failure_class in (FailureClass.USER, FailureClass.INFRASTRUCTURE, FailureClass.IGNORED)
        return bool(self.node) and (may_be or self.reason in NODE_FAILED_REASONS)


NODE_REASONS = frozenset({"NodeLost", "Terminated", "Shutdown", "NodeShutdown", "Preempting"})
"""Reasons of a whole pod that say that the node took it away."""
OUT_OF_MEMORY = "OOMKilled"
"""Reason of a container: no deletion brings that about."""
RAISE_IN_TEMPLATE = "raise its limits.memory in spec.trialTemplate"
"""What to do about a container that needs more memory than its limit."""
NOT_STARTED = frozenset({"StartError", "ContainerCannotRun", "RunContainerError"})
"""Reasons of a container whose program the runtime could not start; its words say why."""
HOPELESS_START = re.compile(
    r"no such file or directory|not found|permission denied|exec format error|(is|not) a directory", re.IGNORECASE
)
"""Such words blame the command or the image: the next attempt would end the same."""
NEVER_RAN_REASONS = frozenset(
    {"OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage", "UnexpectedAdmissionError", "NodeAffinity"}
)
"""Reasons of a whole pod that say that the kubelet did not admit it."""
NODE_FAILED_REASONS = frozenset({"NodeLost", "DeletionByTaintManager", "ContainerStatusUnknown"})
"""Reasons of disruptions that a node brings about by failing itself."""
RESTORE_FAILED = "RestoreFailed"
"""Reason of an attempt whose checkpoint could not be put in place."""
RESTORE_INTERRUPTED = "RestoreInterrupted"
"""Reason of an attempt that could not put its checkpoint in place, though nothing is known to be wrong with it."""
LOST_CONTAINER = "ContainerStatusUnknown"
"""The kubelet's placeholder for the end of a container that it lost, as after a node's restart."""


def classify(
    pods: Sequence[Pod],
    decision: Decision | None,
    *,
    said_done: bool,
    failures: Failures,
    log_tail: str = "",
) -> AttemptOutcome:
    """Classifies an ended attempt.

    Args:
        pods: The attempt's pods by rank, at least one, as they were last seen; all of them have ended.
        decision: The recorded decision that ended or paused the attempt, if there was one; an END says which pods we
            deleted since another one had ended.
        said_done: Whether the program had said that it was done, before a pod was taken away.
        failures: What the user says of failures.
        log_tail: The last lines of the program that failed first.

    Returns:
        The class, with reason and message for people.
    """
    swept = find_swept(decision, pods)
    if decision is not None and decision.action is DecisionAction.END:
        decision = None
    if decision is not None and decision.action not in (DecisionAction.FAIL, DecisionAction.RETRY):
        return AttemptOutcome(FailureClass.OURS, decision.reason, decision.message + _describe_before_deletion(pods[0]))
    if decision is not None and (decision.action is DecisionAction.FAIL or not _has_ended_by_itself(pods[0])):
        own = FailureClass.FINAL if decision.action is DecisionAction.FAIL else FailureClass.USER
        return _apply_rules(AttemptOutcome(own, decision.reason, decision.message, node=pods[0].node), failures)
    telling = [pod for pod in pods if pod.uid not in swept] or list(pods)
    ends = [(pod, _classify_pod(pod, said_done=said_done, failures=failures)) for pod in telling]
    for _, outcome in ends:
        if outcome.failure_class is FailureClass.DISRUPTION:
            return _apply_rules(replace(outcome, exit_code=None), failures)
    failed = [(pod, outcome) for pod, outcome in ends if outcome.failure_class.is_failure]
    if not failed:
        return ends[0][1]
    first = min(failed, key=lambda end: _build_sort_key(*end))[1]
    return _apply_rules(first, failures, log_tail)


def find_swept(decision: Decision | None, pods: Iterable[Pod]) -> frozenset[str]:
    """UIDs of the pods that we deleted since another one had ended: how they ended says nothing.

    Unless somebody took them away, too, or they had run out of memory: then that may be why the other one has ended.
    """
    if decision is None or decision.action is not DecisionAction.END:
        return frozenset()
    return frozenset(pod.uid for pod in pods if pod.rank not in decision.ranks and not _says_why(pod))


def _says_why(pod: Pod) -> bool:
    """Whether a pod has ended in a way that deleting it does not bring about."""
    out_of_memory = any(end.reason == OUT_OF_MEMORY for end in pod.ends)
    return bool(pod.disruption) or pod.reason in NODE_REASONS or out_of_memory


def fail_without_result(
    outcome: AttemptOutcome,
    lack: str,
    failures: Failures,
    log_tail: str = "",
    reason: TrialReason = TrialReason.NO_USABLE_RESULT,
) -> AttemptOutcome:
    """Turns a good end without a usable result into a failure, which a retry would only repeat.

    Args:
        outcome: The good end.
        lack: What the trial lacks: a result, or a checkpoint that could be evaluated.
        failures: What the user says of failures; a rule may have it tried again.
        log_tail: The last lines of the program.
        reason: The reason of such a failure.
    """
    message = f"{outcome.message}, but {lack}"
    failed = replace(outcome, failure_class=FailureClass.UNUSABLE, reason=reason, message=message)
    return _apply_rules(failed, failures, log_tail)


def _build_sort_key(pod: Pod, outcome: AttemptOutcome) -> tuple[bool, float]:
    """A pod that says why it failed, such as OOMKilled, comes before those whose programs then missed it."""
    return outcome.reason == "Error", pod.training_until or pod.ended or float("inf")


def _apply_rules(outcome: AttemptOutcome, failures: Failures, log_tail: str | None = None) -> AttemptOutcome:
    """What the user's rules make of a failed attempt; what they don't speak of stays as it is."""
    found = _find_first_match(failures.rules, reason=outcome.reason, exit_code=outcome.exit_code, log_tail=log_tail)
    if found is None:
        return outcome
    position, rule = found
    said = replace(outcome, message=f"{outcome.message} (failures.rules[{position}]: {rule.action})")
    match rule.action:
        case FailureAction.RETRY:
            return replace(said, failure_class=FailureClass.USER)
        case FailureAction.FAIL:
            return replace(said, failure_class=FailureClass.FINAL)
        case FailureAction.IGNORE:
            return replace(said, failure_class=FailureClass.IGNORED)
        case FailureAction.EXCLUDE_NODE:
            return replace(said, failure_class=FailureClass.INFRASTRUCTURE, excludes_node=bool(outcome.node))


def _find_first_match(
    rules: Sequence[FailureRule], *, reason: str, exit_code: int | None, log_tail: str | None
) -> tuple[int, FailureRule] | None:
    """The first rule whose conditions all hold, and its position; None if there is none."""
    for position, rule in enumerate(rules):
        if rule.reason is not None and rule.reason != reason:
            continue
        if rule.exit_codes is not None and exit_code not in rule.exit_codes:
            continue
        if rule.log_regex is not None and (log_tail is None or not compile_pattern(rule.log_regex).search(log_tail)):
            continue
        return position, rule
    return None


def _classify_pod(pod: Pod, *, said_done: bool, failures: Failures) -> AttemptOutcome:
    """What became of one pod, rules of the user's aside."""
    if pod.phase is PodPhase.SUCCEEDED and (said_done or not _was_taken_away(pod)):
        return AttemptOutcome(FailureClass.COMPLETE, "Completed", "the program exited successfully", 0, node=pod.node)
    outcome = (
        _describe_disruption(pod) if _was_taken_away(pod) else _describe_failure(pod, failures.non_retriable_exit_codes)
    )
    return replace(outcome, node=pod.node, role=pod.role)


def _has_ended_by_itself(pod: Pod) -> bool:
    """Whether a program that we were about to end came to its own good end before."""
    return pod.phase is PodPhase.SUCCEEDED and not _was_taken_away(pod)


def _describe_failure(pod: Pod, non_retriable: Collection[int]) -> AttemptOutcome:
    """How a pod failed that nobody took away."""
    end = _find_first_failure(pod)
    if end is None:
        return _describe_lost_pod(pod)
    if end.name == RESTORE_CONTAINER:
        message = f"restoring the checkpoint failed: {end.message}"
        reason = RESTORE_FAILED if end.exit_code == NOT_RESTORABLE else RESTORE_INTERRUPTED
        return AttemptOutcome(FailureClass.INFRASTRUCTURE, reason, message, end.exit_code)
    if end.reason == OUT_OF_MEMORY:
        is_training = end.name == pod.program
        message = f"container {end.name} used more memory than its limit"
        # What to do about the training container depends on its trial; see `out_of_memory`.
        return AttemptOutcome(
            FailureClass.USER,
            OUT_OF_MEMORY,
            message if is_training else f"{message}; {RAISE_IN_TEMPLATE}",
            end.exit_code,
            memory=pod.memory if is_training else None,
        )
    if end.reason in NOT_STARTED:
        words = " ".join(end.message.split()) or end.reason
        own = FailureClass.FINAL if HOPELESS_START.search(words) else FailureClass.USER
        message = f"container {end.name} could not be started: {words}"
        return AttemptOutcome(own, end.reason, message, end.exit_code)
    message = f"container {end.name} exited with code {end.exit_code}"
    if end.exit_code in non_retriable:
        return AttemptOutcome(
            FailureClass.FINAL,
            "NonRetriableExitCode",
            f"{message}, which failures.nonRetriableExitCodes lists",
            end.exit_code,
        )
    return AttemptOutcome(FailureClass.USER, end.reason or "Error", message, end.exit_code)


def _describe_before_deletion(pod: Pod) -> str:
    """What became of a pod by itself before it was deleted: the decision stands, but people want to know."""
    end = None if pod.interrupted else _find_first_failure(pod)
    return "" if end is None else f"; container {end.name} had already exited with code {end.exit_code}"


def _was_taken_away(pod: Pod) -> bool:
    """Whether something other than the program and ourselves ended the pod."""
    return (
        bool(pod.disruption)
        or pod.interrupted
        or pod.gone_unfinished
        or pod.reason in NODE_REASONS
        or (pod.reason != "Evicted" and any(end.reason == LOST_CONTAINER for end in pod.ends))
    )


def _describe_disruption(pod: Pod) -> AttemptOutcome:
    if pod.disruption:
        return AttemptOutcome(FailureClass.DISRUPTION, pod.disruption.split(":")[0], pod.disruption)
    if pod.reason in NODE_REASONS:
        return AttemptOutcome(FailureClass.DISRUPTION, pod.reason, pod.message or f"node {pod.node} ended the pod")
    if pod.interrupted:
        return AttemptOutcome(FailureClass.DISRUPTION, "PodDeleted", f"pod {pod.name} was deleted by someone else")
    if not pod.gone_unfinished:
        return AttemptOutcome(FailureClass.DISRUPTION, LOST_CONTAINER, f"node {pod.node} lost the container")
    return AttemptOutcome(FailureClass.DISRUPTION, "PodVanished", f"pod {pod.name} disappeared from node {pod.node}")


def _describe_lost_pod(pod: Pod) -> AttemptOutcome:
    """A failed pod none of whose containers failed: the kubelet refused or evicted it."""
    message = pod.message or f"pod {pod.name} failed"
    if pod.reason == "Evicted":
        return AttemptOutcome(FailureClass.USER, "Evicted", message)
    if pod.reason in NEVER_RAN_REASONS or not pod.training:
        return AttemptOutcome(FailureClass.INFRASTRUCTURE, pod.reason or "NeverRan", message)
    return AttemptOutcome(FailureClass.USER, pod.reason or "Error", message)


def _find_first_failure(pod: Pod) -> ContainerEnd | None:
    """The container that failed first in the pod's own order; an eviction for its own disk outweighs its exit code."""
    if pod.reason == "Evicted":
        return None
    return next((end for end in pod.ends if end.exit_code != 0), None)
