"""The leader of two replicas is killed while two hundred trials run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from e2e.containers import kill_container
from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment
from e2e.install import OPERATOR_PODS, RELEASE
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.tests.disruptions.crowd import PlayedPod, PlayedTrials, describe_crowd, playing
from e2e.trials import EXPERIMENTS, TRIALS, let_go_on, list_created_pods

DEPLOYMENT = f"deployment/{RELEASE}"
CROWD, REAL = 190, 10
KILLS = 2
NEXT_DECISION = 20.0
"""Seconds from the leader's death to the next decision; 15 of them the Lease outlives it."""
NO_GPU: Object = {"requests": {"cpu": "10m", "memory": "32Mi"}}
ENDLESS = {"EPOCHS": "5000", "EPOCH_SECONDS": "2", "UNTIL_GO": "1"}


@contextmanager
def two_replicas(operator: Kubernetes) -> Iterator[None]:
    """The operator has a standby while the context lasts."""
    operator.kubectl("scale", DEPLOYMENT, "--replicas=2")
    try:
        operator.kubectl("rollout", "status", DEPLOYMENT, "--timeout=240s", timeout=270)
        yield
    finally:
        operator.kubectl("scale", DEPLOYMENT, "--replicas=1")
        eventually(
            lambda: operator.list("pods", OPERATOR_PODS),
            lambda pods: len(pods) == 1 and pods[0]["metadata"]["labels"].get("podtune.dev/leader") == "true",
            what="the one that is left leads",
        )


def find_leader(operator: Kubernetes) -> Object:
    """The one pod that leads, beside another that is ready to."""

    def look() -> list[Object]:
        pods = operator.list("pods", OPERATOR_PODS)
        leaders = [pod for pod in pods if pod["metadata"]["labels"].get("podtune.dev/leader") == "true"]
        ready = [pod for pod in pods if all(s["ready"] for s in pod["status"].get("containerStatuses", [{"ready": 0}]))]
        return leaders if len(ready) == len(pods) == 2 else []

    return eventually(look, lambda leaders: len(leaders) == 1, what="one of two ready replicas leads")[0]


def kill_process(operator: Kubernetes, leader: Object) -> None:
    """SIGKILL; the kubelet starts the container again."""
    kill_container(leader["status"]["containerStatuses"][0])


def kill_for_good(operator: Kubernetes, leader: Object) -> None:
    """SIGKILL, and no container comes back: as where its node dies, the standby has to wait for the Lease's end."""
    kill_container(leader["status"]["containerStatuses"][0])
    operator.kubectl("delete", "pod", leader["metadata"]["name"], "--grace-period=0", "--force", "--wait=false")


def measure_next_decision(crowd: PlayedTrials, kill: Callable[[], None]) -> tuple[float, float]:
    """Seconds from the leader's death to the first result that is taken in, and to the next trial that is begun."""
    made = len(crowd.made)
    begun = time.monotonic()
    kill()
    time.sleep(0.5)  # what was answered before has been read
    heard = len(crowd.taken_in)
    crowd.end_held()  # a place is free, and nobody leads who would see it
    eventually(
        lambda: len(crowd.made) > made and len(crowd.taken_in) > heard, what="a new leader takes results in and decides"
    )
    return crowd.taken_in[heard] - begun, crowd.made[made] - begun


def assert_nothing_lost(trial: Object, results: int) -> None:
    """A trial has each of its results once, and never heard of the kills."""
    status = trial["status"]
    assert (status["state"], status["attempt"], status.get("failures", 0)) == ("TERMINATED", 1, 0), status
    curve = status["curve"]
    assert (status["iteration"], curve["results"]) == (results, results), status
    assert curve["steps"] == sorted(set(curve["steps"]))
    assert not [each for each in status["conditions"] if each["type"] == "ResultsComplete"], status


def assert_reported(trial: Object, pod: PlayedPod) -> None:
    """What is on record of a trial of the crowd is what its program has reported."""
    assert_nothing_lost(trial, len(pod.values))
    curve = trial["status"]["curve"]
    assert curve["values"] == [pytest.approx([pod.values[step] for step in curve["steps"]], rel=1e-4)]


@pytest.mark.alone
@pytest.mark.long
def test_the_leader_dies_with_two_hundred_trials_running_and_nothing_is_lost(
    cluster: Cluster, namespace: Kubernetes, operator: Kubernetes, record_property: Callable[[str, object], None]
) -> None:
    with playing(cluster, namespace.namespace, "crowd") as crowd, two_replicas(operator):
        search = {"algorithm": "random", "maxTrials": REAL, "seed": 1}
        real = experiment("real", counter(ENDLESS, resources=NO_GPU), search=search, maxConcurrentTrials=REAL)
        namespace.apply(real, describe_crowd("crowd", CROWD + KILLS, CROWD))

        def count_reporting() -> int:
            trials = namespace.list(TRIALS, "podtune.dev/experiment=real")
            return crowd.count_reporting() + len([t for t in trials if t.get("status", {}).get("lastResult")])

        for kill in (kill_process, kill_for_good):
            eventually(count_reporting, lambda count: count == CROWD + REAL, what="200 trials report")
            leader = find_leader(operator)
            crowd.hold(1)
            eventually(crowd.are_held_on_record, what="all results of the trial that is to end are on record")
            heard, decided = measure_next_decision(crowd, lambda kill=kill, leader=leader: kill(operator, leader))  # type: ignore[misc]
            print(f"{kill.__name__}: first result taken in after {heard:.1f} s, next trial begun after {decided:.1f} s")
            record_property(kill.__name__, {"result": heard, "decision": decided})
            assert max(heard, decided) < NEXT_DECISION
        let_go_on(namespace, "podtune.dev/experiment=real")
        crowd.end_all()
        for name in ("real", "crowd"):
            namespace.wait_for_condition(EXPERIMENTS, name, "Complete")
        assert crowd.problems == []
        trials = {trial["metadata"]["name"]: trial for trial in namespace.list(TRIALS)}
        pods = list_created_pods(cluster, namespace.namespace)
        played = {pod.trial: pod for pod in crowd.pods.values()}
        assert sorted(pods) == sorted(f"{name}-1" for name in trials), "a pod was made twice, or a trial begun anew"
        assert len(played) == CROWD + KILLS
        for name, pod in played.items():
            assert_reported(trials[name], pod)
        for name in trials.keys() - played.keys():
            # Its program reports each epoch once, so its last epoch says how many results there were.
            assert_nothing_lost(trials[name], int(trials[name]["status"]["lastResult"]["epoch"]))
        found = namespace.get(EXPERIMENTS, "crowd")["status"]["trials"]
        assert (found["terminated"], found["error"]) == (CROWD + KILLS, 0), found
