"""`kubectl podtune doctor` on the local cluster: it is well, and then it is broken in several ways at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.devcluster import Cluster
from e2e.devcluster.native import NativeCluster
from e2e.devcluster.node import control_plane
from e2e.disruptions import scaled_to_nothing
from e2e.experiments import STORE_SECRET, counter, experiment, store
from e2e.install import OPERATOR_PODS, RELEASE
from e2e.kubernetes import Kubernetes, eventually
from e2e.person import Person
from podtune.cli import main as cli
from podtune.cli.errors import ExitStatus

Examine = Callable[..., tuple[int, dict[str, tuple[str, str]]]]


@pytest.fixture
def examine(cluster: Cluster, namespace: Kubernetes, capsys: pytest.CaptureFixture[str]) -> Examine:
    """Runs the command; gives the exit code, and what is said of each subject."""

    def run(*words: str) -> tuple[int, dict[str, tuple[str, str]]]:
        options = ["-n", namespace.namespace, "--endpoint", cluster.s3.endpoint, "-o", "json"]
        code = cli.main(["doctor", *words, *options])
        items = json.loads(capsys.readouterr().out)["items"]
        return code, {item["subject"]: (item["state"], item["message"]) for item in items}

    return run


def test_a_healthy_installation_is_well_and_a_missing_secret_is_named(
    cluster: Cluster, namespace: Kubernetes, examine: Examine
) -> None:
    namespace.apply(experiment("looked-at", counter(), checkpoints={"store": store(cluster)}, suspend=True))
    code, said = examine("looked-at")
    assert code == ExitStatus.DONE, said
    assert {subject for subject, (state, _) in said.items() if state == "ok"} >= {
        *("clocks", "definitions", "operator", "leader", "results service", "operator's rights", "your rights"),
        *("store of looked-at", "quota"),
    }, said
    namespace.kubectl("delete", "secret", STORE_SECRET)
    code, said = examine("looked-at")
    assert code == ExitStatus.FAILED
    state, message = said["store of looked-at"]
    assert (state, STORE_SECRET in message) == ("problem", True)


def test_stores_quotas_and_rights_that_are_wrong_are_named(
    cluster: Cluster, namespace: Kubernetes, examine: Examine, tmp_path: Path
) -> None:
    wrong_key = {"accessKeyID": cluster.s3.access_key, "secretAccessKey": "wrong"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "wrong"}, "stringData": wrong_key}
    stores: dict[str, Any] = {"no-bucket": {"bucket": "nowhere"}, "wrong-key": {"credentialsSecret": "wrong"}}
    held = [
        experiment(name, counter(), checkpoints={"store": store(cluster, **changes)}, suspend=True)
        for name, changes in stores.items()
    ]
    namespace.apply(secret, *held)
    _, said = examine()
    for subject, words in (
        ("store of no-bucket", "bucket 'nowhere' at"),
        ("store of wrong-key", "the credentials"),
    ):
        assert said[subject][0] == "problem", said
        assert words in said[subject][1]

    namespace.kubectl("create", "quota", "full", "--hard=pods=0")
    eventually(
        lambda: examine()[1]["quota"],
        lambda told: told[0] == "problem" and "ResourceQuota full is full" in told[1],
        what="the quota is full",
    )
    viewer = Person(cluster, namespace, "view", tmp_path)
    _, said = examine("--kubeconfig", str(viewer.kubeconfig))
    assert said["your rights"][0] == "problem"
    assert "you may not create and patch experiments" in said["your rights"][1]
    assert said["operator's rights"][0] == "unknown"


def test_images_volumes_and_names_that_are_missing_are_named(
    cluster: Cluster, namespace: Kubernetes, examine: Examine
) -> None:
    mount: dict[str, Any] = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    no_volume = experiment("no-volume", counter(**mount), search={"maxTrials": 1})
    volumes = [{"name": "data", "secret": {"secretName": "nowhere"}}]
    no_volume["spec"]["trialTemplate"]["spec"]["volumes"] = volumes
    unknown = {"store": store(cluster, endpoint="http://nowhere.invalid:9000"), "drain": "1s"}  # it can't store any
    waits = counter({"HOLD_AT": "2"})
    namespace.apply(
        no_volume,
        experiment("no-image", counter(image="localhost/nowhere:1"), search={"maxTrials": 1}),
        experiment("no-name", waits, checkpoints=unknown, search={"maxTrials": 1}),
    )
    events = f"Events of pods in {namespace.namespace}"

    _, said = eventually(
        examine,
        lambda answer: answer[1]["images"][0] == answer[1]["store of no-name"][0] == "problem" and events in answer[1],
        what="Kubernetes tells of image and volume, and an agent of the store",
    )

    assert "localhost/nowhere:1 can't be pulled" in said["images"][1]
    assert said[events][0] == "problem"
    assert 'FailedMount of Pod no-volume-0-1: MountVolume.SetUp failed for volume "data"' in said[events][1]
    assert 'secret "nowhere" not found; create what it names' in said[events][1]
    unresolved = "the name nowhere.invalid does not resolve; correct checkpoints.store.endpoint"
    assert said["store of no-name"][1].startswith("an agent says Unreachable: ")
    assert unresolved in said["store of no-name"][1]


@pytest.mark.alone
@pytest.mark.long
def test_a_cluster_without_dns_is_named(cluster: Cluster, namespace: Kubernetes, examine: Examine) -> None:
    """An agent that starts meanwhile can't find the operator."""
    if not isinstance(cluster, NativeCluster):
        pytest.skip("DNS of a cluster in Docker is not taken away")
    cluster.kill_component(control_plane.DNS)
    try:
        namespace.apply(experiment("unheard", counter({"HOLD_AT": "2"}), search={"maxTrials": 1}))
        code, said = eventually(
            examine, lambda answer: answer[1]["DNS"][0] == "problem", what="an agent has not found the operator"
        )
    finally:
        cluster.start_component(control_plane.DNS)
    assert code == ExitStatus.FAILED
    assert said["DNS"][1].startswith("the agent of pod unheard-0-1 can't resolve the operator's name (")
    assert "look at the cluster's DNS, and whether a NetworkPolicy" in said["DNS"][1]


@pytest.mark.alone
@pytest.mark.long
def test_an_operator_that_is_gone_is_named(operator: Kubernetes, examine: Examine) -> None:
    with scaled_to_nothing(operator, f"deployment/{RELEASE}", OPERATOR_PODS):
        code, said = examine()
    assert code == ExitStatus.FAILED
    assert said["operator"][0] == said["leader"][0] == said["results service"][0] == "problem"
    assert "install the chart podtune, or give --operator-namespace" in said["operator"][1]
    assert "nothing is decided; look at the operator's log" in said["leader"][1]
