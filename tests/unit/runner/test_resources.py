"""The limits of a trial's container, from the template, its parameters and the rungs that it has passed."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import RaisedMemory, TrialSpec, TrialStatus
from podtune.runner.resources import choose_own_limits, compose_limits, show_limits

PARAMETERS = [
    {"name": "workers", "int": {"min": 0, "max": 64}},
    {"name": "size", "choice": {"values": ["small", "big"]}},
    {"name": "shards", "int": {"min": 1, "max": 4}, "when": {"size": ["big"]}},
]
GPU = "nvidia.com/gpu"


def make_spec(limits: dict[str, Any], rungs: list[dict[str, Any]] | None = None) -> ExperimentSpec:
    scheduler = {"ashaPromotion": {"maxTime": 9}, "resources": rungs} if rungs else {"fifo": {}}
    return ExperimentSpec.model_validate(
        {
            "objective": {"metric": "loss", "mode": "min"},
            "parameters": PARAMETERS,
            "search": {"maxTrials": 3},
            "scheduler": scheduler,
            "checkpoints": {"store": {"bucket": "podtune"}},
            "trialTemplate": {"limits": limits, "spec": {"containers": [{"name": "trial", "image": "example"}]}},
        }
    )


def compose(limits: dict[str, Any], **configuration: Any) -> dict[str, str]:
    given = compose_limits(make_spec(limits), {"workers": 3, "size": "small", **configuration}, 0)
    assert given.problem == ""
    return dict(given.limits)


@pytest.mark.parametrize(
    ("resource", "expression", "amount"),
    [
        (GPU, "workers", "3"),
        (GPU, "workers * 2 / 3", "2"),
        (GPU, "workers - 3", "0"),
        ("memory", "'16Gi' if size == 'big' else '8Gi'", "8Gi"),
        ("memory", "1.5 * 2 ** 30 * workers", "4831838208"),
        ("memory", "workers / 2", "2"),
        ("cpu", "workers / 2", "1500m"),
        ("cpu", "0.1 + 0.2", "300m"),
        ("cpu", "workers / 7", "429m"),
    ],
)
def test_a_limit_follows_from_parameters(resource: str, expression: str, amount: str) -> None:
    assert compose({resource: {"expression": expression}}) == {resource: amount}


def test_a_limit_that_needs_a_parameter_which_is_not_there_is_left_to_the_container() -> None:
    limits = {"memory": {"expression": "shards * 2 ** 30"}, "cpu": 2}
    assert compose(limits) == {"cpu": "2"}
    assert compose(limits, size="big", shards=2) == {"cpu": "2", "memory": "2147483648"}


@pytest.mark.parametrize(
    ("resource", "expression", "problem"),
    [
        (GPU, "workers / 2", "trialTemplate.limits.nvidia.com/gpu: '1.5' is a fraction of a device: the expression"),
        ("memory", "workers - 5", "'-2' is too small: the expression 'workers - 5' comes to that; correct it"),
        ("memory", "size", "'small' is not a quantity: the expression 'size' comes to that"),
        ("memory", "workers > 2", "'true' is not a quantity"),
        ("cpu", "1 / (workers - 3)", "trialTemplate.limits.cpu: the expression '1 / (workers - 3)' has no value ("),
    ],
)
def test_what_no_pod_can_have_is_a_problem(resource: str, expression: str, problem: str) -> None:
    given = compose_limits(make_spec({resource: {"expression": expression}}), {"workers": 3, "size": "small"}, 0)
    assert problem in given.problem
    assert not given.limits


def test_rungs_come_before_the_template() -> None:
    limits = {"memory": "8Gi", "cpu": {"expression": "workers"}, GPU: {"expression": "workers"}}
    spec = make_spec(limits, [{"atRung": 1, "limits": {GPU: 8, "memory": "64Gi"}}])
    before, after = (compose_limits(spec, {"workers": 3, "size": "small"}, passed) for passed in (0, 1))
    assert before.limits == {"memory": "8Gi", "cpu": "3", GPU: "3"}
    assert after.limits == {"memory": "64Gi", "cpu": "3", GPU: "8"}
    assert show_limits(after.shown) == "cpu 3, nvidia.com/gpu 8, memory 64Gi"


def test_what_a_trial_has_for_itself_comes_first() -> None:
    limits = {"memory": {"expression": "1 / (workers - 3)"}, "cpu": "1"}
    spec = make_spec(limits, [{"atRung": 1, "limits": {GPU: 8}}])
    given = compose_limits(spec, {"workers": 3}, 1, {"memory": "16Gi", GPU: "2"})
    assert (given.limits, given.shared) == ({"cpu": "1", GPU: "2", "memory": "16Gi"}, {"cpu": "1", GPU: "8"})
    assert (given.problem, given.are_own) == ("", True), "what it replaces need not have a value"
    assert show_limits(given.shown) == "nvidia.com/gpu 2, memory 16Gi"
    assert not compose_limits(spec, {"workers": 4}, 1, {"cpu": "1", "memory": "8"}).problem


def choose(
    own: dict[str, str], raised: str = "", container: str = "", without: dict[str, str] | None = None
) -> dict[str, str]:
    """The limits that a trial has for itself.

    Args:
        own: What its user has set.
        raised: What its memory was raised to.
        container: The memory limit of the template's container.
        without: The limits that it has otherwise.
    """
    spec = make_spec({})
    if container:
        spec.trial_template.spec["containers"][0]["resources"] = {"limits": {"memory": container}}
    status = TrialStatus(raised_memory=RaisedMemory(previous="1", limit=raised) if raised else None)
    trial = TrialSpec(experiment="e", index=0, parameters={}, limits=own)
    return choose_own_limits(spec, without or {}, trial, status)


def test_memory_that_was_raised_is_a_lower_bound() -> None:
    assert choose({}, "3Gi", "2Gi") == choose({}, "3Gi") == {"memory": "3Gi"}
    assert choose({}, "3Gi", "2Gi", {"memory": "1Gi"}) == {"memory": "3Gi"}
    assert choose({}, "3Gi", "4Gi") == choose({}, "3Gi", "2Gi", {"memory": "3072Mi"}) == choose({}) == {}


def test_what_a_user_sets_comes_before_what_was_raised() -> None:
    assert choose({"memory": "1Gi"}, "3Gi", "2Gi") == {"memory": "1Gi"}
    assert choose({"cpu": "4"}, "3Gi", "2Gi") == {"cpu": "4", "memory": "3Gi"}


def test_only_what_follows_from_parameters_is_the_trials_own() -> None:
    fixed = compose_limits(make_spec({"memory": "8Gi"}, [{"atRung": 1, "limits": {GPU: 8}}]), {"workers": 3}, 1)
    assert fixed.limits == fixed.shared == {"memory": "8Gi", GPU: "8"}
    own = compose_limits(make_spec({"memory": "8Gi", GPU: {"expression": "workers"}}), {"workers": 3}, 0)
    assert own.are_own
    assert own.shared == {"memory": "8Gi"}
