"""Whether, when and where a trial is tried again."""

from __future__ import annotations

import pytest

from podtune.api.names import TrialReason
from podtune.api.resources.failures import Failures
from podtune.api.resources.trial import MAX_FAILED_NODES, NodeFailure, TrialStatus
from podtune.runner.attempts import retries
from podtune.runner.attempts.classification import AttemptOutcome, FailureClass
from podtune.runner.timestamps import format_rfc3339

NOW = 1_800_000_000.0


def failures(**fields: object) -> Failures:
    return Failures.model_validate(fields)


@pytest.mark.parametrize(
    ("failure_class", "setting", "reason"),
    [
        (FailureClass.USER, "maxFailures", TrialReason.MAX_FAILURES_EXCEEDED),
        (FailureClass.DISRUPTION, "maxDisruptions", TrialReason.MAX_DISRUPTIONS_EXCEEDED),
        (FailureClass.INFRASTRUCTURE, "maxInfrastructureFailures", TrialReason.MAX_INFRASTRUCTURE_FAILURES_EXCEEDED),
        (FailureClass.IGNORED, "maxIgnored", TrialReason.MAX_IGNORED_EXCEEDED),
    ],
)
def test_each_class_of_failure_has_a_limit_of_its_own(
    failure_class: FailureClass, setting: str, reason: TrialReason
) -> None:
    status = TrialStatus()
    for _ in range(2):
        status = status.model_copy(update=retries.count_attempt(status, failure_class))
    forgiven = retries.find_budget(status, failures(**{setting: 2}), failure_class)
    spent = retries.find_budget(status, failures(**{setting: 1}), failure_class)
    assert (forgiven.is_exceeded, spent.is_exceeded, spent.reason) == (False, True, reason)
    assert spent.words.endswith(f" 2, {setting} is 1")


@pytest.mark.parametrize("failure_class", [FailureClass.COMPLETE, FailureClass.OURS])
def test_what_is_no_failure_is_neither_counted_nor_tried_again(failure_class: FailureClass) -> None:
    assert retries.count_attempt(TrialStatus(), failure_class) == {}
    with pytest.raises(ValueError, match="is not tried again"):
        retries.find_budget(TrialStatus(), failures(), failure_class)


def test_a_wait_doubles_up_to_its_limit_and_is_the_same_for_every_operator() -> None:
    setting = failures(backoff={"initial": "10s", "max": "30s"})
    waits = [retries.draw_wait(setting, spent, "uid/user") for spent in (1, 2, 3, 4)]
    for wait, longest in zip(waits, (10, 20, 30, 30), strict=True):
        assert longest / 2 <= wait <= longest
    assert waits == [retries.draw_wait(setting, spent, "uid/user") for spent in (1, 2, 3, 4)]
    assert waits[0] != retries.draw_wait(setting, 1, "other/user")


def test_a_node_is_remembered_only_where_somebody_wants_to_know() -> None:
    crash = AttemptOutcome(FailureClass.USER, "Error", "crashed", 1, node="n1")
    assert retries.add_node_failure(TrialStatus(), crash, failures(), NOW) == []
    asked = failures(avoidNodeAfter=2)
    assert retries.add_node_failure(TrialStatus(), crash, asked, NOW) == [
        NodeFailure(node="n1", time=format_rfc3339(NOW))
    ]
    disruption = AttemptOutcome(FailureClass.DISRUPTION, "Preempted", "preempted", node="n1")
    assert retries.add_node_failure(TrialStatus(), disruption, asked, NOW) == []


def test_a_node_that_a_rule_excludes_stays_excluded_and_only_the_latest_are_remembered() -> None:
    ruled = AttemptOutcome(FailureClass.INFRASTRUCTURE, "Error", "ECC", 1, node="n0", excludes_node=True)
    status = TrialStatus()
    for number in range(MAX_FAILED_NODES + 1):
        other = AttemptOutcome(FailureClass.USER, "Error", "crashed", 1, node=f"n{number}")
        outcomes = [ruled, other] if number == 0 else [other]
        for outcome in outcomes:
            found = retries.add_node_failure(status, outcome, failures(avoidNodeAfter=2), NOW)
            status = status.model_copy(update={"failed_nodes": found})
        if number == 0:
            assert [(node.node, node.excluded) for node in status.failed_nodes] == [("n0", True)]
    assert [node.node for node in status.failed_nodes] == [f"n{number}" for number in range(1, MAX_FAILED_NODES + 1)]
