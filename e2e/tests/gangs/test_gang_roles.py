"""A driver and workers, each with a template of its own, on a real node."""

from __future__ import annotations

from e2e.devcluster import Cluster
from e2e.experiments import experiment, program, store
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.trials import trial_status

EPOCHS = 6
WORK = 7


def make_template(name: str, memory: str, **environment: str) -> Object:
    resources = {"limits": {"memory": memory}, "requests": {"cpu": "10m", "memory": "32Mi"}}
    return {
        "spec": {"containers": [program(name, environment, resources=resources)], "terminationGracePeriodSeconds": 5}
    }


def make_roles(cluster: Cluster, name: str) -> Object:
    """A driver that stores checkpoints alone, and two workers."""
    made = experiment(
        name,
        {},
        search={"algorithm": "random", "maxTrials": 1},
        checkpoints={"store": store(cluster), "ranks": "RankZero"},
    )
    made["spec"]["trialTemplate"] = {
        "metadata": {"labels": {"team": "e2e"}},
        "roles": [
            {"name": "driver", "template": make_template("driver", "96Mi", EPOCHS=str(EPOCHS), HOLD_AT="4")},
            {"name": "worker", "replicas": 2, "template": make_template("worker", "64Mi", WORK=str(WORK))},
        ],
    }
    return made


def test_a_driver_and_workers_train_together_and_go_on_when_a_worker_is_lost(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    namespace.apply(make_roles(cluster, "roles"))
    eventually(lambda: int(trial_status(namespace, "roles-0").get("checkpoint", {}).get("step", 0)) == 3)
    pods = [namespace.get("pods", f"roles-0-1-{rank}") for rank in range(3)]
    labels = [pod["metadata"]["labels"] for pod in pods]
    assert [label["podtune.dev/role"] for label in labels] == ["driver", "worker", "worker"]
    assert {label["team"] for label in labels} == {"e2e"}
    memory = [pod["spec"]["containers"][0]["resources"]["limits"]["memory"] for pod in pods]
    assert memory == ["96Mi", "64Mi", "64Mi"]
    namespace.kubectl("delete", "pod", "roles-0-1-2", "--wait=false")
    namespace.wait_for_condition("experiments.podtune.dev", "roles", "Complete")
    status = trial_status(namespace, "roles-0")
    assert (status["state"], status["attempt"]) == ("TERMINATED", 2), status
    assert (status.get("failures", 0), status["disruptions"]) == (0, 1)
    last = {name: int(status["lastResult"][name]) for name in ("training_iteration", "start", "work", "places")}
    assert last == {"training_iteration": EPOCHS, "start": 3, "work": 2 * WORK, "places": 2}


def test_the_template_of_one_role_is_mended_while_the_gang_waits(cluster: Cluster, namespace: Kubernetes) -> None:
    made = make_roles(cluster, "mended")
    roles = made["spec"]["trialTemplate"]["roles"]
    roles[0]["template"]["spec"]["containers"][0]["env"].pop()  # it does not wait
    image = roles[1]["template"]["spec"]["containers"][0].pop("image")
    roles[1]["template"]["spec"]["containers"][0]["image"] = "localhost/there-is-no-such-image:1"
    namespace.apply(made)
    eventually(lambda: "rank 1 (worker)" in trial_status(namespace, "mended-0").get("message", ""))
    roles[1]["template"]["spec"]["containers"][0]["image"] = image
    namespace.apply(made)
    namespace.wait_for_condition("experiments.podtune.dev", "mended", "Complete")
    status = trial_status(namespace, "mended-0")
    assert (status["state"], status["attempt"], status.get("failures", 0)) == ("TERMINATED", 2, 0), status
