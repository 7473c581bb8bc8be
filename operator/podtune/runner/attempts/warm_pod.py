"""A pod that serves one attempt after the other. Each trial sees it as its own pod."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from podtune.api.pods.pod_template import RESTORE_CONTAINER
from podtune.protocol.assignment import build_attempt_id
from podtune.protocol.fields import ProtocolError
from podtune.protocol.messages import RestoreFailure, parse_final_commit
from podtune.runner.records import ContainerEnd, Pod, PodPhase
from podtune.runner.timestamps import parse_rfc3339
from podtune.runner.trial.machine import TrialMachine


@dataclass(frozen=True, slots=True)
class EndInPod:
    """How an attempt ended whose pod keeps running.

    Attributes:
        final: Its final commit, as JSON.
        restore_failure: Why it could not begin; None where it did.
        time: When that was heard.
    """

    final: str
    restore_failure: RestoreFailure | None
    time: float


@dataclass(slots=True)
class WarmPod:
    """What is known of such a pod.

    Attributes:
        pod: The pod itself, as it was last seen.
        claims: Names of the trials that it serves, or is to serve: one, unless an operator died at an awkward moment.
        ended: By name of such a trial: how its attempt ended, while that is not on record yet.
        last: Id of the last attempt that its agent has handed over. One of the same id is not for it: it is of a Trial
            that was deleted and made again, and the agent could not tell the one from the other.
        is_free: Whether its agent has said that it has nothing to do.
        idle_since: Since when no trial has a claim on it; None while that was not noticed.
        is_draining: Whether it is to go, since what it does counts for nothing, or it fits no trial.
        deleted: Whether its deletion was asked for.
        failed: Whether the last failed attempt of a trial ran in it.
    """

    pod: Pod
    claims: set[str] = field(default_factory=set)
    ended: dict[str, EndInPod] = field(default_factory=dict)
    last: str = ""
    is_free: bool = False
    idle_since: float | None = None
    is_draining: bool = False
    deleted: bool = False
    failed: bool = False

    @property
    def is_ending(self) -> bool:
        """Whether it is on its way out."""
        return self.is_draining or self.deleted or self.pod.deleting or bool(self.pod.disruption) or self.pod.is_over

    def was_made_for(self, trial: TrialMachine) -> bool:
        """Whether it was made for the trial's current attempt."""
        pod = self.pod
        return (pod.trial, pod.trial_uid, pod.attempt) == (trial.name, trial.uid, trial.attempt)

    def build_trial_pod(self, trial: TrialMachine) -> Pod:
        """The pod as if it served nothing but the trial's current attempt."""
        attempt = build_attempt_id(self.pod.uid, trial.name, trial.attempt)
        pod = replace(self.pod, uid=attempt, trial=trial.name, trial_uid=trial.uid, attempt=trial.attempt)
        if not self.was_made_for(trial):
            since = parse_rfc3339(trial.status.pod.since) if trial.status.pod else None
            moment = since or pod.training_since
            pod = replace(pod, created=moment, started=moment, training_since=moment, avoids=())
        ended = self.ended.get(trial.name)
        if ended is not None:
            return _build_ended_pod(pod, ended)
        return _build_lost_pod(pod) if pod.is_over and _has_served_another(pod) else pod


def _build_ended_pod(pod: Pod, ended: EndInPod) -> Pod:
    """A pod that has ended with the attempt and left nothing behind."""
    failure = ended.restore_failure
    failed = (ContainerEnd(RESTORE_CONTAINER, failure.exit_code, "Error", failure.message),) if failure else ()
    return replace(
        pod,
        phase=PodPhase.FAILED if failure else PodPhase.SUCCEEDED,
        ends=failed,
        agent_message=ended.final,
        ended=ended.time,
        training_until=ended.time,
        gone=True,
        deleting=False,
        deletion_requested=0.0,
        disruption="",
        reason="",
        message="",
    )


def _build_lost_pod(pod: Pod) -> Pod:
    """A pod that has ended by itself, or was taken away, before it has begun with the attempt."""
    message = f"pod {pod.name} ended before it started this trial"
    return replace(
        pod, phase=PodPhase.RUNNING, gone=True, ends=(), agent_message="", reason="", disruption=f"PodEnded: {message}"
    )


def _has_served_another(pod: Pod) -> bool:
    """Whether its agent's last word is of another attempt."""
    try:
        return bool(pod.agent_message) and parse_final_commit(pod.agent_message).attempt != pod.uid
    except ProtocolError:
        return False
