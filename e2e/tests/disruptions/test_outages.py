"""The operator, or the bucket, is away for a while: nothing is lost, and nobody is blamed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.containers import kill_container
from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, store
from e2e.install import OPERATOR_PODS, RELEASE
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.trials import epochs_of_attempt, let_go_on

pytestmark = [pytest.mark.alone, pytest.mark.timeout(1500)]

outages = pytest.mark.parametrize("outage", [8.0, pytest.param(300.0, marks=pytest.mark.long)])
"""Seconds that somebody is away."""
TRIALS, EXPERIMENTS = "trials.podtune.dev", "experiments.podtune.dev"
EPOCHS = 20
REPORTING = 20
NO_GPU: Object = {"requests": {"cpu": "10m", "memory": "32Mi"}}


@contextmanager
def scaled_to_nothing(kubernetes: Kubernetes, deployment: str, pods: str) -> Iterator[None]:
    """A deployment is away while the context lasts."""
    kubernetes.kubectl("scale", deployment, "--replicas=0")
    try:
        eventually(lambda: not kubernetes.list("pods", pods), what=f"the pods of {deployment} are gone")
        yield
    finally:
        kubernetes.kubectl("scale", deployment, "--replicas=1")
        kubernetes.kubectl("rollout", "status", deployment, "--timeout=180s", timeout=200)


def statuses(namespace: Kubernetes) -> list[Object]:
    return [trial.get("status", {}) for trial in namespace.list(TRIALS)]


def assert_nothing_was_lost(namespace: Kubernetes, trials: int) -> None:
    """Every trial has one attempt, which has come to its good end, and each of its results was counted once."""
    found = statuses(namespace)
    assert len(found) == trials
    for status in found:
        assert (status["state"], status["attempt"]) == ("TERMINATED", 1)
        assert not [name for name in ("failures", "disruptions", "infrastructureFailures") if status.get(name)]
        assert (status["iteration"], status["lastResult"]["epoch"]) == (EPOCHS, str(EPOCHS))
        assert not [c for c in status["conditions"] if c["type"] == "ResultsComplete" and c["status"] == "False"]


@outages
def test_twenty_trials_report_while_the_operator_is_away(
    namespace: Kubernetes, operator: Kubernetes, outage: float
) -> None:
    container = counter(
        {"EPOCHS": str(EPOCHS), "HOLD_AT": "2", "EPOCH_SECONDS": f"{outage / 15:.1f}"}, resources=NO_GPU
    )
    search = {"algorithm": "random", "maxTrials": REPORTING, "seed": 3}
    namespace.apply(experiment("unheard", container, search=search, maxConcurrentTrials=REPORTING))
    eventually(
        lambda: [s for s in statuses(namespace) if s.get("lastResult")],
        lambda reporting: len(reporting) == REPORTING,
        what="all trials have reported their first epoch",
    )
    with scaled_to_nothing(operator, f"deployment/{RELEASE}", OPERATOR_PODS):
        let_go_on(namespace)
        time.sleep(outage)  # the outage itself, not a wait for anything
    namespace.wait_for_condition(EXPERIMENTS, "unheard", "Complete", deadline=outage + 300)
    assert_nothing_was_lost(namespace, REPORTING)


@outages
def test_the_bucket_is_away_in_the_middle_of_an_upload(cluster: Cluster, namespace: Kubernetes, outage: float) -> None:
    """The programs go on meanwhile, up to the last epoch but one."""
    environment = {"EPOCHS": str(EPOCHS), "HOLD_AT": str(EPOCHS), "WEIGHTS_MIB": "72"}
    container = counter({**environment, "EPOCH_SECONDS": f"{outage / 10:.1f}"})
    checkpoints = {"store": store(cluster), "keep": {"count": 2}}
    namespace.apply(experiment("unstored", container, checkpoints=checkpoints))
    eventually(lambda: [s for s in statuses(namespace) if s.get("checkpoint")], lambda found: len(found) == 2)
    stored = f"e2e/{namespace.get(EXPERIMENTS, 'unstored')['metadata']['uid']}/"
    s3 = Kubernetes(cluster, "s3")
    (server,) = s3.list("pods", "app=s3")
    eventually(lambda: cluster.s3_client.uploads(stored), deadline=outage + 120, what="something is being uploaded")
    kill_container(server["status"]["containerStatuses"][0])
    with scaled_to_nothing(s3, "deployment/s3", "app=s3"):
        time.sleep(outage)  # the outage itself, not a wait for anything
    before = {status["pod"]["name"]: status["checkpoint"]["step"] for status in statuses(namespace)}
    let_go_on(namespace)
    namespace.wait_for_condition(EXPERIMENTS, "unstored", "Complete", deadline=outage + 300)
    assert_nothing_was_lost(namespace, 2)
    for status in statuses(namespace):
        assert status["checkpoint"]["step"] == EPOCHS > before[status["pod"]["name"]]
        assert epochs_of_attempt(cluster, status["checkpoint"]["uri"]) == list(range(1, EPOCHS + 1))
        for checkpoint in status["checkpoints"]:
            key = checkpoint["uri"].removeprefix(f"s3://{cluster.s3.bucket}/")
            assert cluster.s3_client.get(f"{key}/manifest.json")
    eventually(lambda: not cluster.s3_client.uploads(stored), what="what was cut off is given up")
