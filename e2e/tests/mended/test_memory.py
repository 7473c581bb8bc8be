"""Memory that is raised after an out-of-memory failure, and limits that a person sets for one trial."""

from __future__ import annotations

import json

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import Object, counter, experiment, store
from e2e.kubernetes import Kubernetes, eventually
from e2e.trials import EXPERIMENTS, TRIALS, trial_status

EPOCHS = 6
TAKE_AT = 4
HELP = {"raiseMemoryBy": 1.5, "upTo": "256Mi"}


def hungry(name: str, cluster: Cluster, **failures: object) -> Object:
    """One trial with 80Mi, whose program needs more than 120Mi from an epoch on."""
    environment = {"EPOCHS": str(EPOCHS), "TAKE_AT": str(TAKE_AT), "TAKE_MIB": "115"}
    resources = {"limits": {"memory": "80Mi"}, "requests": {"cpu": "10m", "memory": "80Mi"}}
    return experiment(
        name,
        counter(environment, resources=resources),
        search={"algorithm": "random", "maxTrials": 1, "seed": 1},
        maxConcurrentTrials=1,
        checkpoints={"store": store(cluster)},
        podRetention="All",
        failures={"maxFailures": 3, "backoff": {"initial": "1s", "max": "2s"}, **failures},
    )


def memory_of(namespace: Kubernetes, pod: str) -> tuple[str, str]:
    """The limit and the request of a pod's training container."""
    containers = namespace.get("pods", pod)["spec"]["containers"]
    (resources,) = [container["resources"] for container in containers if container["name"] == "trial"]
    return resources["limits"]["memory"], resources["requests"]["memory"]


@pytest.mark.long
def test_memory_is_raised_until_the_program_fits_and_it_goes_on_from_its_checkpoint(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    namespace.apply(hungry("raised", cluster, outOfMemory=HELP))
    namespace.wait_for_condition(EXPERIMENTS, "raised", "Complete")
    status = trial_status(namespace, "raised-0")
    assert (status["state"], status["attempt"], status["failures"]) == ("TERMINATED", 3, 2), status
    assert int(status["lastResult"]["epoch"]) == EPOCHS
    assert 0 < int(float(status["lastResult"]["start"])) < TAKE_AT, "it began afresh"
    assert memory_of(namespace, "raised-0-3") == ("180Mi", "180Mi")
    assert (status["limits"], status["raisedMemory"]) == ({"memory": "180Mi"}, {"from": "120Mi", "to": "180Mi"})
    told = [event["message"] for event in namespace.list("events") if event["reason"] == "OOMKilled"]
    words = "memory raised from 80Mi to 120Mi after an out-of-memory failure; will be retried from the checkpoint of"
    assert any(words in message for message in told), told


def test_limits_that_a_person_sets_for_a_trial_are_those_of_its_next_attempt(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    namespace.apply(hungry("set", cluster, outOfMemory={**HELP, "upTo": "90Mi"}, maxFailures=20))
    remedy = "the limit, 90Mi, is not below failures.outOfMemory.upTo, 90Mi; raise upTo, or set memory in spec.limits"
    eventually(
        lambda: trial_status(namespace, "set-0").get("lastAttempt", {}).get("message", ""),
        lambda message: remedy in message,
        what="the trial says what to do",
    )
    patch = json.dumps({"spec": {"limits": {"memory": "200Mi"}}})
    namespace.kubectl("patch", TRIALS, "set-0", "--type=merge", "-p", patch)
    namespace.wait_for_condition(EXPERIMENTS, "set", "Complete")
    status = trial_status(namespace, "set-0")
    assert (status["state"], status["limits"]) == ("TERMINATED", {"memory": "200Mi"})
    assert memory_of(namespace, status["pod"]["name"]) == ("200Mi", "200Mi")
