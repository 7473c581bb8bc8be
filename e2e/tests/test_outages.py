"""The operator, or the bucket, is away for a while, on the real node: nothing is lost, and nobody is blamed.

`make test-long` makes the outages five minutes long.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.cluster import Cluster
from e2e.experiments import counter, experiment, store
from e2e.install import OPERATOR_PODS, RELEASE
from e2e.kubernetes import Kubernetes, Object, eventually

pytestmark = pytest.mark.timeout(1500)
OUTAGE = float(os.environ.get("PODTUNE_OUTAGE_SECONDS", "30"))
EPOCHS = 20
MARGIN = 30.0
"""Seconds that training goes on beyond the outage: before it, and after it."""
DEADLINE = OUTAGE * 2 + 300
REPORTING = 20
NO_GPU: Object = {"requests": {"cpu": "10m", "memory": "32Mi"}}


def slow_counter(**container: object) -> Object:
    """Trains for longer than the outage lasts."""
    return counter({"EPOCHS": str(EPOCHS), "EPOCH_SECONDS": f"{(OUTAGE + MARGIN) / EPOCHS:.2f}"}, **container)


@contextmanager
def scaled_to_nothing(kubernetes: Kubernetes, deployment: str, pods: str) -> Iterator[None]:
    """A deployment is away while the context lasts."""
    kubernetes.kubectl("scale", deployment, "--replicas=0")
    try:
        eventually(lambda: not kubernetes.list("pods", pods), what=f"the pods of {deployment} are gone")
        yield
    finally:
        kubernetes.kubectl("scale", deployment, "--replicas=1")
        kubernetes.kubectl("rollout", "status", deployment, "--timeout=120s", timeout=150)


def statuses(namespace: Kubernetes) -> list[Object]:
    return [trial.get("status", {}) for trial in namespace.list("trials.podtune.dev")]


def assert_nothing_was_lost(namespace: Kubernetes, trials: int) -> None:
    found = statuses(namespace)
    assert len(found) == trials
    for status in found:
        assert status["state"] == "TERMINATED"
        assert (status["attempt"], status.get("failures", 0), status.get("disruptions", 0)) == (1, 0, 0)
        assert (status["iteration"], status["lastResult"]["epoch"]) == (EPOCHS, str(EPOCHS))
        assert not any(c["type"] == "ResultsComplete" for c in status["conditions"])


def test_twenty_trials_report_while_the_operator_is_away(namespace: Kubernetes, operator: Kubernetes) -> None:
    search = {"algorithm": "random", "maxTrials": REPORTING, "seed": 3}
    container = slow_counter(resources=NO_GPU)
    namespace.apply(experiment("unheard", container, search=search, maxConcurrentTrials=REPORTING))
    eventually(
        lambda: [s for s in statuses(namespace) if s.get("iteration")],
        lambda reporting: len(reporting) == REPORTING,
        deadline=180,
        what="all trials report",
    )
    with scaled_to_nothing(operator, f"deployment/{RELEASE}", OPERATOR_PODS):
        time.sleep(OUTAGE)  # the outage itself, not a wait for anything
    namespace.wait_for_condition("experiments.podtune.dev", "unheard", "Complete", deadline=DEADLINE)
    assert_nothing_was_lost(namespace, REPORTING)


def test_the_bucket_is_away_in_the_middle_of_an_upload(cluster: Cluster, namespace: Kubernetes) -> None:
    search = {"algorithm": "random", "maxTrials": 2, "seed": 3}
    checkpoints = {"store": store(cluster), "keep": {"count": 2}}
    namespace.apply(experiment("unstored", slow_counter(), search=search, checkpoints=checkpoints))
    eventually(lambda: [s for s in statuses(namespace) if s.get("checkpoint")], lambda found: len(found) == 2)
    before = {s["pod"]["name"]: s["checkpoint"]["step"] for s in statuses(namespace)}
    with scaled_to_nothing(Kubernetes(cluster, "s3"), "deployment/s3", "app=s3"):
        time.sleep(OUTAGE)  # the outage itself, not a wait for anything
    namespace.wait_for_condition("experiments.podtune.dev", "unstored", "Complete", deadline=DEADLINE)
    assert_nothing_was_lost(namespace, 2)
    for status in statuses(namespace):
        assert status["checkpoint"]["step"] == EPOCHS > before[status["pod"]["name"]]
        key = status["checkpoint"]["uri"].removeprefix(f"s3://{cluster.s3.bucket}/")
        assert cluster.s3_client.get(f"{key}/manifest.json")
