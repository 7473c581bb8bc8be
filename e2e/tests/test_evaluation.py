"""A trial with two stages: it is trained on a GPU, and what it has learnt is evaluated in a pod without one."""

from __future__ import annotations

import json

from e2e.devcluster import Cluster
from e2e.experiments import Object, counter, experiment, program, store
from e2e.kubernetes import Kubernetes, eventually
from e2e.trials import EXPERIMENTS, TRIALS, finish, trial_status

EPOCHS = 3
TRIALS_MADE = 3
WITHOUT_GPU = {"requests": {"cpu": "10m", "memory": "32Mi"}}


def evaluated(name: str, cluster: Cluster, *, trials: int, environment: dict[str, str], **evaluation: object) -> Object:
    scorer = program("scoring", environment, resources=WITHOUT_GPU)
    return experiment(
        name,
        counter({"EPOCHS": str(EPOCHS)}),
        objective={"metric": "score", "mode": "max"},
        search={"algorithm": "random", "maxTrials": trials, "seed": 1},
        checkpoints={"store": store(cluster)},
        podRetention="All",
        evaluation={
            "template": {"spec": {"containers": [scorer]}},
            "trainingObjective": {"metric": "value", "mode": "max"},
            **evaluation,
        },
    )


def count_gpus(pod: Object) -> int:
    limits = [container.get("resources", {}).get("limits", {}) for container in pod["spec"]["containers"]]
    return sum(int(limit.get("nvidia.com/gpu", "0")) for limit in limits)


def test_a_trial_is_trained_then_evaluated_and_a_failed_evaluation_is_retried_alone(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    namespace.apply(evaluated("scored", cluster, trials=TRIALS_MADE, environment={"CRASH_FIRST": "0"}))
    namespace.wait_for_condition(EXPERIMENTS, "scored", "Complete")
    trials = {trial["metadata"]["name"]: trial for trial in namespace.list(TRIALS)}
    assert len(trials) == TRIALS_MADE
    for trial in trials.values():
        status, base = trial["status"], float(trial["spec"]["parameters"]["base"])
        assert status["state"] == "TERMINATED", status
        assert float(status["bestValue"]) == 1 - base
        assert status["best"]["evaluated_epoch"] == str(EPOCHS)
        assert float(status["lastResult"]["value"]) > 0, "what training reported is gone"
    failed = trials["scored-0"]["status"]
    assert (failed["attempt"], failed.get("failures", 0), failed["evaluation"]["failures"]) == (3, 0, 1), failed
    best = namespace.get(EXPERIMENTS, "scored")["status"]["best"]
    least = min(trials.values(), key=lambda trial: float(trial["spec"]["parameters"]["base"]))
    assert best["trial"] == least["metadata"]["name"], "the best trial is that of training"
    assert best["checkpoint"] == least["status"]["evaluation"]["uri"]
    gpus = {name: count_gpus(namespace.get("pods", name)) for name in ("scored-0-1", "scored-0-2", "scored-0-3")}
    assert gpus == {"scored-0-1": 1, "scored-0-2": 0, "scored-0-3": 0}
    assert namespace.get("pods", "scored-0-3")["metadata"]["labels"]["podtune.dev/stage"] == "evaluate"


def test_a_pause_during_the_evaluation_deletes_its_pod_and_it_starts_anew(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    namespace.apply(evaluated("held", cluster, trials=1, environment={"HOLD": "1"}))
    eventually(
        lambda: trial_status(namespace, "held-0"),
        lambda status: status.get("reason") == "Evaluating",
        what="the trial is evaluated",
    )
    namespace.kubectl("patch", TRIALS, "held-0", "--type=merge", "-p", json.dumps({"spec": {"desiredState": "Paused"}}))
    eventually(
        lambda: trial_status(namespace, "held-0"),
        lambda status: status.get("state") == "PAUSED",
        what="the trial is paused",
    )
    patch = json.dumps({"spec": {"desiredState": "Running"}})
    namespace.kubectl("patch", TRIALS, "held-0", "--type=merge", "-p", patch)
    eventually(
        lambda: trial_status(namespace, "held-0"),
        lambda status: (status.get("reason"), status.get("attempt")) == ("Evaluating", 3),
        what="it is evaluated again",
    )
    finish(namespace, "held")
    status = trial_status(namespace, "held-0")
    assert (status["state"], status["evaluation"].get("failures", 0)) == ("TERMINATED", 0), status
    assert status["bestValue"]
