"""Trials of several pods in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.simulation.cluster import ClusterModel
from podtune.simulation.plan import make_plan
from podtune.simulation.simulation import SimulationError
from tests.unit.simulation.test_simulated_experiment import STORE, run, spec

PODS = {"spec": {"containers": [{"name": "trial", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
STEADY = ClusterModel(pod_start=20, pod_stop=5, checkpoint=5)


def test_a_gang_takes_the_gpus_of_all_its_pods_at_once() -> None:
    alone = run(spec(trialTemplate=PODS))
    gangs = run(spec(trialTemplate={**PODS, "replicas": 4}))
    assert gangs.status.state == "Complete"
    assert gangs.results == alone.results, "results come from rank 0 alone"
    assert gangs.gpu_hours == pytest.approx(4 * alone.gpu_hours, rel=0.05)
    assert gangs.status.usage.gpu_hours == pytest.approx(gangs.gpu_hours, rel=0.1)


@pytest.mark.parametrize(("replicas", "gpus"), [(1, 1.0), (2, 0.0)])
def test_a_gang_without_gpus_is_planned_with_none(replicas: int, gpus: float) -> None:
    template = {"spec": {"containers": [{"name": "trial", "image": "i"}]}, "replicas": replicas}
    plan = make_plan(spec(trialTemplate=template), STEADY, seconds=60.0, iterations=3)
    assert plan.gpus_a_trial == gpus
    for hours in (plan.gpu_hours, plan.whole_gpu_hours, sum(rung.gpu_hours for rung in plan.rungs)):
        assert bool(hours) is bool(gpus)
    counted = "none is counted for the pods of a gang" if replicas > 1 else "each pod is counted as if it had one"
    (note,) = (note for note in plan.notes if "asks for no GPU" in note)
    assert counted in note


def test_gangs_that_are_interrupted_count_one_disruption_each() -> None:
    model = ClusterModel(pod_start=20, pod_stop=5, checkpoint=5, disruptions_per_hour=4)
    outcome = run(spec(trialTemplate={**PODS, "replicas": 3}, checkpoints=STORE), model)
    assert outcome.status.state == "Complete"
    attempts = sum(trial.status.attempt for trial in outcome.trials)
    disruptions = sum(trial.status.disruptions for trial in outcome.trials)
    assert disruptions > 0
    assert attempts == len(outcome.trials) + disruptions


def make_roles(workers: int, **worker: Any) -> dict[str, Any]:
    """A driver without a GPU, and workers with one each."""
    driver = {"spec": {"containers": [{"name": "trial", "image": "i"}]}}
    return {
        "roles": [
            {"name": "driver", "template": driver},
            {"name": "worker", "replicas": workers, "template": {**PODS, **worker}},
        ]
    }


def test_each_role_takes_the_gpus_of_its_own_pods() -> None:
    alone = run(spec(trialTemplate=PODS))
    roles = run(spec(trialTemplate=make_roles(3)))
    assert roles.results == alone.results
    assert roles.gpu_hours == pytest.approx(3 * alone.gpu_hours, rel=0.05)
    assert roles.status.usage.gpu_hours == pytest.approx(roles.gpu_hours, rel=0.1)
    assert roles.status.usage.pod_hours == pytest.approx(4 * alone.status.usage.pod_hours, rel=0.1)


def test_a_plan_counts_the_gpus_of_all_roles() -> None:
    plan = make_plan(spec(trialTemplate=make_roles(3)), STEADY, seconds=60.0, iterations=3)
    assert plan.gpus_a_trial == 3
    computed = make_roles(2, limits={"nvidia.com/gpu": {"expression": "2 * 2"}})
    assert make_plan(spec(trialTemplate=computed), STEADY, seconds=60.0, iterations=3).gpus_a_trial == 8


def test_a_gang_with_roles_that_is_larger_than_the_cluster_is_refused() -> None:
    with pytest.raises(SimulationError, match="a trial needs 3 GPUs, the cluster has 2; give it more"):
        run(spec(trialTemplate=make_roles(3)), ClusterModel(gpus=2))
