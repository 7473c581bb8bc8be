"""Trials of several pods on a real node: they meet, they are placed as a whole, and they fail as one."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from e2e.devcluster import Cluster
from e2e.disruptions import provide_gpus, urgent_pod
from e2e.experiments import experiment, program, store
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.trials import touch, trial_status

ONE = {"algorithm": "random", "maxTrials": 1}
EPOCHS = 6
GPUS = 4
"""So many there are for gangs that are about scarcity; each of their ranks has one."""
RESOURCES = {"limits": {"memory": "128Mi"}, "requests": {"cpu": "10m", "memory": "32Mi"}}


def gang(name: str, replicas: int, environment: dict[str, str], resources: Object = RESOURCES, **fields: Any) -> Object:
    container = program("gang", environment, resources=resources)
    made = experiment(name, container, search=ONE, **fields)
    made["spec"]["trialTemplate"] |= {"replicas": replicas, "placementTimeout": "6s"}
    return made


def one_gpu(resource: str) -> Object:
    return {"limits": {resource: "1"}, "requests": {"cpu": "10m", "memory": "32Mi"}}


def files_of(cluster: Cluster, uri: str) -> list[str]:
    """The files of a checkpoint, as its manifest has them."""
    key = uri.removeprefix(f"s3://{cluster.s3.bucket}/")
    return [file["path"] for file in json.loads(cluster.s3_client.get(f"{key}/manifest.json"))["files"]]


def has_checkpoint(namespace: Kubernetes, trial: str) -> bool:
    """Whether all ranks' shards of the second epoch's checkpoint, or of a later one, are stored."""
    return int(trial_status(namespace, trial).get("checkpoint", {}).get("step", 0)) >= 2


def assert_resumed_whole(cluster: Cluster, status: Object) -> None:
    """A later attempt went on from a checkpoint that all ranks had a shard of, and all ranks from the same."""
    last = status["lastResult"]
    assert status["state"] == "TERMINATED", status
    assert int(last["training_iteration"]) == EPOCHS
    assert int(last["start"]) > 0, "it began afresh"
    assert last["agreed"] == "1", "the ranks began at different epochs"
    assert files_of(cluster, status["checkpoint"]["uri"]) == [f"shard-{rank}.json" for rank in range(4)]


@pytest.mark.long
def test_a_rank_out_of_memory_is_one_failure_of_the_gang(cluster: Cluster, namespace: Kubernetes) -> None:
    environment = {"EPOCHS": str(EPOCHS), "HOLD_AT": "4", "OOM_RANK": "2", "OOM_AT": "4"}
    namespace.apply(gang("memory", 4, environment, checkpoints={"store": store(cluster)}))
    eventually(lambda: has_checkpoint(namespace, "memory-0"))
    touch(namespace, "memory-0-1-0", "go")
    namespace.wait_for_condition("experiments.podtune.dev", "memory", "Complete")
    status = trial_status(namespace, "memory-0")
    assert (status["attempt"], status["failures"], status.get("disruptions", 0)) == (2, 1, 0)
    assert_resumed_whole(cluster, status)
    warnings = [event for event in namespace.list("events") if event["type"] == "Warning"]
    reasons = {event["reason"] for event in warnings if event["involvedObject"]["name"] == "memory-0"}
    assert reasons == {"OOMKilled"}, "the failure is not explained by the rank that ran out of memory"


def test_a_preempted_rank_costs_the_gang_no_failure(cluster: Cluster, namespace: Kubernetes) -> None:
    """The four ranks hold all GPUs that there are, and a pod of higher priority needs one of them.

    Until that has ended the gang can't be placed as a whole, so further attempts may be given back before they begin.
    """
    resource = "habana.ai/gaudi"
    provide_gpus(cluster, resource, GPUS)
    environment = {"EPOCHS": str(EPOCHS), "HOLD_AT": "4"}
    namespace.apply(gang("preempted", 4, environment, one_gpu(resource), checkpoints={"store": store(cluster)}))
    eventually(lambda: has_checkpoint(namespace, "preempted-0"))
    with urgent_pod(namespace, resource, gpus=1):
        eventually(lambda: trial_status(namespace, "preempted-0").get("disruptions") == 1)
    namespace.wait_for_condition("experiments.podtune.dev", "preempted", "Complete")
    status = trial_status(namespace, "preempted-0")
    assert (status.get("failures", 0), status["disruptions"]) == (0, 1)
    assert_resumed_whole(cluster, status)
    reasons = {e["reason"] for e in namespace.list("events") if e["involvedObject"]["name"] == "preempted-0"}
    assert "PreemptionByScheduler" in reasons


def test_two_gangs_that_do_not_fit_together_both_finish(cluster: Cluster, namespace: Kubernetes) -> None:
    """Three quarters of the GPUs each; of two experiments, so that the timeout keeps them from waiting for ever."""
    resource = "gpu.intel.com/xe"
    provide_gpus(cluster, resource, GPUS)
    environment, one = {"EPOCHS": "3", "EPOCH_SECONDS": "1"}, one_gpu(resource)
    namespace.apply(gang("red", 3, environment, one), gang("blue", 3, environment, one))
    for name in ("red", "blue"):
        namespace.wait_for_condition("experiments.podtune.dev", name, "Complete")
        status = trial_status(namespace, f"{name}-0")
        assert status["state"] == "TERMINATED"
        assert status.get("failures", 0) == status.get("disruptions", 0) == 0
    usage = trial_status(namespace, "red-0")["usage"]
    # Before they were placed as a whole, some ranks may have trained alone; in the end, each has for three epochs.
    assert usage["gpuSeconds"] >= usage["trainingSeconds"] + 2 * 3 - 1, "GPUs of other ranks are not counted"


def test_gates_of_others_hold_a_gang_back_until_they_are_taken_away(namespace: Kubernetes) -> None:
    """As those of Kueue do, which is not installed here."""
    made = gang("gated", 2, {"EPOCHS": "1"})
    made["spec"]["trialTemplate"]["metadata"] = {"labels": {"kueue.x-k8s.io/queue-name": "team"}}
    made["spec"]["trialTemplate"]["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    namespace.apply(made)
    only_theirs = [{"name": "example.com/quota"}]
    for name in ("gated-0-1-0", "gated-0-1-1"):
        look = partial(namespace.get, "pod", name)
        pod = eventually(look, lambda pod: pod["spec"].get("schedulingGates") == only_theirs)
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] == "gated-0-1"
        assert pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "2"
    for rank in range(2):
        patch = json.dumps([{"op": "remove", "path": "/spec/schedulingGates"}])
        namespace.kubectl("patch", "pod", f"gated-0-1-{rank}", "--type=json", "-p", patch)
    namespace.wait_for_condition("experiments.podtune.dev", "gated", "Complete")
