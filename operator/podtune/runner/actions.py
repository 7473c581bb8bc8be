"""What the runner wants done. The adapters carry it out and report how it went with an `ActionResult`.

Every action is idempotent and has a key; the runner never asks for a second action of the same key before it has
heard of the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from podtune.api.names import ExperimentReason
from podtune.api.resources.evaluation import EvaluationTemplate
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import Checkpoint, TrialSpec, TrialStatus
from podtune.api.resources.trial_template import TrialTemplate
from podtune.api.restore_from import RestoreFrom
from podtune.protocol.storage_job import StoragePurpose, StoredTrial
from podtune.runner.attempts.pods import format_pod_name
from podtune.runner.search.origins import Origin
from podtune.tuning.searchers.base import Observation, PendingTrial, Proposal

Key = tuple[str, str]
WRITE_EXPERIMENT_STATUS: Key = ("write-experiment", "")


@dataclass(frozen=True, slots=True)
class Propose:
    """Ask the searcher for configurations.

    Attributes:
        first: Number of the first proposal.
        count: How many, one after the other.
        observations: All observations so far, in their order; only the first `observed` count (the list grows
            meanwhile). A different list than before means that a new searcher is needed.
        observed: How many of them the searcher must know.
        pending: Trials under way.
        observed_seq: The sequence number that `observed` stands for: all observations below it count.
        origins: Where each proposal is to come from.
        known: Where earlier proposals came from, by their numbers; it grows meanwhile.
        skipped: Places in `search.initial` of what is proposed before the searcher proposes anything.
    """

    first: int
    count: int
    observations: Sequence[Observation]
    observed: int
    pending: tuple[PendingTrial, ...]
    observed_seq: int = 0
    origins: tuple[Origin, ...] = ()
    known: Mapping[int, Origin] = field(default_factory=dict)
    skipped: tuple[int, ...] = ()

    def find_origin(self, number: int) -> Origin:
        """Where a proposal came from, or is to come from."""
        asked = number - self.first
        return self.origins[asked] if 0 <= asked < self.count else self.known[number]

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("propose", "")


@dataclass(frozen=True, slots=True)
class LoadWarmStart:
    """Look up what an earlier experiment has found, and keep it with this one; the second time, what was kept."""

    experiment: str

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("learn-from", "")


@dataclass(frozen=True, slots=True)
class FindCheckpoint:
    """Look up the checkpoint of another experiment's trial that a trial is to start from.

    Attributes:
        lost: URIs of those that were found before and could not be restored.
    """

    trial: str
    wanted: RestoreFrom
    lost: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("find-checkpoint", self.trial)


@dataclass(frozen=True, slots=True)
class CreateTrial:
    """Create a Trial resource."""

    name: str
    spec: TrialSpec

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("create-trial", self.name)


@dataclass(frozen=True, slots=True)
class AdoptTrial:
    """Make a Trial that a person has created the experiment's: with its owner and its labels.

    Attributes:
        version: Version of the Trial that was looked at.
        parameters: Its configuration, which labels may name; empty where it is none.
    """

    name: str
    version: int
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("adopt-trial", self.name)


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create the pods of a new attempt: one, or all pods of a gang behind a gate.

    Attributes:
        spec: The trial's, with the parameters that it runs with now.
        restore: Checkpoints to start from, the one to try first at the front.
        iteration: Iterations of the trial so far.
        restore_or_fail: Whether the attempt fails if none of them can be restored, instead of starting from scratch.
        limits: Resource limits of the training container that replace its own, by name; "0" removes one.
        shared_limits: What they are without those that only this trial has.
        own_limits: Those among them that are on record for this trial.
        replicas: How many pods there are.
        avoid: Names of nodes to avoid.
        template_hash: Of a pod that may serve other attempts after this one: what its manifest is made from, as a
            digest.
        find: Whether it looks for checkpoints of its configuration in the bucket first.
        revision: The revision of the trial template that its pods are made from; it is on record.
        evaluates: Whether it evaluates a trial whose training has ended.
    """

    trial: str
    trial_uid: str
    attempt: int
    spec: TrialSpec
    restore: tuple[Checkpoint, ...]
    iteration: int
    restore_or_fail: bool = False
    limits: Mapping[str, str] = field(default_factory=dict)
    shared_limits: Mapping[str, str] = field(default_factory=dict)
    own_limits: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1
    avoid: tuple[str, ...] = ()
    template_hash: str = ""
    find: bool = False
    revision: str = ""
    evaluates: bool = False

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("create-pod", self.trial)

    @property
    def has_own_limits(self) -> bool:
        """Whether the pods of other trials have other limits."""
        return self.limits != self.shared_limits

    def share_limits(self) -> CreatePod:
        """Asks for the same pods with the limits that other trials have, too."""
        return replace(self, limits=self.shared_limits, own_limits={})

    @property
    def name(self) -> str:
        """Name of the pod; for a gang, the pod of rank 0."""
        return self.format_name(0)

    def format_name(self, rank: int) -> str:
        """Name of the pod of a rank."""
        return format_pod_name(self.trial, self.attempt, rank, self.replicas)


@dataclass(frozen=True, slots=True)
class TryPod:
    """Ask the API server whether it would accept an attempt's pod, without creating it; for a gang, that of rank 0."""

    creation: CreatePod

    @property
    def trial(self) -> str:
        """Name of the trial whose pod it is."""
        return self.creation.trial

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("try-pod", "")


@dataclass(frozen=True, slots=True)
class OpenGates:
    """Let the scheduler see the pods of a gang, by name and UID: all of them are there."""

    trial: str
    pods: tuple[tuple[str, str], ...]

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("open-gates", self.trial)


@dataclass(frozen=True, slots=True)
class CreateStoragePod:
    """Create a pod that does one job in the bucket, with all that it has to know.

    Attributes:
        trials: What it has to know of the trials.
    """

    purpose: StoragePurpose
    number: int
    trials: tuple[StoredTrial, ...] = ()

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("create-storage-pod", "")


def format_storage_pod_name(experiment: str, number: int) -> str:
    """Name of a storage pod; never used again."""
    return f"{experiment}-storage-{number}"


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete one pod; only the one with this UID. One of no trial works in the bucket.

    Attributes:
        grace: Seconds that it is given to end; None for the pod's own grace period.
    """

    trial: str
    name: str
    uid: str
    grace: int | None = None

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("delete-pod", self.name)


@dataclass(frozen=True, slots=True)
class DeleteFinishedPods:
    """Delete all pods of these finished trials that have ended, in one call."""

    trials: tuple[str, ...]

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("delete-pods", "")


@dataclass(frozen=True, slots=True)
class FetchLogs:
    """Read the last output of a pod's containers that have ended or are about to be ended.

    Attributes:
        pod: The pod that leads the attempt.
        program: Name of the container whose last lines are wanted, the training one; empty where none are.
        agent: Whether the agent's unacknowledged results are wanted.
        failed: The pod whose program's lines are wanted, where that is not the leading one.
        early: Whether the pod has not ended: it is to be deleted next.
    """

    trial: str
    pod: str
    program: str
    agent: bool
    failed: str = ""
    early: bool = False

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("fetch-logs", self.trial)


@dataclass(frozen=True, slots=True)
class WriteTrialStatus:
    """Write a Trial's status, if the Trial still has this resource version.

    Attributes:
        uid: The Trial's; what is deleted with its end has to belong to it.
        routine: Whether nothing waits for it: it holds results that an agent would send once more.
    """

    name: str
    uid: str
    version: int
    status: TrialStatus
    routine: bool = False

    @property
    def trial(self) -> str:
        """The same as its name."""
        return self.name

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("write-trial", self.name)


@dataclass(frozen=True, slots=True)
class KeepRevision:
    """Keep a revision of the trial template, as a ControllerRevision of this name.

    Attributes:
        revision: Its digest.
        number: Its position among those of the experiment.
        evaluation: The template of evaluations, where there is one.
    """

    name: str
    revision: str
    number: int
    template: TrialTemplate
    evaluation: EvaluationTemplate | None = None

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("revision", self.revision)


@dataclass(frozen=True, slots=True)
class DropRevision:
    """Delete the ControllerRevision of this name."""

    name: str
    revision: str

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("revision", self.revision)


@dataclass(frozen=True, slots=True)
class WriteExperimentStatus:
    """Write the Experiment's status, if it still has this resource version."""

    version: int
    status: ExperimentStatus

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return WRITE_EXPERIMENT_STATUS


@dataclass(frozen=True, slots=True)
class WriteMetadata:
    """Write the Experiment's finalizers, and take annotations off, if it still has this resource version."""

    version: int
    finalizers: tuple[str, ...]
    without: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("write-metadata", "")


@dataclass(frozen=True, slots=True)
class DeleteExperiment:
    """Delete the Experiment and all that belongs to it, if it still has this resource version."""

    version: int

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("delete-experiment", "")


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Notify people with a Kubernetes Event. Losing it does no harm.

    Attributes:
        trial: Name of the Trial that it is about; empty for the Experiment.
        left_at: Where something may be left in a bucket once the Experiment is gone, such as `s3://bucket/prefix/uid/`.
            Its namespace may be terminating, too, and then accepts no Events. So the Event is also sent to the
            operator's own namespace.
        trace: Where a plugin has failed, for the operator's log; empty where none has.
    """

    trial: str
    reason: str
    message: str
    warning: bool = False
    left_at: str = ""
    trace: str = ""

    @property
    def key(self) -> Key:
        """Identity among the actions in flight."""
        return ("event", f"{self.trial}/{self.reason}/{self.message}")


ClusterAction = (
    LoadWarmStart
    | FindCheckpoint
    | CreateTrial
    | AdoptTrial
    | CreatePod
    | TryPod
    | CreateStoragePod
    | OpenGates
    | DeletePod
    | DeleteFinishedPods
    | FetchLogs
    | WriteTrialStatus
    | KeepRevision
    | DropRevision
    | WriteExperimentStatus
    | WriteMetadata
    | DeleteExperiment
    | EmitEvent
)
"""What is carried out on the API server."""
Action = Propose | ClusterAction

TrialAction = FindCheckpoint | CreatePod | TryPod | OpenGates | DeletePod | FetchLogs | WriteTrialStatus
"""What is done for one trial, whose name is its `trial`."""


class ActionStatus(StrEnum):
    """How an action went."""

    DONE = "done"
    REFUSED = "refused"
    """It can't be done as asked, however often: a pod that admission rejects, say."""
    FAILED = "failed"
    """It may work later."""


LOG_LINES = 200
LOG_TAIL = 16384
"""Characters of the program's last lines that are looked at: by `failures.rules`, and by people, the last of them."""
AGENT_LOG_LINES = 5000


@dataclass(frozen=True, slots=True)
class Logs:
    """What an ended pod's containers printed; empty where it could not be had."""

    program_tail: str = ""
    agent_lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionResult:
    """How an action went.

    Attributes:
        reason: The same in a word, where the status says too little.
        proposals: Of a Propose: the answers; fewer than asked for where the space is exhausted.
    """

    status: ActionStatus
    message: str = ""
    reason: ExperimentReason | None = None
    proposals: tuple[Proposal, ...] = ()
    logs: Logs | None = None
    prior_observations: tuple[Observation, ...] = ()
    checkpoint: Checkpoint | None = None


DONE = ActionResult(ActionStatus.DONE)
