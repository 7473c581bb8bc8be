"""Programs that do not see to SIGTERM hold no GPU when their experiment is deleted."""

from __future__ import annotations

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import experiment, program, store
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.trials import trial_status

EXPERIMENTS, TRIALS = "experiments.podtune.dev", "trials.podtune.dev"
GRACE = 4
"""The programs' grace period in seconds; that of their pods is ten minutes longer."""
MARGIN = 120
"""Seconds for the rest, on a busy machine: the requests, the agent's termination message and the kubelet's."""
NO_GPU = {"requests": {"cpu": "10m", "memory": "64Mi"}}


def trains(name: str, code: str, cluster: Cluster, *, trials: int, grace: int) -> Object:
    """An Experiment that trains for ten minutes."""
    template = {"containers": [program(code, resources=NO_GPU)], "terminationGracePeriodSeconds": grace}
    search = {"algorithm": "random", "maxTrials": trials, "seed": 1}
    return experiment(
        name,
        {},
        checkpoints={"store": store(cluster), "deletionPolicy": "Delete"},
        search=search,
        maxConcurrentTrials=trials,
        trialTemplate={"spec": template},
    )


@pytest.mark.every_version
def test_they_hold_no_gpu_when_their_experiment_is_deleted(cluster: Cluster, namespace: Kubernetes) -> None:
    """Its checkpoints are to be deleted, too, so that the operator deletes the pods, and not the garbage collector."""
    namespace.apply(
        trains("deaf", "deaf", cluster, trials=4, grace=GRACE),
        trains("library", "obliging", cluster, trials=1, grace=200),
    )

    def all_train() -> bool:
        names = [*(f"deaf-{number}" for number in range(4)), "library-0"]
        return len(namespace.list(TRIALS)) == len(names) and all(
            trial_status(namespace, name).get("iteration") for name in names
        )

    eventually(all_train, what="all train")
    namespace.kubectl("delete", EXPERIMENTS, "library", "deaf", "--wait=false")
    eventually(
        lambda: [pod["metadata"]["name"] for pod in namespace.list("pods", "podtune.dev/trial")],
        lambda pods: not pods,
        deadline=GRACE + MARGIN,
        what="the pods are gone",
    )
