"""Attempts that end badly, and what becomes of their trials."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from e2e.devcluster import Cluster
from e2e.disruptions import evict
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.trials import epochs_of_attempt, trial_status

ONE = {"algorithm": "random", "maxTrials": 1}


@pytest.mark.every_version
def test_a_crash_is_resumed_from_the_last_committed_epoch(cluster: Cluster, namespace: Kubernetes) -> None:
    container = counter({"EPOCHS": "8", "CRASH_AT": "6", "EPOCH_SECONDS": "0.5"})
    namespace.apply(
        experiment("crash", container, search=ONE, checkpoints={"store": store(cluster), "keep": {"count": 2}})
    )
    namespace.wait_for_condition("experiments.podtune.dev", "crash", "Complete")
    status = trial_status(namespace, "crash-0")
    assert status["state"] == "TERMINATED"
    assert (status["attempt"], status["failures"]) == (2, 1)
    assert status["lastResult"]["epoch"] == "8"
    assert status["iteration"] == 8, "an epoch was counted twice, or lost"
    resumed = epochs_of_attempt(cluster, status["checkpoint"]["uri"])
    assert resumed[0] > 1, "the second attempt began afresh"
    assert resumed == list(range(resumed[0], 9))


def test_failures_beyond_the_limit_end_one_trial_and_no_other(cluster: Cluster, namespace: Kubernetes) -> None:
    container = counter({"CRASH_AT": "2", "CRASH_ALWAYS": "1", "CRASH_TRIAL": "0", "CRASH_CODE": "7"})
    namespace.apply(
        experiment(
            "broken", container, search={"algorithm": "random", "maxTrials": 3}, checkpoints={"store": store(cluster)}
        )
    )
    namespace.wait_for_condition("experiments.podtune.dev", "broken", "Complete")
    status = trial_status(namespace, "broken-0")
    assert status["state"] == "ERROR"
    assert status["reason"] == "MaxFailuresExceeded"
    assert status["failures"] == 2
    assert status["lastAttempt"]["exitCode"] == 7
    assert "crashing at epoch 2" in status["lastAttempt"]["logTail"]
    assert "exited with code 7 (last line of its log: " in status["message"]
    assert "crashing at epoch 2" in status["message"]
    phase = eventually(lambda: namespace.get("pods", "broken-0-2")["status"]["phase"], lambda p: p != "Running")
    assert phase == "Failed", "it outlives the experiment's end"
    counts = namespace.get("experiments.podtune.dev", "broken")["status"]["trials"]
    assert (counts["terminated"], counts["error"]) == (2, 1)


@pytest.mark.every_version
def test_a_pod_taken_away_spends_no_failure(cluster: Cluster, namespace: Kubernetes) -> None:
    container = counter({"EPOCHS": "8", "HOLD_AT": "4"})
    namespace.apply(experiment("evicted", container, search=ONE, checkpoints={"store": store(cluster)}))
    eventually(lambda: trial_status(namespace, "evicted-0").get("checkpoint", {}).get("step", 0) >= 2)
    evict(namespace, "evicted-0-1")
    namespace.wait_for_condition("experiments.podtune.dev", "evicted", "Complete")
    status = trial_status(namespace, "evicted-0")
    assert (status["attempt"], status["failures"], status["disruptions"]) == (2, 0, 1)
    assert status["iteration"] == 8
    assert epochs_of_attempt(cluster, status["checkpoint"]["uri"])[0] > 2


def test_a_node_on_which_different_trials_fail_is_avoided(cluster: Cluster, namespace: Kubernetes) -> None:
    """Two trials on each of two nodes, of which one is bad: they go on on the other one, and so do all that follow."""
    bad = cluster.node_name("n2")
    environment = {"EPOCHS": "4", "CRASH_AT": "2", "CRASH_ALWAYS": "1", "CRASH_NODE": bad}
    container = counter(environment, resources={"requests": {"cpu": "10m", "memory": "32Mi"}})
    container["env"].append({"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}})
    made = experiment(
        "avoiding",
        container,
        search={"algorithm": "random", "maxTrials": 6, "seed": 1},
        maxConcurrentTrials=4,
        failures={"maxFailures": 8, "avoidNodeAfter": 2, "backoff": {"initial": "1s", "max": "2s"}},
    )
    made["spec"]["trialTemplate"]["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"podtune.dev/experiment": "avoiding"}},
        }
    ]
    namespace.apply(made)
    namespace.wait_for_condition("experiments.podtune.dev", "avoiding", "Complete")
    (avoided,) = namespace.get("experiments.podtune.dev", "avoiding")["status"]["avoidedNodes"]
    assert avoided["name"] == bad
    assert avoided["trials"] >= 2
    statuses = [trial["status"] for trial in namespace.list("trials.podtune.dev")]
    assert len([status for status in statuses if status.get("failedNodes")]) >= 2
    assert all(status["state"] == "TERMINATED" and status["pod"]["node"] != bad for status in statuses)


@pytest.mark.every_version
def test_a_pod_that_no_node_can_take_waits_with_the_schedulers_words(namespace: Kubernetes) -> None:
    container = counter(resources={"limits": {"nvidia.com/gpu": "64"}})
    namespace.apply(experiment("greedy", container, search=ONE))
    status = eventually(lambda: trial_status(namespace, "greedy-0"), lambda s: s.get("reason") == "Unschedulable")
    assert status["state"] == "PENDING"
    assert "Insufficient nvidia.com/gpu" in status["message"]


@pytest.mark.every_version
def test_a_bad_image_is_explained_and_given_up_after_the_deadline(namespace: Kubernetes) -> None:
    container = counter(image="localhost/no-such-image:1", imagePullPolicy="Never")
    namespace.apply(experiment("imageless", container, search=ONE, failures={"maxFailures": 3, "startDeadline": "1h"}))
    status = eventually(lambda: trial_status(namespace, "imageless-0"), lambda s: s.get("reason") == "PullingImage")
    assert "ErrImageNeverPull" in status["message"]
    sooner = json.dumps({"spec": {"failures": {"startDeadline": "5s"}}})
    namespace.kubectl("patch", "experiments.podtune.dev", "imageless", "--type=merge", "-p", sooner)
    namespace.wait_for_condition("experiments.podtune.dev", "imageless", "Failed")
    status = trial_status(namespace, "imageless-0")
    assert (status["state"], status["reason"]) == ("ERROR", "StartDeadlineExceeded")
    assert "startDeadline" in status["message"]


UNUSABLE: Mapping[str, tuple[Object, str, str]] = {
    "bucketless": ({"bucket": "no-such-bucket"}, "StoreUnusable", "no-such-bucket"),
    "refused": ({"credentialsSecret": "wrong-keys"}, "StoreUnusable", "podtune"),
    "secretless": ({"credentialsSecret": "no-such-secret"}, "StartDeadlineExceeded", "no-such-secret"),
}
"""Experiments, with what is wrong with the store of each, why its trial ends, and a word that its message has."""


def test_an_unusable_store_is_said_in_one_sentence_and_ends_the_trial(cluster: Cluster, namespace: Kubernetes) -> None:
    from e2e.tests.conftest import store_secret

    wrong = store_secret(cluster.s3.access_key, "not the key")
    namespace.apply(wrong | {"metadata": {"name": "wrong-keys"}})
    container = counter({"EPOCHS": "1000", "EPOCH_SECONDS": "0.5"})
    for name, (change, _, _) in UNUSABLE.items():
        namespace.apply(
            experiment(
                name,
                container,
                search=ONE,
                checkpoints={"store": store(cluster, **change)},
                failures={"maxFailures": 3, "startDeadline": "10s"},
            )
        )
    for name, (_, reason, words) in UNUSABLE.items():
        namespace.wait_for_condition("experiments.podtune.dev", name, "Failed")
        status = trial_status(namespace, f"{name}-0")
        assert (status["state"], status["reason"]) == ("ERROR", reason)
        assert words in status["message"]
        assert status["failures"] == 1
