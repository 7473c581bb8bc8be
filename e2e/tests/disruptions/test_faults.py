"""Pods, containers and a node that are really broken, and what a user sees of it.

Many experiments run side by side, so that the whole takes little longer than the slowest of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.containers import kill_container
from e2e.devcluster import Cluster
from e2e.disruptions import evict, provide_gpus, urgent_pod
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.trials import epochs_of_attempt, let_go_on, read_stored_results, trial_status
from podtune.protocol.messages import Result

EPOCHS = 16
ONE = {"algorithm": "random", "maxTrials": 1}
PLAIN: Object = {"requests": {"cpu": "10m", "memory": "32Mi"}}
"""Without a GPU, a trial can run on both nodes."""
WAIT = {"WAIT_AT": "5"}
SOON = [
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}
    for taint in ("not-ready", "unreachable")
]
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
WORK_NODE = "n2"
HELD_AT = 6
"""The epoch before whose result a program waits whose node dies."""


def run_one(
    namespace: Kubernetes,
    cluster: Cluster,
    name: str,
    environment: dict[str, str],
    *,
    failures: Object | None = None,
    grace: int = 20,
    pod: Object | None = None,
    **container: Any,
) -> None:
    """Applies an experiment of one trial that goes wrong on its first attempt."""
    environment = {"EPOCHS": str(EPOCHS), "EPOCH_SECONDS": "0.5", **environment}
    manifest = experiment(
        name,
        counter(environment, **{"resources": PLAIN, **container}),
        search=ONE,
        checkpoints={"store": store(cluster)},
        failures={"maxFailures": 1, "backoff": {"initial": "1s", "max": "1s"}, **(failures or {})},
    )
    manifest["spec"]["trialTemplate"]["spec"] |= {"terminationGracePeriodSeconds": grace, **(pod or {})}
    namespace.apply(manifest)


def counters(status: Object) -> dict[str, int]:
    """What was counted against a trial."""
    names = ("failures", "disruptions", "infrastructureFailures", "ignored")
    return {name: status[name] for name in names if status.get(name)}


def assert_resumed(cluster: Cluster, namespace: Kubernetes, name: str, reason: str, **spent: int) -> None:
    """One attempt ended as told, the next went on from the last checkpoint, and no result is missing or doubled."""
    namespace.wait_for_condition("experiments.podtune.dev", name, "Complete")
    status = trial_status(namespace, f"{name}-0")
    assert (status["state"], status["attempt"], counters(status)) == ("TERMINATED", 2, spent), status
    assert status["iteration"] == int(status["lastResult"]["epoch"]) == EPOCHS
    start = int(float(status["lastResult"]["start"]))
    assert start > 0, "it began afresh"
    assert epochs_of_attempt(cluster, status["checkpoint"]["uri"]) == list(range(start + 1, EPOCHS + 1))
    events = [e for e in namespace.list("events") if e["involvedObject"]["name"] == f"{name}-0"]
    told = {event["reason"]: event["message"] for event in events}
    assert "will be retried from the checkpoint of iteration" in told.get(reason, ""), told
    lost = [c for c in status["conditions"] if c["type"] == "ResultsComplete" and c["status"] == "False"]
    assert not lost


def is_at(namespace: Kubernetes, name: str, step: int) -> Callable[[], bool]:
    """Whether a trial has a checkpoint of this epoch or a later one."""
    return lambda: trial_status(namespace, f"{name}-0").get("checkpoint", {}).get("step", 0) >= step


def container_of(namespace: Kubernetes, pod: str, name: str) -> Object:
    """Status of one of a pod's containers."""
    status = namespace.get("pods", pod)["status"]
    containers: list[Object] = [*status["initContainerStatuses"], *status["containerStatuses"]]
    return next(container for container in containers if container["name"] == name)


def start_all(cluster: Cluster, namespace: Kubernetes) -> None:
    """Applies an experiment for each fault; some bring theirs about by themselves."""
    crash = {"CRASH_AT": "5", "CRASH_CODE": "42"}
    bad_node = {"rules": [{"logRegex": "crashing at ep.ch", "exitCodes": [42], "action": "ExcludeNode"}]}
    no_matter = {"rules": [{"exitCodes": [42], "action": "Ignore"}], "maxFailures": 0}

    def start(name: str, environment: dict[str, str], **more: Any) -> None:
        run_one(namespace, cluster, name, environment, **more)

    little_disk = {"limits": {"ephemeral-storage": "64Mi"}, **PLAIN}
    fill = {"HOLD_AT": "5", "FILL_AT": "5"}
    start("disk", fill, resources=little_disk)
    start("shared-disk", fill | {"TMPDIR": "/podtune"}, resources=little_disk)
    start("full", {"FILL_AT": "5", "TMPDIR": "/small"}, failures={"maxFailures": 0}, **small_volume())
    start("hung", {"HANG_AT": "5"}, failures={"silenceDeadline": "25s"}, grace=14)
    start("trapped", WAIT | {"TRAP": "1"})
    start("memory", {"OOM_AT": "5"}, resources={"limits": {"memory": "128Mi"}, **PLAIN})
    start("elsewhere", crash, failures=bad_node)
    start("ignored", crash, failures=no_matter)
    start("agentless", {"HOLD_AT": "6"})
    start("secretless", {}, failures={"startDeadline": "20s"}, envFrom=[{"secretRef": {"name": "no-such-secret"}}])
    start("greedy", {}, failures={"pendingDeadline": "30s"}, resources={"limits": {"nvidia.com/gpu": "64"}})


def break_some(cluster: Cluster, namespace: Kubernetes) -> None:
    """Brings the faults about that come from outside; fills disks only when there is a checkpoint."""
    for name in ("disk", "shared-disk"):
        eventually(is_at(namespace, name, 3))
        let_go_on(namespace, f"podtune.dev/experiment={name},podtune.dev/trial")
    eventually(is_at(namespace, "agentless", 3))
    agent = container_of(namespace, "agentless-0-1", "podtune-agent")
    kill_container(agent)
    eventually(
        lambda: container_of(namespace, "agentless-0-1", "podtune-agent")["restartCount"] > agent["restartCount"],
        what="the agent is started again",
    )
    let_go_on(namespace, "podtune.dev/experiment=agentless,podtune.dev/trial")
    eventually(is_at(namespace, "trapped", 3))
    evict(namespace, "trapped-0-1")


@pytest.mark.first
def test_what_goes_wrong_with_single_pods(cluster: Cluster, namespace: Kubernetes) -> None:
    start_all(cluster, namespace)
    break_some(cluster, namespace)

    assert_resumed(cluster, namespace, "memory", "OOMKilled", failures=1)
    assert_resumed(cluster, namespace, "hung", "SilenceDeadlineExceeded", failures=1)
    assert_resumed(cluster, namespace, "trapped", "EvictionByEvictionAPI", disruptions=1)
    assert_resumed(cluster, namespace, "ignored", "Error", ignored=1)
    assert_resumed(cluster, namespace, "disk", "Evicted", failures=1)
    assert_resumed(cluster, namespace, "shared-disk", "Evicted", failures=1)
    assert_resumed(cluster, namespace, "elsewhere", "Error", infrastructureFailures=1)
    status = trial_status(namespace, "elsewhere-0")
    assert status["pod"]["node"] != status["failedNodes"][0]["node"], status

    namespace.wait_for_condition("experiments.podtune.dev", "agentless", "Complete")
    status = trial_status(namespace, "agentless-0")
    assert (status["attempt"], counters(status), status["iteration"]) == (1, {}, EPOCHS)
    assert epochs_of_attempt(cluster, status["checkpoint"]["uri"]) == list(range(1, EPOCHS + 1))

    assert_full_disk_is_told(namespace)
    assert_given_up(namespace, "greedy", "PendingDeadlineExceeded", "Insufficient nvidia.com/gpu")
    assert_given_up(namespace, "secretless", "StartDeadlineExceeded", "no-such-secret")


def test_a_trial_makes_room_for_a_drain_and_for_a_pod_of_higher_priority(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    """The drained node is that which other tests can do without."""
    resource, gpus = "amd.com/gpu", 2
    provide_gpus(cluster, resource, gpus)
    run_one(namespace, cluster, "drained", WAIT, pod={"nodeSelector": {"podtune.dev/role": "system"}})
    run_one(namespace, cluster, "preempted", WAIT, resources={"limits": {resource: str(gpus)}, **PLAIN})
    eventually(is_at(namespace, "drained", 3))
    node = cluster.node_name("n1")
    selector = "--pod-selector=podtune.dev/experiment=drained"
    cluster.kubectl("drain", node, "--force", "--delete-emptydir-data", "--ignore-daemonsets", selector)
    cluster.kubectl("uncordon", node)
    eventually(is_at(namespace, "preempted", 3))
    with urgent_pod(namespace, resource, gpus):
        eventually(lambda: trial_status(namespace, "preempted-0").get("disruptions") == 1)
    assert_resumed(cluster, namespace, "drained", "EvictionByEvictionAPI", disruptions=1)
    assert_resumed(cluster, namespace, "preempted", "PreemptionByScheduler", disruptions=1)


def small_volume() -> Object:
    """Of the pod: a volume of 1 MiB at /small, on which programs see for themselves that it is full."""
    volume = {"name": "small", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    return {"pod": {"volumes": [volume]}, "volumeMounts": [{"name": "small", "mountPath": "/small"}]}


def assert_full_disk_is_told(namespace: Kubernetes) -> None:
    """A program that could not write ended by that: the end of its log says so, and what it had stored is kept."""
    namespace.wait_for_condition("experiments.podtune.dev", "full", "Failed")
    status = trial_status(namespace, "full-0")
    assert (status["state"], counters(status)) == ("ERROR", {"failures": 1})
    assert (status["lastAttempt"]["class"], status["lastAttempt"]["exitCode"]) == ("user", 1)
    assert "No space left on device" in status["lastAttempt"]["logTail"]
    assert (status["iteration"], status["checkpoint"]["step"]) == (4, 4)


def assert_given_up(namespace: Kubernetes, name: str, reason: str, words: str) -> None:
    """A trial that could not start ended in ERROR, and says why."""
    namespace.wait_for_condition("experiments.podtune.dev", name, "Failed")
    status = trial_status(namespace, f"{name}-0")
    assert (status["state"], status["reason"], counters(status)) == ("ERROR", reason, {"failures": 1})
    assert words in status["message"]


def lose_the_node(cluster: Cluster, namespace: Kubernetes, pod: Object, patience: float) -> None:
    """Has a node die under a trial, and an administrator say so when its pod was given up."""
    node = cluster.node_name(WORK_NODE)
    work = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 100, "preference": {"matchExpressions": [
            {"key": "podtune.dev/role", "operator": "In", "values": ["work"]}]}}]}}  # fmt: skip
    run_one(namespace, cluster, "lost", {"WAIT_AT": str(HELD_AT)}, pod={"affinity": work, **pod})
    eventually(is_at(namespace, "lost", 3))
    assert namespace.get("pods", "lost-0-1")["spec"]["nodeName"] == node
    uid = namespace.get("experiments.podtune.dev", "lost")["metadata"]["uid"]

    def read_first_attempt() -> list[Result]:
        stored = read_stored_results(cluster, f"e2e/{uid}/", "lost-0")
        return [found.result for found in stored if found.number == 1]

    before = eventually(read_first_attempt, lambda found: len(found) == HELD_AT - 1)
    cluster.kill_node(WORK_NODE)
    try:
        status = eventually(
            lambda: trial_status(namespace, "lost-0"),
            lambda status: status.get("reason") == "Disrupted",
            deadline=patience,
        )
        assert (status["state"], status["attempt"], counters(status)) == ("RUNNING", 1, {})
        assert "DeletionByTaintManager" in status["message"]
        assert node in status["message"]
        cluster.kubectl("taint", "node", node, OUT_OF_SERVICE)
        assert_resumed(cluster, namespace, "lost", "DeletionByTaintManager", disruptions=1)
        assert trial_status(namespace, "lost-0")["pod"]["node"] != node
        assert read_first_attempt() == before
        assert [result.seq for result in before] == list(range(1, HELD_AT))
    finally:
        cluster.start_node(WORK_NODE)
        cluster.run(["kubectl", "taint", "node", node, f"{OUT_OF_SERVICE}-"], check=False)  # it may not be there


@pytest.mark.alone
def test_a_lost_node_is_survived_elsewhere(cluster: Cluster, namespace: Kubernetes) -> None:
    lose_the_node(cluster, namespace, {"tolerations": SOON}, 300)


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_node_that_is_lost_for_as_long_as_kubernetes_waits(cluster: Cluster, namespace: Kubernetes) -> None:
    lose_the_node(cluster, namespace, {}, 700)
