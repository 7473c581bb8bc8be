"""The operator, or the bucket, is away for a while: nothing is lost, and nobody is blamed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from e2e.containers import kill_container
from e2e.devcluster import Cluster
from e2e.disruptions import scaled_to_nothing
from e2e.experiments import counter, experiment, store
from e2e.install import OPERATOR_PODS, RELEASE
from e2e.kubernetes import DEADLINE, Kubernetes, Object, eventually
from e2e.tests.conftest import make_namespace
from e2e.trials import EXPERIMENTS, OF_TRIALS, TRIALS, epochs_of_attempt, let_go_on

pytestmark = [pytest.mark.alone, pytest.mark.timeout(1500)]

outages = pytest.mark.parametrize("outage", [8.0, pytest.param(300.0, marks=pytest.mark.long)])
"""Seconds that somebody is away."""
EPOCHS = 20
REPORTING = 20
NO_GPU: Object = {"requests": {"cpu": "10m", "memory": "32Mi"}}


def statuses(namespace: Kubernetes, name: str) -> list[Object]:
    """Those of an experiment's trials."""
    return [trial.get("status", {}) for trial in namespace.list(TRIALS, f"podtune.dev/experiment={name}")]


def await_results(namespace: Kubernetes, name: str, trials: int) -> None:
    """Waits until so many trials of an experiment have reported."""
    eventually(
        lambda: [status for status in statuses(namespace, name) if status.get("lastResult")],
        lambda reporting: len(reporting) == trials,
        what=f"all trials of {name} have reported",
    )


def assert_nothing_was_lost(namespace: Kubernetes, name: str, trials: int) -> None:
    """Every trial has one attempt, which has come to its good end, and each of its results was counted once."""
    found = statuses(namespace, name)
    assert len(found) == trials
    for status in found:
        assert (status["state"], status["attempt"]) == ("TERMINATED", 1)
        assert not [name for name in ("failures", "disruptions", "infrastructureFailures") if status.get(name)]
        assert (status["iteration"], status["lastResult"]["epoch"]) == (EPOCHS, str(EPOCHS))
        assert not [c for c in status["conditions"] if c["type"] == "ResultsComplete" and c["status"] == "False"]


@outages
def test_nothing_is_lost_while_the_operator_is_away(
    cluster: Cluster, namespace: Kubernetes, operator: Kubernetes, outage: float
) -> None:
    """One absence for all that may happen meanwhile: each begins, goes on without the operator, and is looked at."""
    happenings = [
        twenty_trials_report(namespace, outage),
        trials_end(namespace),
        a_trial_is_deleted(cluster, namespace),
        a_namespace_is_deleted(cluster),
    ]
    for happening in happenings:
        next(happening)
    with scaled_to_nothing(operator, f"deployment/{RELEASE}", OPERATOR_PODS):
        back = time.monotonic() + outage
        for happening in happenings:
            next(happening)
        time.sleep(max(0.0, back - time.monotonic()))  # the outage itself, not a wait for anything
    for happening in happenings:
        next(happening, None)


def twenty_trials_report(namespace: Kubernetes, outage: float) -> Iterator[None]:
    container = counter(
        {"EPOCHS": str(EPOCHS), "HOLD_AT": "2", "EPOCH_SECONDS": f"{outage / 15:.1f}"}, resources=NO_GPU
    )
    search = {"algorithm": "random", "maxTrials": REPORTING, "seed": 3}
    namespace.apply(experiment("unheard", container, search=search, maxConcurrentTrials=REPORTING))
    await_results(namespace, "unheard", REPORTING)
    yield
    let_go_on(namespace, f"{OF_TRIALS},podtune.dev/experiment=unheard")
    yield
    namespace.wait_for_condition(EXPERIMENTS, "unheard", "Complete", deadline=outage + 300)
    assert_nothing_was_lost(namespace, "unheard", REPORTING)


def trials_end(namespace: Kubernetes) -> Iterator[None]:
    of_trials = f"{OF_TRIALS},podtune.dev/experiment=ended"
    namespace.apply(experiment("ended", counter({"EPOCHS": str(EPOCHS), "HOLD_AT": "3", "EPOCH_SECONDS": "0.1"})))
    await_results(namespace, "ended", 2)
    yield
    let_go_on(namespace, of_trials)
    eventually(
        lambda: [pod["status"]["phase"] for pod in namespace.list("pods", of_trials)],
        lambda phases: phases == ["Succeeded"] * 2,
        what="both pods have ended",
    )
    yield
    namespace.wait_for_condition(EXPERIMENTS, "ended", "Complete")
    assert_nothing_was_lost(namespace, "ended", 2)


def a_trial_is_deleted(cluster: Cluster, namespace: Kubernetes) -> Iterator[None]:
    """It goes on from what is in the bucket."""
    container = counter({"EPOCHS": "8", "HOLD_AT": "5"})
    search = {"algorithm": "random", "maxTrials": 1, "seed": 3}
    namespace.apply(experiment("lost", container, search=search, checkpoints={"store": store(cluster)}))
    stored = eventually(
        lambda: namespace.get(TRIALS, "lost-0"),
        lambda trial: trial.get("status", {}).get("checkpoint", {}).get("step", 0) >= 3,
    )
    yield
    namespace.kubectl("delete", TRIALS, "lost-0")
    yield
    namespace.wait_for_condition(EXPERIMENTS, "lost", "Complete")
    trial = namespace.get(TRIALS, "lost-0")
    status = trial["status"]
    assert trial["metadata"]["uid"] != stored["metadata"]["uid"]
    assert (status["attempt"], status["iteration"], status["lastResult"]["epoch"]) == (1, 8, "8")
    found = status["former"]["step"]
    assert found >= stored["status"]["checkpoint"]["step"]
    said = [entry["message"] for entry in status["ledger"] if entry["action"] == "RECREATE"]
    assert said[1:] == [f"continues from the checkpoint of iteration {found}, found in the bucket"]
    eventually(
        lambda: [event["message"] for event in namespace.list("events") if event["reason"] == "TrialMadeAnew"],
        lambda messages: f"lost-0 {said[1]}" in messages,
    )


def a_namespace_is_deleted(cluster: Cluster) -> Iterator[None]:
    """It goes, although an experiment runs in it that has checkpoints."""
    namespace = make_namespace(cluster)
    # Without an operator it is the grace period that bounds how long a pod stays: the template's and drain.
    made = experiment("orphaned", counter({"EPOCHS": "100000"}), checkpoints={"store": store(cluster), "drain": "4s"})
    made["spec"]["trialTemplate"]["spec"]["terminationGracePeriodSeconds"] = 4
    namespace.apply(made)
    eventually(lambda: len(namespace.list("pods")) == 2)
    yield
    cluster.kubectl("delete", "namespace", namespace.namespace, f"--timeout={DEADLINE:.0f}s", timeout=DEADLINE + 30)
    yield


@outages
def test_the_bucket_is_away_in_the_middle_of_an_upload(cluster: Cluster, namespace: Kubernetes, outage: float) -> None:
    """The programs go on meanwhile, up to the last epoch but one."""
    environment = {"EPOCHS": str(EPOCHS), "HOLD_AT": str(EPOCHS), "WEIGHTS_MIB": "72"}
    container = counter({**environment, "EPOCH_SECONDS": f"{outage / 10:.1f}"})
    checkpoints = {"store": store(cluster), "keep": {"count": 2}}
    namespace.apply(experiment("unstored", container, checkpoints=checkpoints))
    eventually(
        lambda: [s for s in statuses(namespace, "unstored") if s.get("checkpoint")], lambda found: len(found) == 2
    )
    stored = f"e2e/{namespace.get(EXPERIMENTS, 'unstored')['metadata']['uid']}/"
    s3 = Kubernetes(cluster, "s3")
    (server,) = s3.list("pods", "app=s3")
    eventually(lambda: cluster.s3_client.uploads(stored), deadline=outage + 120, what="something is being uploaded")
    kill_container(server["status"]["containerStatuses"][0])
    with scaled_to_nothing(s3, "deployment/s3", "app=s3"):
        time.sleep(outage)  # the outage itself, not a wait for anything
    before = {status["pod"]["name"]: status["checkpoint"]["step"] for status in statuses(namespace, "unstored")}
    let_go_on(namespace)
    namespace.wait_for_condition(EXPERIMENTS, "unstored", "Complete", deadline=outage + 300)
    assert_nothing_was_lost(namespace, "unstored", 2)
    for status in statuses(namespace, "unstored"):
        assert status["checkpoint"]["step"] == EPOCHS > before[status["pod"]["name"]]
        assert epochs_of_attempt(cluster, status["checkpoint"]["uri"]) == list(range(1, EPOCHS + 1))
        for checkpoint in status["checkpoints"]:
            key = checkpoint["uri"].removeprefix(f"s3://{cluster.s3.bucket}/")
            assert cluster.s3_client.get(f"{key}/manifest.json")
    eventually(lambda: not cluster.s3_client.uploads(stored), what="what was cut off is given up")
