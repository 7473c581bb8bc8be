"""`kubectl podtune conformance` on the local cluster, which has to pass."""

from __future__ import annotations

import json
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import STORE_SECRET
from e2e.kubernetes import Kubernetes, eventually
from podtune.cli import main as cli
from podtune.cli.commands.conformance.catalog import CHECKS
from podtune.cli.errors import ExitStatus


def run_checks(namespace: str, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    """Runs the command, and holds it to a good end; gives its report."""
    code = cli.main(["conformance", "--run-in", namespace, "-o", "json", *options])
    written = capsys.readouterr()
    report: dict[str, Any] = json.loads(written.out)
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert (code, set(states.values())) == (ExitStatus.DONE, {"passed"}), written.out + written.err
    return report


def test_a_full_quota_passes(cluster: Cluster, namespace: Kubernetes, capsys: pytest.CaptureFixture[str]) -> None:
    """The check that needs least."""
    made = f"{namespace.namespace}-checks"
    run_checks(made, capsys, "--only", "quota")
    assert made not in list_namespaces(cluster)


@pytest.mark.every_version
@pytest.mark.long
@pytest.mark.alone
def test_the_local_cluster_survives_all_failures(
    cluster: Cluster, namespace: Kubernetes, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made, file = f"{namespace.namespace}-checks", tmp_path / "report.xml"
    prefix = f"e2e/{namespace.namespace}"
    store = ("--store", f"s3://{cluster.s3.bucket}/{prefix}", "--endpoint", cluster.s3.cluster_endpoint)
    secret = ("--secret", f"{namespace.namespace}/{STORE_SECRET}")
    report = run_checks(made, capsys, *store, *secret, "--junit", str(file))
    assert [check["name"] for check in report["checks"]] == [check.name for check in CHECKS]
    print(json.dumps({check["name"]: check["seconds"] for check in report["checks"]}))
    assert report["kubernetesVersion"].startswith("v1.")
    assert len(list(xml.parse(file).iter("testcase"))) == len(CHECKS)
    assert made not in list_namespaces(cluster)
    eventually(lambda: not cluster.s3_client.list(f"{prefix}/"), what="nothing is left in the bucket")


def list_namespaces(cluster: Cluster) -> list[str]:
    return cluster.kubectl("get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}").split()
