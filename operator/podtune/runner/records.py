"""What the runner knows about the cluster: small, frozen records of the observed objects.

The adapters build them from the API server's objects; the runner never sees a manifest.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from podtune.api.pods.pod_template import TRIAL_CONTAINER
from podtune.api.resources.experiment import ExperimentSpec, ExperimentStatus
from podtune.api.resources.trial import TrialSpec, TrialStatus
from podtune.runner.attempts import grace_periods

_SIGNALLED = (128 + signal.SIGTERM, 128 + signal.SIGKILL)
"""Exit codes of programs that a pod's deletion ends: at once, or when its grace period is over."""


class PodPhase(StrEnum):
    """A pod's phase, as Kubernetes has it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @property
    def is_finished(self) -> bool:
        """Whether all containers of the pod have ended for good."""
        return self in (PodPhase.SUCCEEDED, PodPhase.FAILED)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a pod does not run yet.

    Attributes:
        reason: The scheduler's or kubelet's own word, such as Unschedulable or ImagePullBackOff.
        message: Their own sentence.
        hopeless: Whether waiting alone rarely helps: a bad image, a missing Secret or ConfigMap.
    """

    reason: str
    message: str
    hopeless: bool = False


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """How a container of a pod ended."""

    name: str
    exit_code: int
    reason: str = ""
    message: str = ""

    def is_of_deletion(self, program: str) -> bool:
        """Whether a program ended as one does whose pod is deleted; where memory ran out, the reason says so."""
        return self.name == program and self.exit_code in _SIGNALLED and self.reason in ("", "Error")


@dataclass(frozen=True, slots=True)
class Pod:
    """A trial's pod.

    Attributes:
        trial: Name of the trial.
        attempt: Number of the attempt, from 1.
        uid: UID of the pod; that of rank 0 is the attempt's id.
        version: Resource version, for telling old news from new.
        deleting: Whether anybody has requested its deletion.
        deletion_requested: When that was first done; 0 where it was not, or is not known.
        gone: Whether it is no longer there; the rest is what was last seen.
        training: Whether the training container has started.
        restoring: Whether a checkpoint is being restored.
        waiting: Why it does not run yet.
        ends: Containers that ended, without the agent.
        agent_message: The agent's termination message.
        disruption: Reason and message of a DisruptionTarget or TerminationTarget condition.
        reason: Reason of the pod as a whole, such as Evicted.
        message: Its message.
        avoids: Names of the nodes that it must avoid.
        created: When it was made; 0 where that is not known.
        started: When the kubelet took it up, in seconds since the epoch; 0 where it has not.
        ended: When its last container ended; 0 while it runs, or where that is not known.
        training_since: When the training container started; 0 where it has not.
        training_until: When it ended; 0 where it has not.
        gpus: How many GPUs it holds, from when it started to when it ended.
        trial_uid: UID of the Trial that owns it, which may be an earlier one of the same name; empty if not known.
        rank: Its index in a gang, from 0; 0 where the attempt has but one pod.
        role: Its role in a gang; empty where that has none.
        gated: Whether the gate of ours that holds a gang's pods back until all are there is still in place.
        template_hash: What a warm pod's manifest was made from, as a digest; empty for one that serves one attempt
            alone.
        program: Name of its training container.
        memory: That container's limit of memory, as it is written; empty where it has none.
        revision: Of the trial template that it was made from; empty where an operator made it that noted none.
        own_limits: Limits that it was made with for this trial alone, as text; empty where it has none.
        own_grace: Seconds of its grace period that are its program's.
    """

    name: str
    uid: str
    trial: str
    attempt: int
    phase: PodPhase = PodPhase.PENDING
    version: int = 0
    deleting: bool = False
    deletion_requested: float = 0.0
    gone: bool = False
    node: str = ""
    training: bool = False
    restoring: bool = False
    waiting: Waiting | None = None
    ends: tuple[ContainerEnd, ...] = ()
    agent_message: str = ""
    disruption: str = ""
    reason: str = ""
    message: str = ""
    avoids: tuple[str, ...] = ()
    created: float = 0.0
    started: float = 0.0
    ended: float = 0.0
    training_since: float = 0.0
    training_until: float = 0.0
    gpus: float = 0.0
    trial_uid: str = ""
    rank: int = 0
    role: str = ""
    gated: bool = False
    template_hash: str = ""
    program: str = TRIAL_CONTAINER
    memory: str = ""
    revision: str = ""
    own_limits: str = ""
    own_grace: int = grace_periods.DEFAULT

    @property
    def is_over(self) -> bool:
        """Whether all of it has stopped running."""
        return self.gone or self.phase.is_finished

    @property
    def interrupted(self) -> bool:
        """Whether its deletion was requested before the training program had ended.

        Both are known to the second. Within the same second it is taken for interrupted: a program that runs once more
        costs less than one that is told complete and was not; the agent's last word settles it where there is one.
        The kubelet's own deletion of a pod that has ended moves the request's moment, and a slow watch may show that
        alone: so a program that a deletion's signals have ended counts as interrupted whatever the moment is.
        """
        if not self.deleting:
            return False
        asked_before = not self.training_until or self.deletion_requested <= self.training_until
        return asked_before or (not self.reason and any(end.is_of_deletion(self.program) for end in self.ends))

    @property
    def gone_unfinished(self) -> bool:
        """Whether it vanished before its end was seen."""
        return self.gone and not self.phase.is_finished


@dataclass(frozen=True, slots=True)
class StoragePod:
    """A pod that does one job in the bucket; it belongs to the Experiment.

    Attributes:
        version: Resource version, for telling old news from new.
        gone: Whether it is no longer there; the rest is what was last seen.
        started: Whether its container has started.
        waiting: Why it does not run yet.
        message: Its termination message.
        reason: Reason and message of the pod as a whole, such as DeadlineExceeded.
    """

    name: str
    uid: str
    phase: PodPhase = PodPhase.PENDING
    version: int = 0
    deleting: bool = False
    gone: bool = False
    started: bool = False
    waiting: str = ""
    message: str = ""
    reason: str = ""

    @property
    def is_over(self) -> bool:
        """Whether all of it has stopped running."""
        return self.gone or self.phase.is_finished


@dataclass(frozen=True, slots=True)
class Trial:
    """A Trial resource.

    Attributes:
        owned: Whether it belongs to its Experiment; one that a person has made does once the operator has seen it.
        author: Who says to have made it, where a person has.
        created: When it was made (RFC 3339); empty where that is not known.
    """

    name: str
    uid: str
    version: int
    generation: int
    spec: TrialSpec
    status: TrialStatus
    deleting: bool = False
    owned: bool = True
    author: str = ""
    created: str = ""


@dataclass(frozen=True, slots=True)
class Experiment:
    """An Experiment resource.

    Attributes:
        spec: What is asked for; None where it can't be read.
        problem: Why the spec can't be used: one sentence; empty where it can.
        finalizers: What its deletion waits for.
        importing: Whether its Trials are only being made, by somebody who moves it here.
        imported: How many Trials it was moved here with, until that is acknowledged; 0 where it was not.
        labels: Its labels.
        annotations: Its annotations, without kubectl's own, which may be as large as the rest.
        created: When it was made (RFC 3339); empty where that is not known.
    """

    namespace: str
    name: str
    uid: str
    version: int
    generation: int
    spec: ExperimentSpec | None
    status: ExperimentStatus
    problem: str = ""
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    importing: bool = False
    imported: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    created: str = ""
