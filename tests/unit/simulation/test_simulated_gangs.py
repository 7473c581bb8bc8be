"""Trials of several pods in virtual time."""

from __future__ import annotations

import pytest

from podtune.simulation.cluster import ClusterModel
from tests.unit.simulation.test_simulated_experiment import STORE, run, spec

PODS = {"spec": {"containers": [{"name": "trial", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
STEADY = ClusterModel(pod_start=20, pod_stop=5, checkpoint=5)


def test_a_gang_takes_the_gpus_of_all_its_pods_at_once() -> None:
    alone = run(spec(trialTemplate=PODS))
    gangs = run(spec(trialTemplate={**PODS, "replicas": 4}))
    assert gangs.status.state == "Complete"
    assert gangs.results == alone.results, "results come from rank 0 alone"
    assert gangs.gpu_hours == pytest.approx(4 * alone.gpu_hours, rel=0.05)
    assert gangs.status.usage is not None
    assert gangs.status.usage.gpu_hours == pytest.approx(gangs.gpu_hours, rel=0.1)


def test_gangs_that_are_interrupted_count_one_disruption_each() -> None:
    model = ClusterModel(pod_start=20, pod_stop=5, checkpoint=5, disruptions_per_hour=4)
    outcome = run(spec(trialTemplate={**PODS, "replicas": 3}, checkpoints=STORE), model)
    assert outcome.status.state == "Complete"
    attempts = sum(trial.status.attempt for trial in outcome.trials)
    disruptions = sum(trial.status.disruptions for trial in outcome.trials)
    assert disruptions > 0
    assert attempts == len(outcome.trials) + disruptions
