"""What a program has reported is stored before its pod goes, however slow the way to the bucket is."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, program, store
from e2e.kubernetes import Kubernetes, eventually
from e2e.trials import trial_status

EXPERIMENTS, TRIALS = "experiments.podtune.dev", "trials.podtune.dev"
NO_GPU = {"requests": {"cpu": "10m", "memory": "64Mi"}}
ONE = {"search": {"algorithm": "random", "maxTrials": 1, "seed": 1}}
MIB = 1 << 20


@pytest.fixture
def slow_store(cluster: Cluster, namespace: Kubernetes) -> dict[str, Any]:
    """The bucket, behind a link on which an upload has one MiB a second."""
    target = urlsplit(cluster.s3.cluster_endpoint)
    environment = {"TARGET": f"{target.hostname}:{target.port or 80}", "BYTES_A_SECOND": str(MIB)}
    container = program("slow_link", environment, resources=NO_GPU)
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    namespace.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "link"}, "spec": spec})
    status = eventually(
        lambda: namespace.get("pods", "link")["status"],
        lambda found: found.get("phase") == "Running" and found["podIP"],
    )
    return store(cluster, endpoint=f"http://{status['podIP']}:9000")


@pytest.mark.long
def test_a_slow_upload_is_waited_for_at_the_programs_end_and_at_a_pause(
    namespace: Kubernetes, slow_store: dict[str, Any]
) -> None:
    saves = counter({"EPOCHS": "1", "WEIGHTS_MIB": "25"}, resources=NO_GPU)
    namespace.apply(experiment("saves", saves, checkpoints={"store": slow_store}, **ONE))
    waits = counter({"WAIT_AT": "2", "WEIGHTS_MIB": "20"}, resources=NO_GPU)
    checkpoints = {"store": slow_store, "requestTimeout": "2s"}
    namespace.apply(experiment("waits", waits, checkpoints=checkpoints, **ONE))

    eventually(lambda: trial_status(namespace, "waits-0").get("iteration") == 1, what="epoch 1 is reported")
    namespace.kubectl("patch", TRIALS, "waits-0", "--type=merge", "-p", '{"spec":{"desiredState":"Paused"}}')

    def is_being_deleted() -> bool:
        return all(
            "deletionTimestamp" in pod["metadata"] for pod in namespace.list("pods", "podtune.dev/trial=waits-0")
        )

    eventually(is_being_deleted, what="the pod of the paused trial goes")
    assert trial_status(namespace, "waits-0")["checkpoint"]["step"] == 1, "it was stored before"
    eventually(lambda: trial_status(namespace, "waits-0").get("state") == "PAUSED")

    namespace.wait_for_condition(EXPERIMENTS, "saves", "Complete")
    status = trial_status(namespace, "saves-0")
    assert status["checkpoint"]["step"] == 1
    assert "lostCheckpoint" not in status
