"""How an attempt ended: the one place where a failure is classified.

An attempt is classified once, after its pod has ended, from everything that was seen of it. The order of the rules
is their meaning: what we did ourselves comes before what was done to the pod, and that before what the program did.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from podtune.api.pod_template import RESTORE_CONTAINER
from podtune.api.trial import Decision
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

    @property
    def is_disruption(self) -> bool:
        """Whether it is counted among the disruptions."""
        return self in (FailureClass.DISRUPTION, FailureClass.INFRASTRUCTURE)


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """How an attempt ended, and the words for it."""

    failure_class: FailureClass
    reason: str
    message: str
    exit_code: int | None = None


NODE_REASONS = frozenset({"NodeLost", "Terminated", "Shutdown", "NodeShutdown", "Preempting"})
"""Reasons of a whole pod that say that the node took it away."""
NEVER_RAN_REASONS = frozenset(
    {"OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage", "UnexpectedAdmissionError", "NodeAffinity"}
)
"""Reasons of a whole pod that say that the kubelet did not admit it."""
RESTORE_FAILED = "RestoreFailed"
"""Reason of an attempt whose checkpoint could not be put in place."""
LOST_CONTAINER = "ContainerStatusUnknown"
"""The kubelet's placeholder for the end of a container that it lost, as after a node's restart."""


def classify(pod: Pod, decision: Decision | None, *, said_done: bool, non_retriable: Collection[int]) -> AttemptOutcome:
    """Classifies an ended attempt.

    Args:
        pod: The attempt's pod as it was last seen.
        decision: The recorded decision that ended or paused the attempt, if there was one.
        said_done: Whether the program had said that it was done, before the pod was taken away.
        non_retriable: Exit codes that end a trial at once.

    Returns:
        The class, with reason and message for people.
    """
    if decision is not None and decision.action == "FAIL":
        return AttemptOutcome(FailureClass.FINAL, decision.reason, decision.message)
    if decision is not None:
        return AttemptOutcome(FailureClass.OURS, decision.reason, decision.message + _before_deletion(pod))
    if pod.phase is PodPhase.SUCCEEDED and (said_done or not _taken_away(pod)):
        return AttemptOutcome(FailureClass.COMPLETE, "Completed", "the program ended by itself", 0)
    if _taken_away(pod):
        return _disruption(pod)
    end = _first_failure(pod)
    if end is None:
        return _without_failed_container(pod)
    if end.name == RESTORE_CONTAINER:
        return AttemptOutcome(
            FailureClass.INFRASTRUCTURE,
            RESTORE_FAILED,
            f"restoring the checkpoint failed: {end.message}",
            end.exit_code,
        )
    if end.reason == "OOMKilled":
        return AttemptOutcome(
            FailureClass.USER,
            "OOMKilled",
            f"container {end.name} used more memory than its limit; raise resources.limits.memory",
            end.exit_code,
        )
    message = f"container {end.name} ended with exit code {end.exit_code}"
    if end.exit_code in non_retriable:
        return AttemptOutcome(
            FailureClass.FINAL,
            "NonRetriableExitCode",
            f"{message}, which failures.nonRetriableExitCodes names",
            end.exit_code,
        )
    return AttemptOutcome(FailureClass.USER, end.reason or "Error", message, end.exit_code)


def _before_deletion(pod: Pod) -> str:
    """What became of a pod by itself before it was deleted: the decision stands, but people want to know."""
    end = None if pod.deleting else _first_failure(pod)
    return "" if end is None else f"; container {end.name} had ended with exit code {end.exit_code} by then"


def _taken_away(pod: Pod) -> bool:
    """Whether something other than the program and ourselves ended the pod."""
    return (
        bool(pod.disruption)
        or pod.interrupted
        or pod.gone_unfinished
        or pod.reason in NODE_REASONS
        or (pod.reason != "Evicted" and any(end.reason == LOST_CONTAINER for end in pod.ends))
    )


def _disruption(pod: Pod) -> AttemptOutcome:
    if pod.disruption:
        return AttemptOutcome(FailureClass.DISRUPTION, pod.disruption.split(":")[0], pod.disruption)
    if pod.reason in NODE_REASONS:
        return AttemptOutcome(FailureClass.DISRUPTION, pod.reason, pod.message or f"node {pod.node} took the pod away")
    if pod.interrupted:
        return AttemptOutcome(FailureClass.DISRUPTION, "PodDeleted", f"pod {pod.name} was deleted by someone else")
    if not pod.gone_unfinished:
        return AttemptOutcome(FailureClass.DISRUPTION, LOST_CONTAINER, f"node {pod.node} lost the container")
    return AttemptOutcome(FailureClass.DISRUPTION, "PodVanished", f"pod {pod.name} vanished from node {pod.node}")


def _without_failed_container(pod: Pod) -> AttemptOutcome:
    """A failed pod none of whose containers failed: the kubelet refused or evicted it."""
    message = pod.message or f"pod {pod.name} failed"
    if pod.reason == "Evicted":
        return AttemptOutcome(FailureClass.USER, "Evicted", message)
    if pod.reason in NEVER_RAN_REASONS or not pod.training:
        return AttemptOutcome(FailureClass.INFRASTRUCTURE, pod.reason or "NeverRan", message)
    return AttemptOutcome(FailureClass.USER, pod.reason or "Error", message)


def _first_failure(pod: Pod) -> ContainerEnd | None:
    """The container that failed first in the pod's own order; an eviction for its own disk outweighs its exit code."""
    if pod.reason == "Evicted":
        return None
    return next((end for end in pod.ends if end.exit_code != 0), None)
