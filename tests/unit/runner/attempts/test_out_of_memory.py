"""The memory limit of the attempt after one that was killed for using more than its limit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.api.pods.quantities import parse_quantity
from podtune.api.resources.failures import Failures
from podtune.api.resources.trial import TrialSpec, TrialStatus
from podtune.runner.attempts.classification import AttemptOutcome, FailureClass
from podtune.runner.attempts.out_of_memory import help_after_out_of_memory
from podtune.runner.attempts.retries import may_retry

KILLED = "container trial used more memory than its limit"
POLICY = {"outOfMemory": {"raiseMemoryBy": 1.5, "upTo": "64Gi"}}


def explain(
    memory: str | None,
    failures: dict[str, Any] | None = None,
    limits: dict[str, str] | None = None,
    failure_class: FailureClass = FailureClass.USER,
) -> tuple[str, str]:
    """The new limit, and what the message says after what has happened."""
    outcome = AttemptOutcome(failure_class, "OOMKilled", KILLED, 137, memory=memory)
    trial = TrialSpec(experiment="e", index=0, parameters={}, limits=limits or {})
    policy = Failures.model_validate(POLICY if failures is None else failures)
    told, raised = help_after_out_of_memory(outcome, trial, TrialStatus(), policy)
    return raised.limit if raised is not None else "", told.message.removeprefix(KILLED).removeprefix("; ")


@pytest.mark.parametrize(
    ("before", "factor", "after"),
    [
        ("2Gi", 1.5, "3Gi"),
        ("3Gi", 1.5, "4608Mi"),
        ("1000M", 2, "1908Mi"),
        ("1", 1.1, "1Mi"),
        ("10Mi", 1.1, "11Mi"),
        ("1Gi", 1.0001, "1025Mi"),
        ("50Gi", 1.5, "64Gi"),
        ("65535Mi", 1.0001, "64Gi"),
    ],
)
def test_the_limit_is_multiplied_rounded_up_and_capped(before: str, factor: float, after: str) -> None:
    failures = {"outOfMemory": {"raiseMemoryBy": factor, "upTo": "64Gi"}}
    assert explain(before, failures) == (
        after,
        f"memory raised from {before} to {after} after an out-of-memory failure",
    )


@given(st.integers(1, 2**45), st.floats(1.001, 10.0), st.integers(1, 2**45))
def test_a_limit_is_only_ever_raised_and_never_above_the_highest(before: int, factor: float, highest: int) -> None:
    failures = {"outOfMemory": {"raiseMemoryBy": factor, "upTo": str(highest)}}
    after = parse_quantity(explain(str(before), failures)[0] or "0")
    assert after is not None
    if before >= highest:
        assert after == 0
    else:
        assert before < after <= highest
        assert after >= min(Fraction(highest), before * parse_quantity(str(factor)))  # type: ignore[operator]


@pytest.mark.parametrize("before", ["64Gi", "100Gi", "65536Mi"])
def test_at_the_highest_limit_the_message_says_what_to_do(before: str) -> None:
    assert explain(before) == (
        "",
        f"the limit, {before}, is not below failures.outOfMemory.upTo, 64Gi; raise upTo, or set memory in spec.limits "
        "of the Trial",
    )


@pytest.mark.parametrize("none", ["", "0"])
def test_what_has_no_limit_is_not_raised(none: str) -> None:
    words = "it has no memory limit that failures.outOfMemory could raise; set limits.memory in spec.trialTemplate"
    assert explain(none) == ("", words)


def test_without_the_policy_the_template_is_to_be_corrected() -> None:
    assert explain("2Gi", {}) == ("", "raise its limits.memory in spec.trialTemplate")


@pytest.mark.parametrize(
    ("failures", "failure_class", "is_raised"),
    [
        ({}, FailureClass.USER, True),
        ({}, FailureClass.IGNORED, True),
        ({}, FailureClass.INFRASTRUCTURE, True),
        ({}, FailureClass.FINAL, False),
        ({"maxFailures": 0}, FailureClass.USER, False),
        ({"maxIgnored": 0}, FailureClass.IGNORED, False),
    ],
)
def test_memory_is_raised_only_for_an_attempt_that_comes(
    failures: dict[str, Any], failure_class: FailureClass, is_raised: bool
) -> None:
    assert bool(explain("2Gi", {**POLICY, **failures}, failure_class=failure_class)[0]) == is_raised
    assert may_retry(TrialStatus(), Failures.model_validate(failures), failure_class) == is_raised


def test_memory_that_a_user_has_set_is_not_raised() -> None:
    refused = "spec.limits of the Trial sets its memory, so it is not raised; set more there"
    assert explain("16Gi", limits={"memory": "16Gi"}) == ("", refused)
    assert explain("16Gi", {}, limits={"memory": "16384Mi"}) == ("", refused)
    assert explain("2Gi", limits={"memory": "16Gi"}) == (
        "",
        "its next attempt has memory 16Gi (spec.limits of the Trial)",
    )
    assert explain("2Gi", {"maxFailures": 0}, limits={"memory": "16Gi"}) == ("", refused)
    assert explain("2Gi", limits={"cpu": "4"})[0] == "3Gi"


def test_other_ends_are_left_alone() -> None:
    assert explain(None) == ("", "")
