"""Every name that other programs can see: the API group, labels, annotations, condition types and reasons.

A condition reason is part of the API: people write alerts on it. So all reasons are defined here, and nowhere else as a
string.
"""

from enum import StrEnum

GROUP = "podtune.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORY = "podtune"

EXPERIMENT_KIND = "Experiment"
EXPERIMENT_PLURAL = "experiments"
TRIAL_KIND = "Trial"
TRIAL_PLURAL = "trials"

LABEL_EXPERIMENT = f"{GROUP}/experiment"
LABEL_TRIAL = f"{GROUP}/trial"
LABEL_ATTEMPT = f"{GROUP}/attempt"
LABEL_STORAGE = f"{GROUP}/storage"
LABEL_MADE_FOR = f"{GROUP}/made-for"
"""On a pod that serves one trial after the other: name of the first of them."""
LABEL_RANK = f"{GROUP}/rank"
LABEL_ROLE = f"{GROUP}/role"
"""On a pod of a gang with roles: its role."""
LABEL_REVISION = f"{GROUP}/template-revision"
"""On a trial's pod: the revision of the trial template that it was made from."""
LABEL_STAGE = f"{GROUP}/stage"
"""On a pod that evaluates a trial: STAGE_EVALUATE. Those that train have none."""
STAGE_EVALUATE = "evaluate"
LABEL_LEADER = f"{GROUP}/leader"
LABEL_STORE_CLAIM = f"{GROUP}/store-claim"
LABEL_READER = f"{GROUP}/reader"
"""On a pod that must run on the node of all others with the same value: the claim that its checkpoints are on."""
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "podtune"
ANNOTATION_AVOIDED_NODES = f"{GROUP}/avoided-nodes"
ANNOTATION_IMPORTING = f"{GROUP}/importing"
"""On an Experiment whose Trials are being imported: the operator lets it be."""
ANNOTATION_IMPORTED = f"{GROUP}/imported"
"""On one that is imported, until the operator has seen all of it: how many Trials it has."""
ANNOTATION_MADE_FOR = f"{GROUP}/made-for-uid"
"""UID of the trial that LABEL_MADE_FOR names."""
ANNOTATION_TEMPLATE_HASH = f"{GROUP}/template-hash"
"""What the manifests of pods must have in common for one to serve the other's trials, as a digest."""
ANNOTATION_OWN_LIMITS = f"{GROUP}/own-limits"
"""On a trial's pod: the resource limits that only its trial has (`status.limits` of the Trial), as JSON."""
ANNOTATION_GRACE = f"{GROUP}/grace-period-seconds"
"""On a trial's pod: the template's termination grace period, if the pod's own is longer (checkpoints.drain)."""
ANNOTATION_PARAMETERS = f"{GROUP}/parameters"
ANNOTATION_CONTAINER = "kubectl.kubernetes.io/default-container"
"""Which container trains: kubectl shows its log, and `readers` tells it from containers that admission has added."""

FINALIZER = f"{GROUP}/checkpoints"
"""On an Experiment whose checkpoints are deleted with it, until they are."""
GANG_GATE = f"{GROUP}/gang"
"""Holds a gang's pods back from the scheduler until all of them are there."""
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
"""Label by which Kueue takes charge of a pod: it lets a group of them in as a whole, or not at all."""

OBJECT_NAME = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
"""What names of objects look like (a DNS subdomain), as a regular expression for the whole of one."""

FIELD_MANAGER = "podtune"
TOKEN_AUDIENCE = f"{GROUP}/results"


class TrialState(StrEnum):
    """The five states of a trial, as people read them; machines read the conditions."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"

    @property
    def is_finished(self) -> bool:
        """Whether the trial has ended, with or without an error."""
        return self in (TrialState.TERMINATED, TrialState.ERROR)


class ExperimentState(StrEnum):
    """The states of an experiment, as people read them."""

    CREATED = "Created"
    RUNNING = "Running"
    COMPLETE = "Complete"
    FAILED = "Failed"
    STALLED = "Stalled"
    SUSPENDED = "Suspended"

    @property
    def is_finished(self) -> bool:
        """Whether no more trials will be started."""
        return self in (ExperimentState.COMPLETE, ExperimentState.FAILED)


class DesiredState(StrEnum):
    """What a user asks of a trial."""

    RUNNING = "Running"
    PAUSED = "Paused"
    STOPPED = "Stopped"


class ConditionType(StrEnum):
    """The condition types of both kinds."""

    READY = "Ready"
    COMPLETE = "Complete"
    FAILED = "Failed"
    STALLED = "Stalled"
    RUNNING = "Running"
    SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"
    FAILURE_TARGET = "FailureTarget"
    CHECKPOINTS_STORED = "CheckpointsStored"
    RESULTS_COMPLETE = "ResultsComplete"
    PROPOSALS_MADE = "ProposalsMade"
    OVERRIDES_ACCEPTED = "OverridesAccepted"
    SUSPENDED = "Suspended"
    POD_LIMIT_REACHED = "PodLimitReached"
    TEMPLATE_CURRENT = "TemplateCurrent"
    POD_ACCEPTED = "PodAccepted"
    RETRY_ACCEPTED = "RetryAccepted"
    EXPORTED = "Exported"
    BUCKET_PRUNED = "BucketPruned"
    BUCKET_PURGED = "BucketPurged"


class ExperimentReason(StrEnum):
    """Why an experiment is in its state."""

    ACCEPTED = "Accepted"
    INVALID_SPEC = "InvalidSpec"
    RUNNING = "Running"
    TRIALS_COMPLETE = "TrialsComplete"
    SPACE_EXHAUSTED = "SpaceExhausted"
    TIME_LIMIT = "TimeLimitReached"
    ALL_TRIALS_FAILED = "AllTrialsFailed"
    NO_USABLE_RESULT = "NoUsableResult"
    NOTHING_TO_EVALUATE = "NothingToEvaluate"
    FAIL_FAST = "FailFast"
    TARGET_REACHED = "TargetReached"
    PLATEAU_REACHED = "PlateauReached"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    FAILURE_BUDGET_EXCEEDED = "FailureBudgetExceeded"
    CRITERIA_MET = "CriteriaMet"
    STOPPED_BY_USER = "StoppedByUser"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    PROPOSING = "Proposing"
    SEARCH_FAILED = "SearchFailed"
    SEARCH_SLOW = "SearchSlow"
    NO_CONFIGURATION = "NoConfiguration"
    TRIAL_NOT_MADE = "TrialNotMade"
    TRIAL_LIMIT_REACHED = "TrialLimitReached"
    TRIAL_MADE_ANEW = "TrialMadeAnew"
    POD_REFUSED = "PodRefused"
    PLUGIN_FAILED = "PluginFailed"
    TEMPLATE_CHANGED = "TemplateChanged"
    TEMPLATE_TAKEN = "TemplateTaken"
    NAMESPACE_CAP_REACHED = "NamespaceCapReached"
    WITHIN_NAMESPACE_CAP = "WithinNamespaceCap"
    WAITING_FOR_EXPERIMENT = "WaitingForExperiment"
    WARM_STARTED = "WarmStarted"
    IN_PROGRESS = "InProgress"
    CHECKPOINTS_LEFT = "CheckpointsLeft"
    CHECKPOINTS_LOST = "CheckpointsLost"
    NAMESPACE_ENDING = "NamespaceEnding"
    STORAGE_WORK_PENDING = "StorageWorkPending"
    STORAGE_WORK_DONE = "StorageWorkDone"
    STORAGE_WORK_FAILED = "StorageWorkFailed"


class DecisionAction(StrEnum):
    """What a recorded decision makes of a trial's current attempt."""

    STOP = "STOP"
    PAUSE = "PAUSE"
    FAIL = "FAIL"
    """It has failed in a way that no container reports, such as a missed deadline, and ends the trial."""
    RETRY = "RETRY"
    """It has failed in such a way, and the failure is counted."""
    END = "END"
    """Another pod of the gang has ended, and the others are deleted: reported results count."""
    REQUEUE = "REQUEUE"
    """Its pods are replaced, for they can't be scheduled, or a person or a new template asks for it: results count."""


class TrialReason(StrEnum):
    """Why a trial is in its state."""

    QUEUED = "Queued"
    STARTING = "Starting"
    UNSCHEDULABLE = "Unschedulable"
    PULLING_IMAGE = "PullingImage"
    CANNOT_START = "CannotStart"
    CHECKPOINT_LOST = "CheckpointLost"
    RESTORING = "Restoring"
    TRAINING = "Training"
    EVALUATING = "Evaluating"
    DRAINING = "Draining"
    NODE_AVOIDANCE_EXPIRED = "NodeAvoidanceExpired"
    DISRUPTED = "Disrupted"
    BACKING_OFF = "BackingOff"
    NOT_PLACED = "NotPlaced"
    WARM_POD_UNRESPONSIVE = "WarmPodUnresponsive"
    RANK_ENDED = "RankEnded"
    TEMPLATE_CHANGED = "TemplateChanged"
    RETRY_REQUESTED = "RetryRequested"
    NO_SUCH_CHECKPOINT = "NoSuchCheckpoint"
    COMPLETED = "Completed"
    STOPPED_BY_SCHEDULER = "StoppedByScheduler"
    NOT_PROMOTED = "NotPromoted"
    MAX_TIME_REACHED = "MaxTimeReached"
    STOPPED_BY_CRITERION = "StoppedByCriterion"
    STOPPED_BY_USER = "StoppedByUser"
    STOPPED_BY_EXPERIMENT = "StoppedByExperiment"
    PAUSED_BY_SCHEDULER = "PausedByScheduler"
    PAUSED_BY_USER = "PausedByUser"
    INVALID_OVERRIDES = "InvalidOverrides"
    INVALID_RESOURCES = "InvalidResources"
    WAITING_FOR_CHECKPOINT = "WaitingForCheckpoint"
    CHECKPOINT_UNAVAILABLE = "CheckpointUnavailable"
    SUSPENDED = "Suspended"
    MAX_FAILURES_EXCEEDED = "MaxFailuresExceeded"
    MAX_DISRUPTIONS_EXCEEDED = "MaxDisruptionsExceeded"
    MAX_INFRASTRUCTURE_FAILURES_EXCEEDED = "MaxInfrastructureFailuresExceeded"
    MAX_IGNORED_EXCEEDED = "MaxIgnoredExceeded"
    NON_RETRIABLE_EXIT_CODE = "NonRetriableExitCode"
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"
    PENDING_DEADLINE_EXCEEDED = "PendingDeadlineExceeded"
    RUN_DEADLINE_EXCEEDED = "RunDeadlineExceeded"
    SILENCE_DEADLINE_EXCEEDED = "SilenceDeadlineExceeded"
    STORE_UNUSABLE = "StoreUnusable"
    METRIC_MISSING = "MetricMissing"
    NO_USABLE_RESULT = "NoUsableResult"
    NOTHING_TO_EVALUATE = "NothingToEvaluate"
    POD_REJECTED = "PodRejected"
    POD_REFUSED = "PodRefused"
