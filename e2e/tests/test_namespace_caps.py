"""A namespace to which the chart's values give fewer pods than its experiments ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.cluster import Cluster
from e2e.experiments import counter, experiment
from e2e.fresh_namespace import fresh_namespace
from e2e.install import CAP, CAPPED_NAMESPACE
from e2e.kubernetes import Kubernetes, Object, condition, eventually

EXPERIMENTS = "experiments.podtune.dev"


@pytest.fixture
def capped(cluster: Cluster) -> Iterator[Kubernetes]:
    with fresh_namespace(cluster, CAPPED_NAMESPACE) as kubernetes:
        yield kubernetes


def cap_of(namespace: Kubernetes, name: str) -> Object:
    return condition(namespace.get(EXPERIMENTS, name), "Capped")


def test_a_late_experiment_gets_its_share_of_a_capped_namespace(capped: Kubernetes) -> None:
    program = counter({"EPOCHS": "10", "EPOCH_SECONDS": "0.3"}, resources={"requests": {"cpu": "10m"}})
    many: Object = {"search": {"algorithm": "random", "maxTrials": 6}, "maxConcurrentTrials": 6}
    capped.apply(experiment("large", program, **many))
    told = eventually(lambda: cap_of(capped, "large"), lambda one: one.get("status") == "True")
    assert f"{CAP} of the {CAP} pods" in told["message"]
    capped.apply(experiment("small", program, search={"algorithm": "random", "maxTrials": 1}))
    capped.wait_for_condition(EXPERIMENTS, "small", "Complete")
    assert capped.get(EXPERIMENTS, "large")["status"]["trials"]["terminated"] < 5, "it had to wait for the large one"
    assert most_at_once(capped.list("pods", "app.kubernetes.io/managed-by=podtune")) <= CAP
    capped.wait_for_condition(EXPERIMENTS, "large", "Complete")
    assert cap_of(capped, "large")["status"] == "False"


def most_at_once(pods: list[Object]) -> int:
    """How many pods there were at a time, by when the API server says that they began and their programs ended."""
    begun = [(pod["metadata"]["creationTimestamp"], 1) for pod in pods]
    ended = [(end, -1) for pod in pods if (end := end_of(pod))]
    alive, most = 0, 0
    for _, change in sorted([*begun, *ended]):  # of one second, ends come first
        alive += change
        most = max(most, alive)
    return most


def end_of(pod: Object) -> str:
    """When a pod's program has ended; empty where it has not."""
    (container,) = pod["status"].get("containerStatuses") or [{}]
    end: str = container.get("state", {}).get("terminated", {}).get("finishedAt", "")
    return end
