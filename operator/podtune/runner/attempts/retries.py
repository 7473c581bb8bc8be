"""Whether, when and where a trial is tried again.

There is a counter and a limit for each class of failure, so none is retried without end.
"""

from __future__ import annotations

from dataclasses import dataclass

from podtune.api.base import parse_duration
from podtune.api.names import TrialReason
from podtune.api.resources.evaluation import EvaluationSpec
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.failures import Failures
from podtune.api.resources.trial import MAX_FAILED_NODES, NodeFailure, TrialStatus
from podtune.runner.attempts.classification import AttemptOutcome, FailureClass
from podtune.runner.backoff import Backoff
from podtune.runner.timestamps import format_rfc3339

_COUNTERS = {
    FailureClass.USER: "failures",
    FailureClass.FINAL: "failures",
    FailureClass.UNUSABLE: "failures",
    FailureClass.DISRUPTION: "disruptions",
    FailureClass.INFRASTRUCTURE: "infrastructure_failures",
    FailureClass.IGNORED: "ignored",
}
"""Field of the status that an attempt of this class is counted in."""
_RETRIED = frozenset({FailureClass.USER, FailureClass.DISRUPTION, FailureClass.INFRASTRUCTURE, FailureClass.IGNORED})
"""The classes after which a trial is tried again, as often as its limits allow."""


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
        """Whether the trial has used all its retries."""
        return self.spent > self.limit

    @property
    def words(self) -> str:
        """Such as: failure 3, maxFailures is 2."""
        return f"{self.kind} {self.spent}, {self.setting} is {self.limit}"


def count_attempt(status: TrialStatus, failure_class: FailureClass) -> dict[str, object]:
    """Names what changes in the status with an attempt of this class: the counter of its stage; empty where none does.

    The attempts of an evaluation are counted apart from those of training.
    """
    counter = _COUNTERS.get(failure_class)
    if counter is None:
        return {}
    evaluation = status.evaluation
    if evaluation is None:
        return {counter: getattr(status, counter) + 1}
    return {"evaluation": evaluation.model_copy(update={counter: getattr(evaluation, counter) + 1})}


def find_budget(
    status: TrialStatus, failures: Failures, failure_class: FailureClass, evaluation: EvaluationSpec | None = None
) -> Budget:
    """Finds what has been spent of the limit for failures of this class.

    Raises:
        ValueError: Attempts of this class are not tried again.
    """
    counts = status.evaluation or status
    match failure_class:
        case FailureClass.USER if status.evaluation is not None and evaluation is not None:
            return Budget(
                "failure of the evaluation",
                counts.failures,
                evaluation.max_failures,
                "evaluation.maxFailures",
                TrialReason.MAX_FAILURES_EXCEEDED,
            )
        case FailureClass.USER:
            return Budget(
                "failure", counts.failures, failures.max_failures, "maxFailures", TrialReason.MAX_FAILURES_EXCEEDED
            )
        case FailureClass.DISRUPTION:
            return Budget(
                "disruption",
                counts.disruptions,
                failures.max_disruptions,
                "maxDisruptions",
                TrialReason.MAX_DISRUPTIONS_EXCEEDED,
            )
        case FailureClass.INFRASTRUCTURE:
            return Budget(
                "infrastructure failure",
                counts.infrastructure_failures,
                failures.max_infrastructure_failures,
                "maxInfrastructureFailures",
                TrialReason.MAX_INFRASTRUCTURE_FAILURES_EXCEEDED,
            )
        case FailureClass.IGNORED:
            return Budget(
                "ignored failure", counts.ignored, failures.max_ignored, "maxIgnored", TrialReason.MAX_IGNORED_EXCEEDED
            )
    raise ValueError(f"an attempt of class {failure_class} is not tried again")


def may_retry(status: TrialStatus, failures: Failures, failure_class: FailureClass) -> bool:
    """Whether a trial is tried again after one more attempt of this class."""
    if failure_class not in _RETRIED:
        return False
    counted = status.model_copy(update=count_attempt(status, failure_class))
    return not find_budget(counted, failures, failure_class).is_exceeded


def draw_wait(failures: Failures, spent: int, key: str) -> float:
    """Draws how many seconds a trial waits for its next attempt; the key names trial and class, and so the jitter."""
    return Backoff(parse_duration(failures.backoff.initial), parse_duration(failures.backoff.max)).compute_delay(
        spent, key
    )


def build_placement_timeout(spec: ExperimentSpec) -> Backoff:
    """How long a gang may take to be placed, and waits after it was not: with jitter, for each attempt another time."""
    whole = parse_duration(spec.trial_template.placement_timeout)
    return Backoff(whole, whole)


def add_node_failure(status: TrialStatus, outcome: AttemptOutcome, failures: Failures, now: float) -> list[NodeFailure]:
    """Adds to the trial's failures by node, where a node may be to blame and somebody wants to know."""
    if not outcome.excludes_node and not (failures.avoid_node_after and outcome.blames_node):
        return status.failed_nodes
    excluded = outcome.excludes_node or any(n.node == outcome.node and n.excluded for n in status.failed_nodes)
    others = [failure for failure in status.failed_nodes if failure.node != outcome.node]
    return [*others, NodeFailure(node=outcome.node, time=format_rfc3339(now), excluded=excluded)][-MAX_FAILED_NODES:]
