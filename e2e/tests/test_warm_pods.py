"""Pods that run trial after trial."""

from __future__ import annotations

import json
from typing import Any

from e2e.devcluster import Cluster
from e2e.experiments import Object, experiment, program, store
from e2e.kubernetes import Kubernetes, eventually
from e2e.trials import trial_status

MADE_FOR = "podtune.dev/made-for"


def warm(name: str, environment: dict[str, str] | None = None, **spec: Any) -> Object:
    container = program("stream", environment)
    template = {"reuse": True, "spec": {"containers": [container], "terminationGracePeriodSeconds": 20}}
    return experiment(name, container, trialTemplate=template, **spec)


def pods_of(status: Object) -> str:
    """UID of the pod that a trial's last attempt ran in."""
    return str(status["pod"]["uid"]).partition("/")[0]


def want(namespace: Kubernetes, trial: str, state: str) -> None:
    patch = json.dumps({"spec": {"desiredState": state}})
    namespace.kubectl("patch", "trials.podtune.dev", trial, "--type=merge", "-p", patch)


def test_twenty_trials_run_through_two_pods_and_the_crash_of_one_is_its_own(namespace: Kubernetes) -> None:
    search = {"algorithm": "random", "maxTrials": 20, "seed": 1}
    namespace.apply(warm("warm", {"CRASH_TRIAL": "7"}, search=search, podRetention="All", podRetentionTime="1s"))
    namespace.wait_for_condition("experiments.podtune.dev", "warm", "Complete")
    trials = namespace.list("trials.podtune.dev")
    assert len(trials) == 20
    for trial in trials:
        status, index = trial["status"], trial["spec"]["index"]
        assert status["state"] == "TERMINATED"
        assert status["lastResult"]["value"] == status["best"]["value"]
        assert float(status["best"]["value"]) == float(trial["spec"]["parameters"]["base"])
        assert (status["attempt"], status.get("failures", 0)) == ((2, 1) if index == 7 else (1, 0))
        assert status.get("disruptions", 0) <= (0 if index < 7 else 1)
    used = {pods_of(trial["status"]) for trial in trials}
    assert len(used) <= 3, "two pods, and one in the place of that which crashed"
    eventually(lambda: namespace.list("pods", MADE_FOR), lambda pods: not pods, what="pods with nothing to do are gone")


def test_a_pause_frees_the_pod_and_the_trial_goes_on_from_its_checkpoint(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    namespace.apply(
        warm(
            "paused",
            {"WAIT_TRIAL": "0", "CHECKPOINTS": "1"},
            checkpoints={"store": store(cluster)},
            search={"algorithm": "random", "maxTrials": 3, "seed": 1},
            maxConcurrentTrials=1,
        )
    )
    eventually(lambda: trial_status(namespace, "paused-0").get("checkpoints"), what="a checkpoint of the first trial")
    first = pods_of(trial_status(namespace, "paused-0"))
    want(namespace, "paused-0", "Paused")
    eventually(lambda: trial_status(namespace, "paused-2").get("state") == "TERMINATED", what="the others run")
    assert pods_of(trial_status(namespace, "paused-1")) == first
    want(namespace, "paused-0", "Running")
    namespace.wait_for_condition("experiments.podtune.dev", "paused", "Complete")
    status = trial_status(namespace, "paused-0")
    assert (status["lastResult"]["start"], status["lastResult"]["epoch"]) == ("1", "2")
    for trial in namespace.list("trials.podtune.dev"):
        for checkpoint in trial["status"]["checkpoints"]:
            key = checkpoint["uri"].removeprefix(f"s3://{cluster.s3.bucket}/")
            assert f"/{trial['metadata']['name']}/" in checkpoint["uri"]
            assert json.loads(cluster.s3_client.get(f"{key}/manifest.json"))


def test_a_program_that_swaps_its_directory_for_a_link_gets_nothing_of_the_agents(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    container = program("swapping")
    template = {"reuse": True, "spec": {"containers": [container], "terminationGracePeriodSeconds": 20}}
    checkpoints = {"store": store(cluster), "artifacts": {"include": ["*"], "period": "1s"}}
    search = {"algorithm": "random", "maxTrials": 2, "seed": 1}
    namespace.apply(
        experiment(
            "swapped",
            container,
            trialTemplate=template,
            checkpoints=checkpoints,
            search=search,
            maxConcurrentTrials=1,
        )
    )
    namespace.wait_for_condition("experiments.podtune.dev", "swapped", "Complete")
    first, second = trial_status(namespace, "swapped-0"), trial_status(namespace, "swapped-1")
    assert pods_of(first) == pods_of(second)
    assert second["lastResult"]["refused"] == "1", "only the agent renames what lies in trials/"
    uid = namespace.get("experiments.podtune.dev", "swapped")["metadata"]["uid"]
    stored = list(cluster.s3_client.list(f"e2e/{uid}/swapped-1/"))
    assert [key for key in stored if "/results/0/" in key]
    assert not [key for key in stored if "token" in key]
