"""What a trial template may say of limits, and what makes a revision of it."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.validation import InvalidSpec, parse_experiment


def parse(limits: dict[str, Any], display_name: str = "", **fields: Any) -> ExperimentSpec:
    spec = {
        "objective": {"metric": "loss", "mode": "min"},
        "parameters": [
            {"name": "workers", "int": {"min": 1, "max": 4}},
            {"name": "sizes", "choice": {"values": [[64], [32]]}},
        ],
        "search": {"maxTrials": 1},
        "trialTemplate": {
            "limits": limits,
            "displayName": display_name,
            "spec": {"containers": [{"name": "trial", "image": "example"}]},
        },
        **fields,
    }
    return parse_experiment({"metadata": {"name": "e"}, "spec": spec})


def test_limits_are_amounts_or_expressions() -> None:
    template = parse({"memory": "8Gi", "cpu": 2, "nvidia.com/gpu": {"expression": "workers * 2"}}).trial_template
    assert template.fixed_limits == {"memory": "8Gi", "cpu": "2"}
    assert {name: expression.text for name, expression in template.computed_limits.items()} == {
        "nvidia.com/gpu": "workers * 2"
    }


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"memory": "8 Gi"}, "spec.trialTemplate.limits.memory: '8 Gi' is not a quantity; write it like 4, 500m or 16"),
        ({"memory": {"expr": "workers"}}, "limits.memory: is a map; write an amount such as 8Gi, or only expression b"),
        ({"memory": {"expression": "workers +"}}, "limits.memory: 'workers +' is not an expression"),
        ({"memory": {"expression": "nodes"}}, "limits.memory.expression: 'nodes' uses 'nodes', which is not a parame"),
        ({"memory": {"expression": "sizes"}}, "'sizes' uses 'sizes', which holds lists or maps"),
        ({"gpus": 1}, "'gpus' is not a valid resource name; write it like nvidia.com/gpu"),
        ({"nvidia.com/gpu": "500m"}, "limits.nvidia.com/gpu: '500m' is a fraction of a device; write a whole number"),
    ],
)
def test_other_limits_are_refused_with_the_remedy(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse(limits)
    assert said in str(refused.value)


@pytest.mark.parametrize("gpu", [2, {"expression": "workers"}])
def test_a_budget_of_gpu_hours_goes_by_limits(gpu: Any) -> None:
    stop = {"experiment": [{"gpuHours": 8}]}
    assert parse({"nvidia.com/gpu": gpu}, stop=stop).trial_template.may_use_gpus
    with pytest.raises(InvalidSpec, match="the trial's pod requests none"):
        parse({"cpu": 2}, stop=stop)


def test_limits_and_the_display_name_make_a_revision() -> None:
    told_apart: list[tuple[dict[str, Any], str]] = [
        ({}, ""),
        ({"memory": "8Gi"}, ""),
        ({"memory": "16Gi"}, ""),
        ({"memory": {"expression": "workers"}}, ""),
        ({"memory": {"expression": "workers * 2"}}, ""),
        ({}, "$(PODTUNE_PARAM_workers) workers"),
    ]
    revisions = [parse(limits, name).trial_template.revision for limits, name in told_apart]
    assert len(set(revisions)) == len(told_apart)


def test_a_revision_is_the_same_however_its_limits_are_written() -> None:
    one = parse({"cpu": 2, "memory": {"expression": "workers"}})
    other = parse({"memory": {"expression": "workers"}, "cpu": "2"})
    assert one.trial_template.revision == other.trial_template.revision


def test_a_template_without_limits_or_display_name_has_the_revision_that_it_had_before_there_were_any() -> None:
    assert parse({}).trial_template.revision == "fb54132ae7"
