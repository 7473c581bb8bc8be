"""How often a trial is tried again: a counter and a limit for each class of failure, none of them without end."""

from __future__ import annotations

from dataclasses import dataclass

from podtune.api.names import TrialReason
from podtune.api.resources.failures import Failures
from podtune.api.resources.trial import TrialStatus
from podtune.runner.attempts.classification import FailureClass

_COUNTERS = {
    FailureClass.USER: "failures",
    FailureClass.FINAL: "failures",
    FailureClass.UNUSABLE: "failures",
    FailureClass.DISRUPTION: "disruptions",
    FailureClass.INFRASTRUCTURE: "infrastructure_failures",
    FailureClass.IGNORED: "ignored",
}
"""Field of the status that an attempt of this class is counted in."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a trial has spent of one of its limits.

    Attributes:
        kind: What is counted, in a word or two.
        spent: How many there were, the present one included.
        limit: How many are forgiven.
        setting: The field of `failures` that says so.
        reason: Reason of a trial that has spent more.
    """

    kind: str
    spent: int
    limit: int
    setting: str
    reason: TrialReason

    @property
    def is_exceeded(self) -> bool:
        """Whether the trial has had its tries."""
        return self.spent > self.limit

    @property
    def words(self) -> str:
        """Such as: failure 3, maxFailures is 2."""
        return f"{self.kind} {self.spent}, {self.setting} is {self.limit}"


def counted(status: TrialStatus, failure_class: FailureClass) -> dict[str, int]:
    """The counter that goes up with an attempt of this class, and its new value; nothing where none does."""
    counter = _COUNTERS.get(failure_class)
    return {} if counter is None else {counter: getattr(status, counter) + 1}


def of(status: TrialStatus, failures: Failures, failure_class: FailureClass) -> Budget:
    """What has been spent of the limit for failures of this class.

    Raises:
        ValueError: Attempts of this class are not tried again.
    """
    match failure_class:
        case FailureClass.USER:
            return Budget(
                "failure", status.failures, failures.max_failures, "maxFailures", TrialReason.MAX_FAILURES_EXCEEDED
            )
        case FailureClass.DISRUPTION:
            return Budget(
                "disruption",
                status.disruptions,
                failures.max_disruptions,
                "maxDisruptions",
                TrialReason.MAX_DISRUPTIONS_EXCEEDED,
            )
        case FailureClass.INFRASTRUCTURE:
            return Budget(
                "infrastructure failure",
                status.infrastructure_failures,
                failures.max_infrastructure_failures,
                "maxInfrastructureFailures",
                TrialReason.MAX_INFRASTRUCTURE_FAILURES_EXCEEDED,
            )
        case FailureClass.IGNORED:
            return Budget(
                "ignored failure", status.ignored, failures.max_ignored, "maxIgnored", TrialReason.MAX_IGNORED_EXCEEDED
            )
    raise ValueError(f"an attempt of class {failure_class} is not tried again")
