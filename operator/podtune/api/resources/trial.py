"""The Trial resource: one configuration, its attempts and its results."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from podtune.api.base import ATOMIC, ApiModel, StatusModel, key_by
from podtune.api.conditions import MAX_MESSAGE, Condition
from podtune.api.names import DecisionAction, DesiredState, TrialReason, TrialState, UnheardNews
from podtune.api.object_names import OwnName, RecordedName
from podtune.api.pods.limit_names import MAX_ROLE_NAME, MAX_ROLES
from podtune.api.pods.quantities import UncheckedQuantity
from podtune.api.resources.failures import FailureCounts
from podtune.api.resources.trial_curve import TrialCurve
from podtune.api.resources.trial_evaluation import TrialEvaluation
from podtune.api.resources.trial_requests import CheckpointRequest, RetryRequest
from podtune.api.restore_from import RestoreFrom
from podtune.api.transitions import TrialTransitions
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import MAX_METRICS

ShortText = Annotated[str, Field(max_length=256)]
MAX_STOPPER_RECORD = 2048
Remembered = Annotated[str, Field(max_length=MAX_STOPPER_RECORD)]


MAX_FAILED_NODES = 8
"""How many nodes that failed a trial are remembered."""
MAX_FAILED_RESTORE_SOURCES = 8
"""How many checkpoints that spec.restoreFrom resolved to but that could not be restored are remembered."""
MAX_DECISION_MESSAGE = 512
MAX_LEDGER_MESSAGE = 256
MAX_NUMBERS = 16
"""How many numbers a decision in the ledger may have."""
MAX_NUMBER_NAME = 63
MAX_NUMBER = 64
MAX_LOG_TAIL = 1024
MAX_RUNG_OBSERVATIONS = 32
"""How many values at rungs the searcher observes per trial."""
MAX_RESULT_OBSERVATIONS = 500
"""How many values it observes per trial if it observes every result; those at rungs are among them."""
MAX_PINNED = 6
"""How many checkpoints are kept besides those of checkpoints.keep, because other trials may clone them."""
MAX_CHECKPOINTS = 34 + MAX_PINNED
MAX_LIMITS = 16
MAX_LIMIT = 64
MAX_RANGES = 65_536
"""Longest list of indexes as ranges: that of 10,000 trials of which every other one is finished."""

NumberName = Annotated[str, Field(max_length=MAX_NUMBER_NAME)]
Number = Annotated[str, Field(max_length=MAX_NUMBER)]


def format_indexes(indexes: Iterable[int]) -> str:
    """Writes indexes as ranges, such as 3,7-12: a hundred of them as a list would double a Trial's size."""
    ranges: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], index)
        else:
            ranges.append((index, index))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


class ProposalSource(StrEnum):
    """Where a configuration comes from."""

    INITIAL = "Initial"
    """An entry of the experiment's search.initial."""
    SEARCHER = "Searcher"


class ProposalRecord(ApiModel):
    """What the configuration was proposed from, so that the same facts lead to the same proposal again."""

    number: int = Field(
        ge=0,
        description=(
            "Number of the proposal. Together with the experiment's seed, it seeds the random draws. With "
            "search.repeats, several trials share one proposal."
        ),
    )
    source: ProposalSource | None = Field(
        default=None,
        description="Where the configuration comes from: Initial (search.initial) or Searcher.",
    )
    position: int = Field(
        default=0,
        ge=0,
        description="Place in search.initial, from 0; or how many configurations the searcher had proposed before.",
    )
    observed_seq: int = Field(
        default=0,
        ge=0,
        description="The searcher had observed everything with a lower sequence number than this.",
    )
    running: str = Field(
        default="",
        max_length=MAX_RANGES,
        description="Numbers of the proposals that were under way at that time, such as 3,7-12.",
    )
    attributes: dict[Annotated[str, Field(max_length=63)], Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict, max_length=16, description="What the searcher needs to remember about this proposal."
    )


class Checkpoint(StatusModel):
    """A committed checkpoint: its manifest is in the bucket."""

    step: int = Field(ge=0, description="Training iteration after which the checkpoint was taken.")
    uri: str = Field(max_length=1024, description="URI of the checkpoint, such as s3://bucket/prefix/…/step.")
    digest: str = Field(max_length=80, description="Digest of its manifest (sha256:…).")
    metric: str = Field(default="", max_length=64, description="Value of the objective's metric when it was taken.")
    configuration: str = Field(
        default="",
        max_length=16,
        description="Fingerprint of the parameters that it was taken with; empty for those of the spec.",
    )

    @property
    def ref(self) -> CheckpointRef:
        """What is needed to restore it."""
        return CheckpointRef(self.uri, self.digest, self.step)


class RestoreSource(StatusModel):
    """The checkpoint that was found to start from."""

    uri: str = Field(default="", max_length=1024, description="The checkpoint; empty if the trial starts from scratch.")
    step: int = Field(default=0, ge=0, description="Training iteration after which the checkpoint was taken.")


class FormerTrial(StatusModel):
    """A Trial of the same name that was deleted, as it was last seen."""

    uid: str = Field(default="", max_length=64, description="Its UID.")
    checkpoints: list[Checkpoint] = Field(
        default_factory=list,
        max_length=MAX_CHECKPOINTS,
        description="Its checkpoints that match the configuration, oldest first. The trial continues from them.",
    )
    restore_source: RestoreSource | None = Field(
        default=None, description="The checkpoint that its restoreFrom resolved to."
    )
    last_result: dict[str, ShortText] = Field(
        default_factory=dict,
        max_length=MAX_METRICS,
        description="Its last result, if there is a checkpoint to continue from.",
    )
    best: dict[str, ShortText] = Field(
        default_factory=dict,
        max_length=MAX_METRICS,
        description="Its result with the best value of the objective, if there is a checkpoint to continue from.",
    )
    lack: str = Field(default="", max_length=128, description="Why the trial starts from scratch, if it does.")
    find_checkpoints: bool = Field(
        default=False,
        description=(
            "Set if no operator saw the Trial's last state. The first attempt then looks for its checkpoints in the "
            "bucket and continues from the most advanced one with the same configuration."
        ),
    )


UNNUMBERED = -1
"""Stands for the index of a Trial whose name holds it, until that is read."""


def _describe_index(schema: dict[str, Any]) -> None:
    """What is not given stays so: the API server fills nothing in."""
    del schema["default"]
    schema["minimum"] = 0


class TrialSpec(ApiModel):
    """One configuration. Only desiredState, overrides, limits, retry and checkpointRequest can be changed later."""

    experiment: OwnName = Field(description="Name of the Experiment it belongs to.")
    index: int = Field(
        default=UNNUMBERED,
        description=(
            "Position among the experiment's proposals, from 0. Only the operator sets it. A Trial that you add has "
            "its index in its name alone: <experiment>-<number>, with a number from 100000 on."
        ),
        json_schema_extra=_describe_index,
    )
    parameters: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        max_length=64, description="The configuration: values by parameter name.", json_schema_extra=ATOMIC
    )
    seed: int | None = Field(
        default=None,
        ge=0,
        le=2**31 - 1,
        description="Seed for the program's own random draws (PODTUNE_SEED). Each repeat has a different one.",
    )
    display_name: str = Field(
        default="", max_length=63, description="Its name for people, made of trialTemplate.displayName."
    )
    desired_state: DesiredState = Field(
        default=DesiredState.RUNNING,
        description=(
            "Running: run the trial. Paused: release its pod until the trial is resumed. Stopped: end the trial for "
            "good."
        ),
    )
    overrides: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict,
        max_length=64,
        description=(
            "Values that replace those in parameters from the next pod start on. To change them, pause the trial, edit "
            "them and resume it: it continues from its checkpoint with the new values. They must lie in the search "
            "space."
        ),
    )
    limits: dict[str, UncheckedQuantity] = Field(
        default_factory=dict,
        max_length=MAX_LIMITS,
        description=(
            "Resource limits of the training container from the trial's next attempt on, by resource name, such as "
            "memory: 16Gi; in a gang with roles after the role, such as worker:memory: 16Gi. They come before those of "
            "trialTemplate and of scheduler.resources, and before what failures.outOfMemory has raised. 0 removes a "
            "limit."
        ),
    )
    retry: RetryRequest | None = Field(
        default=None,
        description="A request to end the current attempt: a new one goes on with the present trialTemplate.",
        json_schema_extra=ATOMIC,
    )
    checkpoint_request: CheckpointRequest | None = Field(
        default=None,
        description="A request to store a checkpoint as soon as the trial runs, without a pause.",
        json_schema_extra=ATOMIC,
    )
    restore_from: RestoreFrom | None = Field(
        default=None,
        description="Another trial's checkpoint to start from. The trial continues counting that trial's iterations.",
    )
    proposal: ProposalRecord | None = Field(
        default=None, description="What the proposal of the configuration was based on.", json_schema_extra=ATOMIC
    )
    former: FormerTrial | None = Field(
        default=None,
        description="The deleted Trial of the same name that this one replaces.",
        json_schema_extra=ATOMIC,
    )


class PodRef(StatusModel):
    """The pod of the current or last attempt; for a gang, the pod of rank 0."""

    name: RecordedName = Field(max_length=253, description="Name of the pod.")
    uid: str = Field(
        default="",
        max_length=64,
        description="ID of the attempt: the pod's UID, followed by /<trial's index>.<attempt> if the pod is reused.",
    )
    node: str = Field(default="", max_length=253, description="Node that the pod runs on.")
    since: str = Field(default="", max_length=32, description="When a reused pod was assigned to the trial (RFC 3339).")


class Decision(StatusModel):
    """A decision of the scheduler, a stopper or a user that ends or pauses the current attempt."""

    action: Annotated[DecisionAction, WithJsonSchema({"type": "string", "maxLength": 32})] = Field(
        description=(
            "STOP, PAUSE, FAIL, RETRY or REQUEUE (the pods are replaced, such as for spec.retry); for a gang also END "
            "(one pod has ended, and the others are deleted)."
        ),
    )
    reason: str = Field(max_length=128, description="Why, in one word.")
    message: str = Field(default="", max_length=MAX_DECISION_MESSAGE, description="Why, with the numbers behind it.")
    attempt: int = Field(ge=0, description="Attempt that the decision applies to.")
    step: int = Field(default=0, ge=0, description="Iteration of the result that led to it.")
    seq: int = Field(
        default=0,
        ge=0,
        description="How many results of the attempt had arrived. The decision waits for their checkpoints.",
    )
    time: str = Field(default="", max_length=32, description="When it was taken (RFC 3339). Timeouts start then.")
    ranks: list[Annotated[int, Field(ge=0)]] = Field(
        default_factory=list,
        max_length=64,
        description="For END: the ranks whose pods had ended or were terminating. The operator deletes the others.",
    )
    discards: bool = Field(
        default=False,
        description="Whether no checkpoint of the trial is kept (checkpoints.keep.stopped): none is waited for.",
    )
    restore_step: int | None = Field(
        default=None,
        ge=0,
        description="Of a REQUEUE: iteration of the earlier checkpoint that the trial goes back to.",
    )

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the program is asked for one more checkpoint, which its pods wait for."""
        return self.action is DecisionAction.PAUSE or (self.is_requested_retry and self.restore_step is None)

    @property
    def stores_no_more(self) -> bool:
        """Whether later checkpoints count for nothing: none is kept, or the trial goes back before them."""
        return self.discards or self.restore_step is not None

    @property
    def is_requested_retry(self) -> bool:
        """Whether a person has asked for another attempt."""
        return self.action is DecisionAction.REQUEUE and self.reason == TrialReason.RETRY_REQUESTED


class Clone(StatusModel):
    """What the trial continues from instead of its own checkpoints, until it has a later one."""

    donor: RecordedName = Field(max_length=63, description="Trial that the checkpoint belongs to.")
    checkpoint: Checkpoint = Field(
        description="The donor's checkpoint. It is kept in the bucket as long as it is needed here."
    )
    attempt: int = Field(default=0, ge=0, description="First attempt that restored it; 0 before that.")
    previous_parameters: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict,
        max_length=64,
        description="Parameters to return to if it can't be restored; empty for those of the spec.",
    )


class AwaitedExploit(StatusModel):
    """An exploit that waits for its donor's checkpoint."""

    donor: str = Field(max_length=63, description="Trial to clone.")
    step: int = Field(
        ge=0,
        description=(
            "Iteration of the result that the donor was ranked by. The checkpoint is from this iteration or an earlier "
            "one."
        ),
    )
    parameters: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict, max_length=64, description="Parameters that the trial continues with."
    )
    since: str = Field(
        max_length=32, description="When it was decided (RFC 3339). checkpoints.sync.timeout counts from then."
    )
    message: str = Field(default="", max_length=MAX_LEDGER_MESSAGE, description="Why, with the numbers behind it.")


class RungObservation(StatusModel):
    """A value that the searcher observes before the trial has ended."""

    seq: int = Field(ge=0, description="Sequence number in the searcher's order of observations.")
    step: int = Field(ge=0, description="Milestone or iteration of the value.")
    value: str = Field(max_length=64, description="Value of the objective's metric.")


class LedgerEntry(StatusModel):
    """A decision on the trial, with the numbers behind it."""

    number: int = Field(ge=1, description="Number of the decision within the trial, from 1.")
    time: str = Field(max_length=32, description="When it was taken (RFC 3339).")
    attempt: int = Field(default=0, ge=0, description="Attempt that the decision applies to.")
    step: int = Field(default=0, ge=0, description="Iteration that it was taken on.")
    action: str = Field(max_length=16, description="CONTINUE, PAUSE, STOP, PROMOTE, EXPLOIT, RETRY, …")
    message: str = Field(
        default="", max_length=MAX_LEDGER_MESSAGE, description="The decision and its reason, in a sentence."
    )
    inputs: dict[NumberName, Number] = Field(
        default_factory=dict, max_length=MAX_NUMBERS, description="The numbers behind it."
    )


class AttemptEnd(StatusModel):
    """How the last attempt ended."""

    attempt: int = Field(ge=1, description="The attempt's number.")
    uid: str = Field(default="", max_length=64, description="ID of the attempt, so that it is counted only once.")
    failure_class: str = Field(
        max_length=32, alias="class", description="complete, ours, user, final, disruption, infrastructure or ignored."
    )
    reason: str = Field(max_length=128, description="Reason in one word, such as Error, OOMKilled or Evicted.")
    message: str = Field(default="", max_length=MAX_MESSAGE, description="What happened, in a sentence.")
    exit_code: int | None = Field(default=None, description="Exit code of the program, if it has one.")
    log_tail: str = Field(default="", max_length=MAX_LOG_TAIL, description="The last lines of the program's log.")
    pod: str = Field(
        default="",
        max_length=253,
        description=(
            "Name of its pod; for a gang, the pod of rank 0. This field and those below are kept only if the operator "
            "exports traces."
        ),
    )
    node: str = Field(default="", max_length=253, description="Node that the pod ran on.")
    creation_time: str | None = Field(
        default=None,
        max_length=32,
        description="When its pod was created, or a reused one was assigned to it (RFC 3339).",
    )
    start_time: str | None = Field(default=None, max_length=32, description="When its program started, if it did.")
    end_time: str | None = Field(default=None, max_length=32, description="When the operator recorded its end.")


class RequestedCheckpoint(StatusModel):
    """What became of the last spec.checkpointRequest."""

    id: str = Field(max_length=63, description="The request's id.")
    attempt: int = Field(ge=1, description="The attempt that ran when it was taken up.")
    seq: int = Field(
        ge=0,
        description=(
            "How many results of the attempt had arrived. The first checkpoint that was taken with the last of them or "
            "with a later one answers the request, and so does any of a later attempt."
        ),
    )
    checkpoint: Checkpoint | None = Field(
        default=None, description="The checkpoint that answers it, once that is stored."
    )


class LostCheckpoint(StatusModel):
    """The newest checkpoint of an attempt, where it had been reported and was not stored when the attempt ended."""

    attempt: int = Field(ge=1, description="Last attempt that lost a checkpoint.")
    step: int = Field(ge=0, description="Training iteration after which the checkpoint was taken.")
    attempts: int = Field(default=1, ge=1, description="How many attempts lost one.")
    message: str = Field(default="", max_length=256, description="What was lost and why, in a sentence.")


class Consumption(StatusModel):
    """Time that budgets count, in whole seconds."""

    training_seconds: int = Field(ge=0, description="How long the program ran.")
    pod_seconds: int = Field(ge=0, description="How long a pod was on a node.")
    gpu_seconds: int = Field(ge=0, description="The same time, counted for each GPU that the pod held.")


class Usage(Consumption):
    """What a trial had used over all its attempts when this was written."""

    attempt: Consumption | None = Field(default=None, description="The current attempt's share.")


class NodeFailure(StatusModel):
    """A node that the trial failed on; recorded for failures.avoidNodeAfter and for rules with ExcludeNode."""

    node: str = Field(max_length=253, description="Name of the node.")
    time: str = Field(max_length=32, description="When the trial last failed on it (RFC 3339).")
    excluded: bool = Field(default=False, description="Whether a rule excludes the node for the trial.")


class RaisedMemory(StatusModel):
    """A memory limit that failures.outOfMemory has raised."""

    previous: str = Field(max_length=MAX_LIMIT, alias="from", description="Limit of the attempt that was killed.")
    limit: str = Field(max_length=MAX_LIMIT, alias="to", description="Limit of the attempts after it.")
    role: str = Field(
        default="", max_length=MAX_ROLE_NAME, description="In a gang with roles, the role whose pods have that limit."
    )
    others: dict[str, Annotated[str, Field(max_length=MAX_LIMIT)]] = Field(
        default_factory=dict,
        max_length=MAX_ROLES,
        description="Limits that the memory of other roles was raised to before, by role.",
    )

    def find_limit(self, role: str) -> str:
        """What the memory of a role was raised to; empty where it was not."""
        return self.limit if role == self.role else self.others.get(role, "")


class TrialStatus(FailureCounts):
    """What the operator has observed and decided, including everything that a scheduler must not forget."""

    observed_generation: int = Field(default=-1, description="Generation of the spec that this status reflects.")
    state: TrialState | None = Field(
        default=None, description="State in one word, for people; programs read the conditions."
    )
    reason: str = Field(default="", max_length=128, description="Why the trial is in this state, in one word.")
    message: str = Field(default="", max_length=MAX_MESSAGE, description="The state, in a sentence.")
    attempt: int = Field(default=0, ge=0, description="Number of the current or last attempt, from 1.")
    revision: str = Field(
        default="",
        max_length=16,
        description=(
            "Revision of the trial template that the pods of its current or next attempt are made from; empty for the "
            "experiment's first."
        ),
    )
    limits: dict[str, Annotated[str, Field(max_length=MAX_LIMIT)]] = Field(
        default_factory=dict,
        max_length=MAX_LIMITS + MAX_ROLES,
        description=(
            "Resource limits of its current or next attempt that it has for itself: those of spec.limits, and the "
            "memory that failures.outOfMemory has raised. They are written before its pods are created."
        ),
    )
    raised_memory: RaisedMemory | None = Field(
        default=None, description="How failures.outOfMemory has last raised its memory limit, if it has."
    )
    retried_attempt: int = Field(
        default=0, ge=0, description="The attempt that spec.retry was last carried out for; 0 for none."
    )
    failed_nodes: list[NodeFailure] = Field(
        default_factory=list,
        max_length=MAX_FAILED_NODES,
        description="Nodes that the trial failed on, the latest last.",
    )
    pod: PodRef | None = Field(default=None, description="Pod of the current or last attempt.")
    last_result: dict[str, ShortText] = Field(
        default_factory=dict,
        max_length=MAX_METRICS,
        description="The last result, without time_this_iter_s unless that is an objective.",
    )
    best: dict[str, ShortText] = Field(
        default_factory=dict, max_length=MAX_METRICS, description="The result with the best value of the objective."
    )
    best_value: str = Field(
        default="",
        max_length=64,
        description="The objective's value in best, under a fixed name that kubectl can show in a column.",
    )
    best_text: str = Field(
        default="", max_length=64, description="The same with four digits, for people: kubectl's column Best."
    )
    curve: TrialCurve | None = Field(
        default=None,
        description=(
            "The objectives during training, in at most 64 points. It is written along with other things, so it may "
            "lag behind lastResult while the trial runs. A stretch that is run again after a retry is shown as it was "
            "the first time."
        ),
    )
    last_result_time: str | None = Field(
        default=None, max_length=32, description="When the last result arrived. Set only with failures.silenceDeadline."
    )
    folder: str = Field(
        default="",
        max_length=1024,
        description=(
            "Where the trial's checkpoints and results are stored, such as s3://bucket/prefix/…/trial/. Each attempt "
            "has a folder of its own in it."
        ),
    )
    iteration: int = Field(
        default=0, ge=0, description="Highest training iteration over all attempts. A clone continues from its donor's."
    )
    progress: str = Field(
        default="",
        max_length=64,
        description=(
            "Highest value of the scheduler's time attribute. The scheduler does not see results at or below it. It is "
            "reset when another trial's checkpoint is restored."
        ),
    )
    durable_seq: int = Field(
        default=0, ge=0, description="Sequence number of the current attempt's last result that this status covers."
    )
    checkpoint: Checkpoint | None = Field(default=None, description="The latest committed checkpoint.")
    checkpoints: list[Checkpoint] = Field(
        default_factory=list,
        max_length=MAX_CHECKPOINTS,
        description=(
            "All kept checkpoints, oldest first. There may be a few more than checkpoints.keep while other trials may "
            "clone this one."
        ),
    )
    evaluation: TrialEvaluation | None = Field(
        default=None, description="The evaluation, once training has ended (spec.evaluation of the Experiment)."
    )
    checkpoint_request: RequestedCheckpoint | None = Field(
        default=None, description="The last request for a checkpoint that was taken up, and its answer."
    )
    lost_checkpoint: LostCheckpoint | None = Field(
        default=None, description="A checkpoint that was reported but not stored, if any."
    )
    scheduler: dict[str, Annotated[dict[str, ShortText], Field(max_length=1024)]] = Field(
        default_factory=dict,
        max_length=16,
        description="What the scheduler remembers about the trial, such as its rungs.",
    )
    unheard: list[UnheardNews] = Field(
        default_factory=list,
        max_length=len(UnheardNews),
        description=(
            "What the scheduler has not heard of the trial, since it failed. It is told once it works again: "
            "Configuration, SkippedExploit, Result (the last one) and Completion."
        ),
    )
    stopper: dict[Annotated[str, Field(max_length=16)], Annotated[dict[str, Remembered], Field(max_length=64)]] = Field(
        default_factory=dict, max_length=4, description="What the rules of spec.stop.trial remember about the results."
    )
    missing_metrics: int = Field(
        default=0,
        ge=0,
        description="Number of results that were skipped because they lacked a metric (objective.missing).",
    )
    usage: Usage | None = Field(default=None, description="Time that the trial has used, as budgets count it.")
    decision: Decision | None = Field(default=None, description="A decision that ends or pauses the attempt.")
    parameters: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict,
        max_length=64,
        description="The parameters that the trial runs with, if they differ from spec.parameters.",
    )
    overrides: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict, max_length=64, description="The values of spec.overrides that are in effect."
    )
    best_parameters: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict,
        max_length=64,
        description="The parameters that `best` was reached with, if they differ from spec.parameters.",
    )
    clone: Clone | None = Field(default=None, description="Another trial's checkpoint that this trial continues from.")
    exploit: AwaitedExploit | None = Field(
        default=None, description="Another trial's checkpoint that this trial waits for, to continue from it."
    )
    restore_source: RestoreSource | None = Field(
        default=None,
        description=(
            "The checkpoint that spec.restoreFrom resolved to. It is looked up again only if it can't be restored."
        ),
    )
    former: RestoreSource | None = Field(
        default=None, description="What the first attempt found, if spec.former has it look for checkpoints."
    )
    failed_restore_sources: list[Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=list,
        max_length=MAX_FAILED_RESTORE_SOURCES,
        description="Checkpoints that spec.restoreFrom resolved to but that could not be restored, the latest last.",
    )
    rung_observations: list[RungObservation] = Field(
        default_factory=list,
        max_length=MAX_RESULT_OBSERVATIONS,
        description="Values that the searcher has observed before the trial's end: at rungs, or those of all results.",
    )
    ledger: list[LedgerEntry] = Field(
        default_factory=list,
        max_length=16,
        description="The latest decisions on the trial, oldest first. Earlier ones are in the bucket, in ledger.jsonl.",
    )
    ledger_exported: int = Field(
        default=0, ge=0, description="Number of the last decision that an ended attempt stored in the bucket."
    )
    last_attempt: AttemptEnd | None = Field(default=None, description="How the last attempt ended.")
    retry_time: str | None = Field(default=None, max_length=32, description="No new attempt before this (RFC 3339).")
    run_generation: int = Field(
        default=0, ge=0, description="How many times the experiment had resumed after an end when this trial ended."
    )
    observation_seq: int | None = Field(
        default=None,
        ge=0,
        description="Sequence number of the trial's result in the searcher's order of observations.",
    )
    transitions: TrialTransitions = Field(
        default_factory=list,
        description="Its latest changes of state, oldest first. Kept only if the operator has webhooks.",
    )
    start_time: str | None = Field(default=None, max_length=32, description="When the trial first started.")
    completion_time: str | None = Field(default=None, max_length=32, description="When the trial ended.")
    conditions: list[Condition] = Field(
        default_factory=list, max_length=16, description="Conditions, for programs.", json_schema_extra=key_by("type")
    )
