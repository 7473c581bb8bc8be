"""How failed attempts are handled: how often, how soon and where they are retried, and what is waited for."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from podtune.api.base import ApiModel, Duration, FieldError, Form, Size, StatusModel, parse_duration
from podtune.api.patterns import LinearPattern

ExitCode = Annotated[int, Field(ge=1, le=255)]


class FailureCounts(StatusModel):
    """How much of each limit was used, by a trial's training or by its evaluation: each has counts of its own."""

    failures: int = Field(default=0, ge=0, description="How often it failed by itself, out of maxFailures.")
    disruptions: int = Field(default=0, ge=0, description="How many attempts were disrupted, out of maxDisruptions.")
    infrastructure_failures: int = Field(
        default=0,
        ge=0,
        description="How many attempts failed before the program ran, out of maxInfrastructureFailures.",
    )
    ignored: int = Field(
        default=0, ge=0, description="How many failed attempts failures.rules ignored, out of maxIgnored."
    )


class FailureAction(StrEnum):
    """What a rule does about a failed attempt."""

    RETRY = "Retry"
    FAIL = "Fail"
    IGNORE = "Ignore"
    EXCLUDE_NODE = "ExcludeNode"


class FailureRule(ApiModel):
    """What is done about attempts that ended in one way, instead of what is done by default."""

    log_regex: LinearPattern | None = Field(
        default=None,
        description=(
            "A regular expression (RE2 syntax) to find in the last lines of the program's log, such as: CUDA error: "
            ".*ECC"
        ),
    )
    exit_codes: list[ExitCode] | None = Field(
        default=None, min_length=1, max_length=32, description="Exit codes of the container that failed first."
    )
    reason: (
        Annotated[
            str,
            Field(max_length=128),
            Form("[A-Za-z]([A-Za-z0-9_,:.-]*[A-Za-z0-9_])?", "is not a reason; write it like OOMKilled"),
        ]
        | None
    ) = Field(
        default=None,
        description="Reason for the end, as in status.lastAttempt.reason, such as OOMKilled or NodeLost.",
    )
    action: FailureAction = Field(
        description=(
            "Retry: try again, and count it towards maxFailures. Fail: end the trial in ERROR. Ignore: try again "
            "without counting it, up to maxIgnored times. ExcludeNode: try again on another node, as after an "
            "infrastructure failure."
        )
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.log_regex is None and self.exit_codes is None and self.reason is None:
            raise ValueError("a rule has no condition; set logRegex, exitCodes or reason")
        return self


class BackoffSpec(ApiModel):
    """How long to wait before a trial is tried again: doubling, with jitter."""

    initial: Duration = Field(default="10s", description="Wait before the first retry.")
    max: Duration = Field(default="6m", description="Longest wait.")


class OutOfMemoryPolicy(ApiModel):
    """How much more memory an attempt gets after one that was killed for using more than its limit."""

    raise_memory_by: float = Field(
        default=1.5, gt=1, le=10, description="Factor of the new memory limit to the one before, which is rounded up."
    )
    up_to: Size = Field(description="Highest memory limit that a trial is given this way, such as 64Gi.")


class Failures(ApiModel):
    """What is done about attempts that fail."""

    max_failures: int = Field(
        default=3,
        ge=0,
        le=1000,
        description="How many times a trial may fail by itself and be retried; with one more failure it ends in ERROR.",
    )
    max_disruptions: int = Field(
        default=32,
        ge=0,
        le=1000,
        description="How many disruptions, such as preemptions, evictions and lost nodes, a trial survives.",
    )
    max_infrastructure_failures: int = Field(
        default=32,
        ge=0,
        le=1000,
        description=(
            "How many of a trial's pods may fail before the program runs, for example because they are not admitted or "
            "can't be restored."
        ),
    )
    max_ignored: int = Field(
        default=32,
        ge=0,
        le=1000,
        description="How many failed attempts of a trial the rules with action Ignore may ignore.",
    )
    non_retriable_exit_codes: list[ExitCode] = Field(
        default_factory=list, max_length=32, description="Exit codes that end a trial in ERROR at once."
    )
    rules: list[FailureRule] = Field(
        default_factory=list,
        max_length=16,
        description=(
            "How to handle certain failures; the first matching rule decides. A rule matches if every field that it "
            "sets does. Disrupted attempts are matched by reason alone."
        ),
    )
    out_of_memory: OutOfMemoryPolicy | None = Field(
        default=None,
        description=(
            "Raise the memory limit of a trial whose training container was killed for using more, and retry it from "
            "its last checkpoint. The attempt counts towards maxFailures. Memory in spec.limits of a Trial is not "
            "raised."
        ),
    )
    avoid_node_after: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description=(
            "The experiment's new pods avoid a node on which this many different trials have failed. They avoid at "
            "most half of the nodes that the experiment's pods have run on."
        ),
    )
    avoid_node_for: Duration = Field(
        default="1h",
        description="How long to avoid a node, including one that a rule with ExcludeNode excludes for a trial.",
    )
    start_deadline: Duration = Field(
        default="5m",
        description=(
            "How long a trial waits for a bad image, a missing Secret or ConfigMap or an unusable checkpoint store to "
            "be fixed, or for the API server to accept its first pod, before it ends in ERROR."
        ),
    )
    pending_deadline: Duration | None = Field(
        default=None,
        description=(
            "How long a pod may take to start its program after it is created, including the wait for a node, before "
            "the trial ends in ERROR. Without it, a trial waits for a node indefinitely, and its status says so."
        ),
    )
    run_deadline: Duration | None = Field(
        default=None,
        description=(
            "How long a trial's program may run, in total over all attempts, before the trial ends in ERROR. An "
            "evaluation has as much time again: what training took isn't counted. To stop a trial after some time "
            "without an error, use stop.trial."
        ),
    )
    silence_deadline: Duration | None = Field(
        default=None,
        description=(
            "How long a running program may go without reporting a result. After that it is considered hung: its pod "
            "is deleted, and the failure counts towards maxFailures."
        ),
    )
    fail_fast: bool = Field(default=False, description="Whether the first trial in ERROR fails the experiment.")
    backoff: BackoffSpec = Field(
        default_factory=BackoffSpec, description="Backoff before a retry, for each kind of failure."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("avoid_node_for", "pending_deadline", "run_deadline", "silence_deadline"):
            written = getattr(self, name)
            if written is not None and not parse_duration(written):
                field = type(self).model_fields[name].alias or name
                raise FieldError(field, f"{written!r} is too short; use at least 1s")
        return self
