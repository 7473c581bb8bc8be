"""The operator dies, or is told that everything is to go."""

from __future__ import annotations

import pytest

from e2e.containers import kill_container
from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, store
from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS, RELEASE
from e2e.kubernetes import DEADLINE, Kubernetes, Object, eventually
from e2e.trials import list_created_pods

DEPLOYMENT = f"deployment/{RELEASE}"


def operator_pods(operator: Kubernetes) -> list[Object]:
    return operator.list("pods", OPERATOR_PODS)


def kill_operator(cluster: Cluster, operator: Kubernetes) -> None:
    """SIGKILLs the operator's process on its node; the kubelet starts its container again."""
    pod = operator_pods(operator)[0]
    container = pod["status"]["containerStatuses"][0]
    restarts = container["restartCount"]
    kill_container(container)
    eventually(
        lambda: operator_pods(operator)[0]["status"]["containerStatuses"][0]["restartCount"] > restarts,
        what="the operator's container is restarted",
    )


def assert_curve_is_whole(trial: Object) -> None:
    """A trial's learning curve has all its results once, whoever has written which part of it."""
    curve, base = trial["status"]["curve"], float(trial["spec"]["parameters"]["base"])
    epochs = list(range(1, trial["status"]["iteration"] + 1))
    assert (curve["results"], curve["every"], curve["steps"]) == (len(epochs), 1, epochs)
    assert curve["values"] == [pytest.approx([base * epoch / (epoch + 1) for epoch in epochs], rel=1e-4)]
    assert curve["seconds"] == sorted(curve["seconds"])


@pytest.mark.alone
def test_a_killed_operator_goes_on_where_it_was(cluster: Cluster, namespace: Kubernetes, operator: Kubernetes) -> None:
    container = counter({"EPOCHS": "20", "EPOCH_SECONDS": "0.3"})
    namespace.apply(
        experiment(
            "killed",
            container,
            search={"algorithm": "random", "maxTrials": 4, "seed": 3},
            checkpoints={"store": store(cluster)},
            maxConcurrentTrials=2,
        )
    )
    eventually(
        lambda: namespace.list("trials.podtune.dev"),
        lambda trials: any(int(t.get("status", {}).get("lastResult", {}).get("epoch", "0")) >= 3 for t in trials),
    )
    before = {t["metadata"]["uid"]: t["spec"] for t in namespace.list("trials.podtune.dev")}
    kill_operator(cluster, operator)
    namespace.wait_for_condition("experiments.podtune.dev", "killed", "Complete")
    trials = namespace.list("trials.podtune.dev")
    after = {t["metadata"]["uid"]: t["spec"] for t in trials}
    assert before.items() <= after.items()
    assert len(trials) == 4
    for trial in trials:
        assert (trial["status"]["attempt"], trial["status"]["iteration"]) == (1, 20)
        assert_curve_is_whole(trial)
        assert not any(c["type"] == "ResultsComplete" for c in trial["status"]["conditions"])
    pods = list_created_pods(cluster, namespace.namespace)
    assert sorted(pods) == sorted(f"{t['metadata']['name']}-1" for t in trials), "a pod was created twice"


@pytest.mark.alone
def test_a_standby_takes_over(cluster: Cluster, namespace: Kubernetes, operator: Kubernetes) -> None:
    operator.kubectl("scale", DEPLOYMENT, "--replicas=2")
    try:
        operator.kubectl("rollout", "status", DEPLOYMENT, "--timeout=240s", timeout=270)
        leaders = eventually(
            lambda: operator.list("pods", f"{OPERATOR_PODS},podtune.dev/leader=true"), lambda pods: len(pods) == 1
        )
        namespace.apply(experiment("handover", counter({"EPOCHS": "15", "EPOCH_SECONDS": "0.4"})))
        eventually(lambda: any(t.get("status", {}).get("lastResult") for t in namespace.list("trials.podtune.dev")))
        operator.kubectl("delete", "pod", leaders[0]["metadata"]["name"], "--grace-period=0", "--force")
        namespace.wait_for_condition("experiments.podtune.dev", "handover", "Complete")
        assert {t["status"]["iteration"] for t in namespace.list("trials.podtune.dev")} == {15}
    finally:
        operator.kubectl("scale", DEPLOYMENT, "--replicas=1")
        eventually(lambda: len(operator_pods(operator)) == 1)


def test_a_deleted_experiment_takes_its_trials_and_pods_along(namespace: Kubernetes) -> None:
    namespace.apply(experiment("deleted", counter({"EPOCHS": "100000"})))
    eventually(lambda: len(namespace.list("pods")) == 2)
    namespace.kubectl("delete", "experiments.podtune.dev", "deleted")
    eventually(lambda: not namespace.list("trials.podtune.dev") and not namespace.list("pods"))


@pytest.mark.long
def test_a_deleted_namespace_goes_although_an_experiment_runs_in_it(cluster: Cluster, namespace: Kubernetes) -> None:
    namespace.apply(experiment("inside", counter({"EPOCHS": "100000"}), checkpoints={"store": store(cluster)}))
    eventually(lambda: len(namespace.list("pods")) == 2)
    cluster.kubectl("delete", "namespace", namespace.namespace, f"--timeout={DEADLINE:.0f}s", timeout=DEADLINE + 30)


def test_the_operator_may_do_what_it_needs_and_no_more(cluster: Cluster) -> None:
    account = f"--as=system:serviceaccount:{OPERATOR_NAMESPACE}:{RELEASE}"

    def may(verb: str, resource: str, subresource: str = "") -> bool:
        words = ["kubectl", "auth", "can-i", verb, resource, f"--subresource={subresource}", account, "-A"]
        done = cluster.run(words, check=False)
        return done.stdout.strip() == "yes"

    assert may("create", "pods")
    assert may("get", "pods", "log")
    assert not may("create", "pods", "exec")
    assert not may("get", "secrets")
    assert not may("list", "secrets")
    assert not may("*", "*")
