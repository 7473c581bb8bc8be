"""Retries on a volume that the trial keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.devcluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.trials import Escort, trial_status
from e2e.volumes import provide_volume


@pytest.fixture
def storage_class(cluster: Cluster, namespace: Kubernetes) -> Iterator[str]:
    """A class with one volume."""
    with provide_volume(cluster, namespace.namespace, "ReadWriteOnce") as name:
        yield name


def restore_log(namespace: Kubernetes, pod: str) -> Object:
    lines = namespace.kubectl("logs", pod, "-c", "podtune-restore").splitlines()
    return next((line for line in map(json.loads, lines) if line["event"] == "restored"), {})


@pytest.mark.long
def test_a_retry_takes_from_the_trials_volume_what_the_bucket_need_not_send(
    cluster: Cluster, namespace: Kubernetes, storage_class: str
) -> None:
    container = counter({"EPOCHS": "5", "CRASH_AT": "3", "HOLD_EACH": "1"})
    scratch = {"storageClassName": storage_class, "size": "100Mi"}
    checkpoints = {"store": store(cluster), "scratch": scratch}
    search = {"algorithm": "random", "maxTrials": 1}
    namespace.apply(experiment("warm", container, search=search, checkpoints=checkpoints))
    programs = Escort(namespace, "warm")

    def restored_again() -> Object:
        """Holds the second attempt back until its log was read."""
        if trial_status(namespace, "warm-0").get("attempt", 1) == 1:
            programs.go_on()
        return restore_log(namespace, "warm-0-2")

    restored = eventually(restored_again)
    assert restored["step"] >= 1
    assert restored["local_bytes"] == len(json.dumps({"epoch": restored["step"]}))
    programs.finish()
    assert namespace.get("trials.podtune.dev", "warm-0")["status"]["iteration"] == 5
    eventually(lambda: is_gone(namespace, "warm-0-scratch"), what="the claim outlives its trial")


def is_gone(namespace: Kubernetes, claim: str) -> bool:
    try:
        namespace.get("persistentvolumeclaim", claim)
    except ClusterError as error:
        return "NotFound" in str(error)
    return False
