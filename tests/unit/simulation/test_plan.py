"""What a plan counts where resources follow from parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from podtune.simulation.cluster import ClusterModel
from podtune.simulation.plan import make_plan
from tests.unit.simulation.test_simulated_experiment import spec

STEADY = ClusterModel(pod_start=20, pod_stop=5, checkpoint=5)
WORKERS = [{"name": "workers", "choice": {"values": [1, 2, 4, 8]}}]
EACH_ONCE = {"algorithm": "bruteForce", "maxTrials": 4}
NOTE = "resources follow from parameters: GPUs per trial are the mean of the simulated trials"


def template(limits: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"limits": limits, "spec": {"containers": [{"name": "trial", "image": "i"}]}, **fields}


@pytest.mark.parametrize(
    ("gpus", "replicas", "mean"),
    [
        ({"expression": "workers"}, 1, (1 + 2 + 4 + 8) / 4),
        ({"expression": "workers"}, 2, 2 * (1 + 2 + 4 + 8) / 4),
        ({"expression": "8 if workers == 8 else 0"}, 1, 8 / 4),
        (3, 1, 3.0),
    ],
)
def test_gpus_per_trial_are_the_mean_of_what_trials_ask_for(gpus: Any, replicas: int, mean: float) -> None:
    pods = template({"nvidia.com/gpu": gpus}, replicas=replicas)
    plan = make_plan(spec(parameters=WORKERS, search=EACH_ONCE, trialTemplate=pods), STEADY, seconds=60.0, iterations=3)
    assert plan.trials == 4
    assert plan.gpus_a_trial == mean
    assert plan.whole_gpu_hours == pytest.approx(4 * mean * (3 * 60 + 20) / 3600)
    assert (NOTE in plan.notes) is isinstance(gpus, dict)


def plan_rungs(gpus: Any, resources: list[dict[str, Any]]) -> list[float]:
    """GPU hours of each rung, where the trials that reach it are always the same."""
    scheduler = {"ashaPromotion": {"maxTime": 9, "reductionFactor": 3}, "resources": resources}
    manifest = spec(
        parameters=WORKERS,
        search=EACH_ONCE,
        scheduler=scheduler,
        checkpoints={"store": {"bucket": "bucket"}},
        trialTemplate=template({"nvidia.com/gpu": gpus}),
    )
    return [rung.gpu_hours for rung in make_plan(manifest, STEADY, seconds=60.0, iterations=9).rungs]


def test_a_rung_replaces_what_follows_from_parameters() -> None:
    first, *others = plan_rungs(16, [])
    of_rungs = [{"atRung": 1, "limits": {"nvidia.com/gpu": 16}}]
    assert plan_rungs({"expression": "workers"}, of_rungs) == pytest.approx([first * 3.75 / 16, *others])


def test_evaluations_take_time_and_no_gpu() -> None:
    evaluation = {"template": {"spec": {"containers": [{"name": "trial", "image": "scorer"}]}}}
    fields: dict[str, Any] = {"checkpoints": {"store": {"bucket": "bucket"}}}
    plain = make_plan(spec(**fields), STEADY, seconds=60, iterations=9)
    plan = make_plan(spec(**fields, evaluation=evaluation), replace(STEADY, evaluation=600), seconds=60, iterations=9)
    assert (plain.evaluations, plan.evaluations, plan.gpus_an_evaluation) == (None, 24, 0)
    assert plan.hours > plain.hours + 0.9  # six rounds of ten minutes
    assert plan.gpu_hours == pytest.approx(plain.gpu_hours, rel=0.05)
