"""Pods that are reused, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.simulation.cluster import ClusterModel
from podtune.simulation.trace import SimulationResult
from tests.unit.simulation.test_simulated_experiment import STORE, run, spec

PODS: dict[str, Any] = {"spec": {"containers": [{"name": "trial", "image": "i"}]}}
WARM = {**PODS, "reuse": True}
SLOW_START = ClusterModel(pod_start=600, pod_stop=5, checkpoint=5)


def outcomes(outcome: SimulationResult) -> list[tuple[object, ...]]:
    return [(t.name, t.status.state, t.status.last_result, t.status.best) for t in outcome.trials]


def test_trials_end_as_in_pods_of_their_own() -> None:
    assert outcomes(run(spec(trialTemplate=WARM))) == outcomes(run(spec(trialTemplate=PODS)))


def test_the_start_of_a_pod_is_waited_for_once() -> None:
    alone, warm = run(spec(trialTemplate=PODS), SLOW_START), run(spec(trialTemplate=WARM), SLOW_START)
    assert alone.status.state == warm.status.state == "Complete"
    assert warm.seconds < alone.seconds - 600


@pytest.mark.parametrize(
    "scheduler", [{"asha": {"maxTime": 9}}, {"hyperband": {"maxTime": 9}}, {"pbt": {"interval": 3}}]
)
def test_pods_that_crash_cost_attempts_and_no_trials(scheduler: dict[str, Any]) -> None:
    rough = ClusterModel(pod_start=20, pod_stop=5, checkpoint=5, crashes_per_hour=4, disruptions_per_hour=4)
    failures = {"maxFailures": 100, "maxDisruptions": 100}
    outcome = run(spec(trialTemplate=WARM, checkpoints=STORE, scheduler=scheduler, failures=failures), rough)
    assert outcome.status.state == "Complete"
    assert sum(trial.status.failures + trial.status.disruptions for trial in outcome.trials) > 0
    assert all(trial.status.state == "TERMINATED" for trial in outcome.trials)
