"""A namespace to which the chart's values give fewer pods than its experiments ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment
from e2e.install import CAP, CAPPED_NAMESPACE
from e2e.kubernetes import Kubernetes, Object, condition, eventually
from e2e.namespaces import fresh_namespace
from e2e.trials import finish, let_go_on

EXPERIMENTS = "experiments.podtune.dev"


@pytest.fixture
def capped(cluster: Cluster) -> Iterator[Kubernetes]:
    with fresh_namespace(cluster, CAPPED_NAMESPACE) as kubernetes:
        yield kubernetes


def cap_of(namespace: Kubernetes, name: str) -> Object:
    return condition(namespace.get(EXPERIMENTS, name), "PodLimitReached")


def test_a_late_experiment_gets_its_share_of_a_capped_namespace(capped: Kubernetes) -> None:
    program = counter({"EPOCHS": "2", "HOLD_AT": "2"}, resources={"requests": {"cpu": "10m"}})
    many: Object = {"search": {"algorithm": "random", "maxTrials": 6}, "maxConcurrentTrials": 6}
    capped.apply(experiment("large", program, **many))
    told = eventually(lambda: cap_of(capped, "large"), lambda one: one.get("status") == "True")
    assert f"uses {CAP} of its {CAP} allowed pods" in told["message"]
    capped.apply(experiment("small", program, search={"algorithm": "random", "maxTrials": 1}))
    eventually(lambda: cap_of(capped, "small").get("status") == "True", what="it waits for a place")
    first, *_ = eventually(lambda: training(capped, "large"), lambda trials: len(trials) == CAP)
    let_go_on(capped, f"podtune.dev/trial={first}")
    finish(capped, "small")
    assert capped.get(EXPERIMENTS, "large")["status"]["trials"]["terminated"] == 1, "the first free place was its"
    assert most_at_once(capped.list("pods", "app.kubernetes.io/managed-by=podtune")) <= CAP
    finish(capped, "large")
    assert cap_of(capped, "large")["status"] == "False"


def training(namespace: Kubernetes, name: str) -> list[str]:
    """The trials of an experiment that have reported."""
    trials = namespace.list("trials.podtune.dev", f"podtune.dev/experiment={name}")
    return [trial["metadata"]["name"] for trial in trials if trial.get("status", {}).get("iteration")]


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
