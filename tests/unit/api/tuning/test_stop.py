from __future__ import annotations

from typing import Any

import pytest

from podtune.api.tuning.stop import Stop
from podtune.api.validation import InvalidSpec, parse_experiment

GPU = {"name": "trial", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}


def manifest(stop: dict[str, Any], container: dict[str, Any] | None = None) -> dict[str, Any]:
    spec = {
        "objective": {"metric": "accuracy", "mode": "max"},
        "parameters": [{"name": "lr", "float": {"min": 0.001, "max": 0.1}}],
        "search": {"maxTrials": 4},
        "stop": stop,
        "trialTemplate": {"spec": {"containers": [container or GPU]}},
    }
    return {"metadata": {"name": "e"}, "spec": spec}


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        (
            {"trial": [{"iterations": 9, "time": "1h"}]},
            "spec.stop.trial[0]: needs exactly one of time, iterations, metrics, plateau, expression, plugin, all, "
            "any; found time, iterations; start a new entry, with a dash, for each",
        ),
        ({"experiment": [{"time": "1h"}, {}]}, "spec.stop.experiment[1]: needs exactly one of time, target, plateau"),
        ({"experiment": [{"target": None}]}, "found none; name one"),
        (
            {"trial": [{"all": [{"any": [{"iterations": 9}]}, {"time": "1h"}]}]},
            "spec.stop.trial[0].all[0].any: any can't be used inside a group; give it its own entry in the list above",
        ),
        ({"trial": [{"any": [{"time": "1h"}]}]}, "spec.stop.trial[0].any: a list of 1 is too short; give at least 2"),
        ({"trial": [{"time": "0h0m"}]}, "spec.stop.trial[0].time: '0h0m' is too short; use at least 1s"),
        ({"totalTime": "0s"}, "spec.stop.totalTime: '0s' is too short"),
        ({"trial": [{"expression": "loss >"}]}, "spec.stop.trial[0].expression: 'loss >' is not an expression"),
        ({"experiment": [{"expression": "open('x')"}]}, "spec.stop.experiment[0].expression: there is no function"),
        ({"experiment": [{"failures": {}}]}, "spec.stop.experiment[0].failures: needs exactly one of count, share"),
        (
            {"experiment": [{"failures": {"count": 3, "after": 9}}]},
            "spec.stop.experiment[0].failures.after: after applies to share, not to count; remove it",
        ),
        ({"experiment": [{"failures": {"share": 1.5}}]}, "failures.share: 1.5 is too large; it may be at most 1"),
        ({"experiment": [{"cost": {"budget": 5}}]}, "spec.stop.experiment[0].cost: needs perGpuHour, perPodHour or"),
        (
            {"trial": [{"any": [{"plugin": {"name": "mine"}}] * 9}] * 2},
            "spec.stop.trial: 18 entries have a plugin; use at most 16",
        ),
        ({"trial": [{"plateau": {"window": 1}}]}, "plateau.window: 1 is too small; it must be at least 2"),
        ({"trial": [{"plateau": {"window": 51}}]}, "plateau.window: 51 is too large; it may be at most 50"),
        ({"experiment": [{"plateau": {"trials": 9}}]}, "fields here: top, tolerance, patience"),
    ],
)
def test_the_field_the_value_and_the_remedy_are_named(stop: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_experiment(manifest(stop))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("criterion", "field"),
    [
        ({"gpuHours": 9}, "gpuHours"),
        ({"cost": {"budget": 9, "perGpuHour": 2}}, "cost"),
    ],
)
def test_gpus_that_nobody_asks_for_are_no_budget(criterion: dict[str, Any], field: str) -> None:
    pod = {"name": "trial", "image": "i"}
    for rule, path in (({"any": [{"time": "1h"}, criterion]}, ".any[1]"), (criterion, "")):
        stop = {"experiment": [{"target": 0.9}, rule]}
        assert parse_experiment(manifest(stop)).stop.has_budget
        with pytest.raises(InvalidSpec, match=r"requests none; give its container a limit") as refused:
            parse_experiment(manifest(stop, pod))
        assert str(refused.value).startswith(f"spec.stop.experiment[1]{path}.{field}: counts GPUs")
    parse_experiment(manifest({"experiment": [{"cost": {"budget": 9, "perGpuHour": 2, "perPodHour": 1}}]}, pod))


def test_gpus_that_a_rung_brings_are_a_budget() -> None:
    given = manifest({"experiment": [{"gpuHours": 9}]}, {"name": "trial", "image": "i"})
    rungs = {"ashaPromotion": {"maxTime": 27}, "resources": [{"atRung": 1, "limits": {"nvidia.com/gpu": 1}}]}
    given["spec"] |= {"scheduler": rungs, "checkpoints": {"store": {"bucket": "bucket"}}}
    assert parse_experiment(given).stop.has_budget


@pytest.mark.parametrize(
    ("stop", "bounded"),
    [
        ({}, False),
        ({"metrics": {"epoch": 3}, "trial": [{"time": "1h"}]}, False),
        ({"totalTime": "1h"}, True),
        ({"experiment": [{"time": "1h"}]}, True),
        ({"experiment": [{"target": 1}]}, True),
        ({"experiment": [{"plateau": {}}]}, True),
        ({"experiment": [{"gpuHours": 1}]}, True),
        ({"experiment": [{"cost": {"budget": 1, "perPodHour": 1}}]}, True),
        ({"experiment": [{"failures": {"count": 1}}, {"expression": "a > 1"}, {"plugin": {"name": "own"}}]}, False),
        ({"experiment": [{"all": [{"time": "1h"}, {"target": 1}]}]}, True),
        ({"experiment": [{"all": [{"time": "1h"}, {"failures": {"count": 1}}]}]}, False),
        ({"experiment": [{"any": [{"time": "1h"}, {"failures": {"count": 1}}]}]}, True),
    ],
)
def test_what_ends_a_search_without_max_trials_is_known(stop: dict[str, Any], bounded: bool) -> None:
    assert Stop.model_validate(stop).has_budget is bounded


def test_a_group_may_be_as_long_as_a_list() -> None:
    parts = [{"iterations": step} for step in range(1, 17)]
    stop = Stop.model_validate({"trial": [{"all": parts}]})
    assert stop.trial[0].all_of is not None
    assert stop.model_dump(by_alias=True, exclude_none=True)["trial"] == [{"all": parts}]
