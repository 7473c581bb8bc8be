"""`kubectl podtune doctor` on the local cluster: it is well, and then it lacks a Secret."""

from __future__ import annotations

import json

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import STORE_SECRET, counter, experiment, store
from e2e.kubernetes import Kubernetes
from podtune.cli import main as cli
from podtune.cli.errors import ExitStatus


def examine(
    cluster: Cluster, namespace: Kubernetes, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit code, and what is said of each subject."""
    words = ["doctor", "looked-at", "-n", namespace.namespace, "--endpoint", cluster.s3.endpoint, "-o", "json"]
    code = cli.main(words)
    items = json.loads(capsys.readouterr().out)["items"]
    return code, {item["subject"]: (item["state"], item["message"]) for item in items}


def test_a_healthy_installation_is_well_and_a_missing_secret_is_named(
    cluster: Cluster, namespace: Kubernetes, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace.apply(experiment("looked-at", counter(), checkpoints={"store": store(cluster)}, suspend=True))
    code, said = examine(cluster, namespace, capsys)
    assert code == ExitStatus.DONE, said
    assert {subject for subject, (state, _) in said.items() if state == "ok"} >= {
        *("clocks", "definitions", "operator", "leader", "results service", "operator's rights", "your rights"),
        *("store of looked-at", "quota"),
    }, said
    namespace.kubectl("delete", "secret", STORE_SECRET)
    code, said = examine(cluster, namespace, capsys)
    assert code == ExitStatus.FAILED
    state, message = said["store of looked-at"]
    assert (state, STORE_SECRET in message) == ("problem", True)
