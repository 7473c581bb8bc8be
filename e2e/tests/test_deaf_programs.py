"""Programs that do not see to SIGTERM hold no GPU when their experiment is deleted."""

from __future__ import annotations

from e2e.cluster import Cluster
from e2e.experiments import experiment, program, store
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.trials import trial_status

EXPERIMENTS, TRIALS = "experiments.podtune.dev", "trials.podtune.dev"
GRACE = 4
"""The programs' grace period in seconds; that of their pods is ten minutes longer."""
MARGIN = 20
"""Seconds for the rest: the requests, the agent's last words and the kubelet's."""
NO_GPU = {"requests": {"cpu": "10m", "memory": "64Mi"}}


def trains(name: str, code: str, cluster: Cluster, *, trials: int, grace: int) -> Object:
    """An Experiment that trains for ten minutes."""
    template = {"containers": [program(code, resources=NO_GPU)], "terminationGracePeriodSeconds": grace}
    search = {"algorithm": "random", "maxTrials": trials, "seed": 1}
    return experiment(
        name,
        {},
        checkpoints={"store": store(cluster)},
        search=search,
        maxConcurrentTrials=trials,
        trialTemplate={"spec": template},
    )


def test_they_hold_no_gpu_when_their_experiment_is_deleted(cluster: Cluster, namespace: Kubernetes) -> None:
    """The garbage collector deletes the same pods: of a few, it may come first to one, which then has all its time."""
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

    def are_gone(pods: list[str]) -> bool:
        return "library-0-1" not in pods and len(pods) <= 1

    eventually(
        lambda: [pod["metadata"]["name"] for pod in namespace.list("pods")],
        are_gone,
        deadline=GRACE + MARGIN,
        what="the pods are gone",
    )
