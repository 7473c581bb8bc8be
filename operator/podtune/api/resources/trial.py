"""The Trial resource: one configuration, its attempts, and what has come out of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, WithJsonSchema

from podtune.api.base import ATOMIC, ApiModel, StatusModel, key_by
from podtune.api.conditions import MAX_MESSAGE, Condition
from podtune.api.names import DecisionAction, DesiredState, TrialState
from podtune.api.object_names import OwnName, RecordedName
from podtune.api.restore_from import RestoreFrom
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import MAX_METRICS

ShortText = Annotated[str, Field(max_length=256)]
Remembered = Annotated[str, Field(max_length=2048)]


MAX_FAILED_NODES = 8
"""So many nodes that have failed a trial are remembered."""
MAX_FAILED_RESTORE_SOURCES = 8
"""So many checkpoints that spec.restoreFrom came to, and that could not be restored, are remembered."""
MAX_DECISION_MESSAGE = 512
MAX_LEDGER_MESSAGE = 256
MAX_NUMBERS = 16
"""So many numbers stand behind a decision in the ledger."""
MAX_NUMBER_NAME = 63
MAX_NUMBER = 64
MAX_LOG_TAIL = 1024
MAX_RUNG_OBSERVATIONS = 32
"""So many values at rungs the searcher observes."""
MAX_PINNED = 6
"""So many checkpoints are kept besides those of checkpoints.keep, because other trials may clone them."""
MAX_CHECKPOINTS = 34 + MAX_PINNED
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


class ProposalRecord(ApiModel):
    """What the configuration was proposed from, so that the same facts lead to the same proposal again."""

    number: int = Field(
        ge=0,
        description=(
            "The proposal's number; with the experiment's seed it seeds the draws. With search.repeats, several trials "
            "come of one proposal."
        ),
    )
    observed_seq: int = Field(
        default=0,
        ge=0,
        description="The searcher knew all observations with a lower sequence number than this.",
    )
    running: str = Field(
        default="",
        max_length=MAX_RANGES,
        description="Numbers of the proposals that it knew to be under way then, such as 3,7-12.",
    )
    attributes: dict[Annotated[str, Field(max_length=63)], Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict, max_length=16, description="What the searcher has to know again of this proposal."
    )


class Checkpoint(StatusModel):
    """A committed checkpoint: its manifest is in the bucket."""

    step: int = Field(ge=0, description="Training iteration after which it was taken.")
    uri: str = Field(max_length=1024, description="Where it is, such as s3://bucket/prefix/…/step.")
    digest: str = Field(max_length=80, description="sha256:… of its manifest.")
    metric: str = Field(default="", max_length=64, description="Value of the objective's metric with it.")
    configuration: str = Field(
        default="",
        max_length=16,
        description="Which parameters it was taken with: their fingerprint, empty for those of the spec.",
    )

    @property
    def ref(self) -> CheckpointRef:
        """What is needed to restore it."""
        return CheckpointRef(self.uri, self.digest, self.step)


class RestoreSource(StatusModel):
    """The checkpoint that was found to start from."""

    uri: str = Field(default="", max_length=1024, description="The checkpoint; empty where the trial starts afresh.")
    step: int = Field(default=0, ge=0, description="Training iteration after which it was taken.")


class FormerTrial(StatusModel):
    """A Trial of the same name that was deleted, as it was last seen."""

    uid: str = Field(default="", max_length=64, description="Its UID.")
    checkpoints: list[Checkpoint] = Field(
        default_factory=list,
        max_length=MAX_CHECKPOINTS,
        description="Those of its checkpoints that fit the configuration, oldest first: the trial goes on from them.",
    )
    restore_source: RestoreSource | None = Field(
        default=None, description="The checkpoint that its restoreFrom had found."
    )
    last_result: dict[str, ShortText] = Field(
        default_factory=dict,
        max_length=MAX_METRICS,
        description="Its last result, where there is a checkpoint to go on from.",
    )
    best: dict[str, ShortText] = Field(
        default_factory=dict,
        max_length=MAX_METRICS,
        description="Its result with the best value of the objective, likewise.",
    )
    lack: str = Field(default="", max_length=128, description="Why the trial starts afresh, where it does.")
    find_checkpoints: bool = Field(
        default=False,
        description=(
            "No operator has seen it last: the first attempt looks for its checkpoints in the bucket, and goes on from "
            "the one that has come furthest with the same configuration."
        ),
    )


class TrialSpec(ApiModel):
    """One configuration. Everything but desiredState and overrides is fixed once it is made."""

    experiment: OwnName = Field(description="Name of the Experiment it belongs to.")
    index: int = Field(ge=0, description="Position among the experiment's trials, from 0.")
    parameters: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        max_length=64, description="The configuration: values by parameter name.", json_schema_extra=ATOMIC
    )
    seed: int | None = Field(
        default=None,
        ge=0,
        le=2**31 - 1,
        description="What the program may seed its own draws with (PODTUNE_SEED); each repeat has another one.",
    )
    desired_state: DesiredState = Field(
        default=DesiredState.RUNNING,
        description="Running; Paused: give the pod back and keep the place; Stopped: end the trial for good.",
    )
    overrides: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict,
        max_length=64,
        description=(
            "Values that take the place of those in parameters, from the next start of a pod on: pause the trial, "
            "change them, resume it, and it goes on from its checkpoint with them. All have to lie in the search "
            "space."
        ),
    )
    restore_from: RestoreFrom | None = Field(
        default=None,
        description="Another trial's checkpoint that it starts from; it goes on with that one's iterations.",
    )
    proposal: ProposalRecord | None = Field(
        default=None, description="What the configuration was proposed from.", json_schema_extra=ATOMIC
    )
    former: FormerTrial | None = Field(
        default=None,
        description="A Trial of this name that was deleted, in whose place this one was made.",
        json_schema_extra=ATOMIC,
    )


class PodRef(StatusModel):
    """The pod of the current or last attempt; of a gang, that of rank 0."""

    name: RecordedName = Field(max_length=253, description="Name of the pod.")
    uid: str = Field(
        default="",
        max_length=64,
        description="The attempt's id: UID of the pod; of one that is reused, and /<trial's index>.<attempt>.",
    )
    node: str = Field(default="", max_length=253, description="Node that the pod is on.")
    since: str = Field(
        default="", max_length=32, description="When a pod that had served another trial was given to it (RFC 3339)."
    )


class Decision(StatusModel):
    """A decision of the scheduler, a stopper or a user that ends or pauses the current attempt."""

    action: Annotated[DecisionAction, WithJsonSchema({"type": "string", "maxLength": 32})] = Field(
        description=(
            "STOP, PAUSE, FAIL, RETRY or REQUEUE, when pods that found no place are given up to be made anew; of a "
            "gang also END, when one of its pods has ended and the others go."
        ),
    )
    reason: str = Field(max_length=128, description="Why, in one word.")
    message: str = Field(default="", max_length=MAX_DECISION_MESSAGE, description="Why, with its numbers.")
    attempt: int = Field(ge=0, description="The attempt that it was taken on.")
    step: int = Field(default=0, ge=0, description="The iteration of the result that it was taken on.")
    seq: int = Field(
        default=0, ge=0, description="How many results of the attempt had come: their checkpoints are waited for."
    )
    time: str = Field(default="", max_length=32, description="When it was taken (RFC 3339): waits are counted from it.")
    ranks: list[Annotated[int, Field(ge=0)]] = Field(
        default_factory=list,
        max_length=64,
        description="Of an END: the ranks whose pods had ended, or were being taken away; we delete the others.",
    )


class Clone(StatusModel):
    """What the trial goes on from instead of its own checkpoints, until it has one that was taken after."""

    donor: RecordedName = Field(max_length=63, description="The trial that it was taken from.")
    checkpoint: Checkpoint = Field(description="The donor's checkpoint; it stays in the bucket for as long.")
    attempt: int = Field(default=0, ge=0, description="The first attempt that has restored it; 0 before that.")
    previous_parameters: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict,
        max_length=64,
        description="The parameters that hold again if it can't be restored; empty for those of the spec.",
    )


class AwaitedExploit(StatusModel):
    """An exploit that waits for a checkpoint of its donor."""

    donor: str = Field(max_length=63, description="The trial that is to be cloned.")
    step: int = Field(
        ge=0, description="Iteration of the result that it was ranked with: the checkpoint is of that, or from before."
    )
    parameters: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict, max_length=64, description="What the trial is to go on with."
    )
    since: str = Field(max_length=32, description="When it was decided (RFC 3339); checkpoints.sync.timeout counts.")
    message: str = Field(default="", max_length=MAX_LEDGER_MESSAGE, description="Why, with its numbers.")


class RungObservation(StatusModel):
    """A value that the searcher observes before the trial has ended."""

    seq: int = Field(ge=0, description="Its sequence number in the order in which the searcher observes values.")
    step: int = Field(ge=0, description="The milestone that the value counts at.")
    value: str = Field(max_length=64, description="Value of the objective's metric.")


class LedgerEntry(StatusModel):
    """A decision on the trial, with what it was made from."""

    number: int = Field(ge=1, description="Position among the trial's decisions, from 1.")
    time: str = Field(max_length=32, description="When it was taken (RFC 3339).")
    attempt: int = Field(default=0, ge=0, description="The attempt that it was taken on.")
    step: int = Field(default=0, ge=0, description="The iteration that it was taken on.")
    action: str = Field(max_length=16, description="CONTINUE, PAUSE, STOP, PROMOTE, EXPLOIT, RETRY, …")
    message: str = Field(
        default="", max_length=MAX_LEDGER_MESSAGE, description="The decision and its reason in a sentence."
    )
    inputs: dict[NumberName, Number] = Field(
        default_factory=dict, max_length=MAX_NUMBERS, description="The numbers that it was made from."
    )


class AttemptEnd(StatusModel):
    """How the last attempt ended."""

    attempt: int = Field(ge=1, description="The attempt's number.")
    uid: str = Field(default="", max_length=64, description="The attempt's id; it is counted once.")
    failure_class: str = Field(
        max_length=32, alias="class", description="complete, ours, user, final, disruption, infrastructure or ignored."
    )
    reason: str = Field(max_length=128, description="Reason in one word, such as Error, OOMKilled, Evicted.")
    message: str = Field(default="", max_length=MAX_MESSAGE, description="What happened, in a sentence.")
    exit_code: int | None = Field(default=None, description="Exit code of the program, where there is one.")
    log_tail: str = Field(default="", max_length=MAX_LOG_TAIL, description="The last lines of the program's log.")


class LostCheckpoint(StatusModel):
    """The newest checkpoint of an attempt, where it had been reported and was not stored when the attempt ended."""

    attempt: int = Field(ge=1, description="The last attempt that has lost one.")
    step: int = Field(ge=0, description="Training iteration after which it was taken.")
    attempts: int = Field(default=1, ge=1, description="How many attempts have lost theirs.")
    message: str = Field(default="", max_length=256, description="What is lost and why, in a sentence.")


class Consumption(StatusModel):
    """Time that budgets count, in whole seconds."""

    training_seconds: int = Field(ge=0, description="How long the program ran.")
    pod_seconds: int = Field(ge=0, description="How long a pod was on a node.")
    gpu_seconds: int = Field(ge=0, description="The same for each GPU that the pod held, added up.")


class Usage(Consumption):
    """What a trial has used over all its attempts, up to the time at which this was written."""

    attempt: Consumption | None = Field(default=None, description="The current attempt's part of it.")


class NodeFailure(StatusModel):
    """A node that has failed the trial, where failures.avoidNodeAfter or a rule with ExcludeNode asks for it."""

    node: str = Field(max_length=253, description="Name of the node.")
    time: str = Field(max_length=32, description="When it has failed the trial last (RFC 3339).")
    excluded: bool = Field(default=False, description="Whether a rule says not to try again there.")


class TrialStatus(StatusModel):
    """What the operator has seen and decided: all that a scheduler must not forget."""

    observed_generation: int = Field(default=-1, description="The generation of the spec that was last looked at.")
    state: TrialState | None = Field(default=None, description="State, for people.")
    reason: str = Field(default="", max_length=128, description="Why it is in that state, in one word.")
    message: str = Field(default="", max_length=MAX_MESSAGE, description="The state in a sentence.")
    attempt: int = Field(default=0, ge=0, description="Number of the current or last attempt, from 1.")
    failures: int = Field(default=0, ge=0, description="Failures of its own, out of maxFailures.")
    disruptions: int = Field(
        default=0, ge=0, description="Attempts that were taken away from it, out of maxDisruptions."
    )
    infrastructure_failures: int = Field(
        default=0, ge=0, description="Attempts whose program never ran, out of maxInfrastructureFailures."
    )
    ignored: int = Field(default=0, ge=0, description="Attempts that failures.rules ignore, out of maxIgnored.")
    failed_nodes: list[NodeFailure] = Field(
        default_factory=list, max_length=MAX_FAILED_NODES, description="Nodes that have failed it, the latest last."
    )
    pod: PodRef | None = Field(default=None, description="Pod of the current or last attempt.")
    last_result: dict[str, ShortText] = Field(
        default_factory=dict,
        max_length=MAX_METRICS,
        description="The last result; time_this_iter_s is left out, unless it is an objective.",
    )
    best: dict[str, ShortText] = Field(
        default_factory=dict, max_length=MAX_METRICS, description="The result with the best value of the objective."
    )
    best_value: str = Field(
        default="", max_length=64, description="That value by itself: kubectl can't show one whose name varies."
    )
    last_result_time: str | None = Field(
        default=None, max_length=32, description="When the last result came, where failures.silenceDeadline is given."
    )
    iteration: int = Field(
        default=0, ge=0, description="Highest training iteration seen, over all attempts; a clone has its donor's."
    )
    progress: str = Field(
        default="",
        max_length=64,
        description=(
            "Highest value of the scheduler's time attribute; results not above it are hidden from it. Empty again "
            "when another trial's checkpoint was restored."
        ),
    )
    durable_seq: int = Field(
        default=0, ge=0, description="Sequence number of the last result of this attempt that this status covers."
    )
    checkpoint: Checkpoint | None = Field(default=None, description="The latest committed checkpoint.")
    checkpoints: list[Checkpoint] = Field(
        default_factory=list,
        max_length=MAX_CHECKPOINTS,
        description="All kept checkpoints, oldest first; a few more than checkpoints.keep says while others may clone.",
    )
    lost_checkpoint: LostCheckpoint | None = Field(
        default=None, description="A checkpoint that was reported and could not be stored, if there is one."
    )
    scheduler: dict[str, Annotated[dict[str, ShortText], Field(max_length=1024)]] = Field(
        default_factory=dict, max_length=16, description="What the scheduler remembers of the trial, such as rungs."
    )
    stopper: dict[Annotated[str, Field(max_length=16)], Annotated[dict[str, Remembered], Field(max_length=64)]] = Field(
        default_factory=dict, max_length=4, description="What the rules of spec.stop.trial remember of the results."
    )
    missing_metrics: int = Field(
        default=0, ge=0, description="Results that were passed over since they lacked a metric (objective.missing)."
    )
    usage: Usage | None = Field(default=None, description="What it has used, as budgets count it.")
    decision: Decision | None = Field(default=None, description="A decision that ends or pauses the attempt.")
    parameters: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict,
        max_length=64,
        description="What it runs with, where that is not spec.parameters any more.",
    )
    overrides: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict, max_length=64, description="Those of spec.overrides that were taken in."
    )
    best_parameters: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict, max_length=64, description="What `best` was reached with, where not with spec.parameters."
    )
    clone: Clone | None = Field(default=None, description="Another trial's checkpoint that it goes on from.")
    exploit: AwaitedExploit | None = Field(
        default=None, description="Another trial's checkpoint that it waits for, to go on from that."
    )
    restore_source: RestoreSource | None = Field(
        default=None,
        description="The checkpoint that spec.restoreFrom found; looked up again only where it can't be restored.",
    )
    former: RestoreSource | None = Field(
        default=None, description="What the first attempt has found, where spec.former has it look for checkpoints."
    )
    failed_restore_sources: list[Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=list,
        max_length=MAX_FAILED_RESTORE_SOURCES,
        description="Checkpoints that spec.restoreFrom found and that could not be restored, the latest last.",
    )
    rung_observations: list[RungObservation] = Field(
        default_factory=list,
        max_length=MAX_RUNG_OBSERVATIONS,
        description="Values at rungs that the searcher has observed.",
    )
    ledger: list[LedgerEntry] = Field(
        default_factory=list,
        max_length=16,
        description="The latest decisions on the trial, oldest first; earlier ones are in the bucket, as ledger.jsonl.",
    )
    ledger_exported: int = Field(
        default=0, ge=0, description="Number of the last decision that an attempt that has ended put into the bucket."
    )
    last_attempt: AttemptEnd | None = Field(default=None, description="How the last attempt ended.")
    retry_time: str | None = Field(default=None, max_length=32, description="No new attempt before this (RFC 3339).")
    run_generation: int = Field(
        default=0, ge=0, description="How often the experiment had gone on after an end when this trial ended."
    )
    observation_seq: int | None = Field(
        default=None,
        ge=0,
        description="Sequence number of its result in the order in which the searcher observes them.",
    )
    start_time: str | None = Field(default=None, max_length=32, description="When the trial first ran.")
    completion_time: str | None = Field(default=None, max_length=32, description="When the trial ended.")
    conditions: list[Condition] = Field(
        default_factory=list, max_length=16, description="For programs.", json_schema_extra=key_by("type")
    )
