"""What is done about attempts that fail: how often, how soon and where they are tried again, and what is waited for."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from podtune.api.base import ApiModel, Duration, FieldError, Form, parse_duration
from podtune.api.patterns import LinearPattern

ExitCode = Annotated[int, Field(ge=1, le=255)]


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
            "A regular expression (RE2's syntax) that is found in the last lines of the program's log, such as: "
            "CUDA error: .*ECC"
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
        description="Reason of the end, as in status.lastAttempt.reason, such as OOMKilled or NodeLost.",
    )
    action: FailureAction = Field(
        description=(
            "Retry: spend one of maxFailures. Fail: end the trial in ERROR. Ignore: try again and spend nothing, up to "
            "maxIgnored times. ExcludeNode: try again on another node, as after an infrastructure failure."
        )
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.log_regex is None and self.exit_codes is None and self.reason is None:
            raise ValueError("a rule says nothing of what it is for; give logRegex, exitCodes or reason")
        return self


class BackoffSpec(ApiModel):
    """How long to wait before a trial is tried again: doubling, with jitter."""

    initial: Duration = Field(default="10s", description="Wait before the first retry.")
    max: Duration = Field(default="6m", description="Longest wait.")


class Failures(ApiModel):
    """What is done about attempts that fail."""

    max_failures: int = Field(
        default=3,
        ge=0,
        le=1000,
        description="How many failures of its own a trial is forgiven; one more and it ends in ERROR.",
    )
    max_disruptions: int = Field(
        default=32,
        ge=0,
        le=1000,
        description="How many preemptions, evictions, lost nodes and the like a trial survives.",
    )
    max_infrastructure_failures: int = Field(
        default=32,
        ge=0,
        le=1000,
        description="How many pods of a trial may fail before its program runs: not admitted, not restored, …",
    )
    max_ignored: int = Field(
        default=32, ge=0, le=1000, description="How many attempts of a trial rules with the action Ignore pass over."
    )
    non_retriable_exit_codes: list[ExitCode] = Field(
        default_factory=list, max_length=32, description="Exit codes that end a trial in ERROR at once."
    )
    rules: list[FailureRule] = Field(
        default_factory=list,
        max_length=16,
        description=(
            "What is done about certain ends of attempts; the first rule that matches decides. A rule matches if all "
            "that it names does. Attempts that were disrupted are matched by reason alone."
        ),
    )
    avoid_node_after: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description=(
            "A node on which so many different trials have failed is avoided by all of the experiment's new pods. "
            "At most half of the nodes that its pods have been on are."
        ),
    )
    avoid_node_for: Duration = Field(
        default="1h",
        description="How long a node is avoided; also by a trial that a rule with ExcludeNode keeps off it.",
    )
    start_deadline: Duration = Field(
        default="5m",
        description=(
            "How long a bad image, a missing Secret or ConfigMap, an unusable checkpoint store or an API server that "
            "refuses the trial's first pod is waited for before the trial ends in ERROR."
        ),
    )
    pending_deadline: Duration | None = Field(
        default=None,
        description=(
            "How long a pod may take from when it is made until its program runs, also for want of a node, before the "
            "trial ends in ERROR. Without it, a trial waits for a node for as long as it takes, and says so."
        ),
    )
    run_deadline: Duration | None = Field(
        default=None,
        description=(
            "How long a trial's program may run, all attempts added up, before the trial ends in ERROR; to end it well "
            "after some time, use stop.trial."
        ),
    )
    silence_deadline: Duration | None = Field(
        default=None,
        description=(
            "How long a running program may go without a result; then it is taken to hang, its pod is deleted, and one "
            "of maxFailures is spent."
        ),
    )
    fail_fast: bool = Field(default=False, description="Whether the first trial in ERROR fails the experiment.")
    backoff: BackoffSpec = Field(
        default_factory=BackoffSpec, description="Wait before a retry, for each kind of failure."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("avoid_node_for", "pending_deadline", "run_deadline", "silence_deadline"):
            written = getattr(self, name)
            if written is not None and not parse_duration(written):
                field = type(self).model_fields[name].alias or name
                raise FieldError(field, f"{written!r} is over before it begins; give at least 1s")
        return self
