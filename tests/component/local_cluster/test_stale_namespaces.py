"""What a killed test run leaves on the local cluster is cleared away; what a living one uses is left alone."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import yaml

from e2e.devcluster import Cluster
from e2e.devcluster.building.images import BUSYBOX
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.namespaces import create_namespace, remove_stale

pytestmark = pytest.mark.cluster

_MAKE = """
import sys
from e2e.devcluster import Cluster
from e2e.namespaces import create_namespace
create_namespace(Cluster.connect(), sys.argv[1])
print("made", flush=True)
sys.stdin.read()
"""
"""A test run that has made a namespace, and goes on until it is killed."""


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.connect()


def a_pod_that_takes_its_time() -> Object:
    script = "trap '' TERM; while true; do sleep 1; done"
    container = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", script]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 600}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "slow"}, "spec": spec}


def an_experiment_that_waits_for_its_operator() -> Object:
    """It starts nothing, and has a finalizer that nobody takes off."""
    manifest: Object = yaml.safe_load((Path(__file__).parents[1] / "api" / "good.yaml").read_text())
    manifest["metadata"]["finalizers"] = ["podtune.dev/nobody-takes-it-off"]
    manifest["spec"]["suspend"] = True
    return manifest


def test_the_namespaces_of_a_killed_run_are_removed_with_all_that_holds_them(cluster: Cluster) -> None:
    name, own = f"stale-{uuid.uuid4().hex[:8]}", f"living-{uuid.uuid4().hex[:8]}"
    create_namespace(cluster, own)
    run = subprocess.Popen([sys.executable, "-c", _MAKE, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        with run:
            assert run.stdout is not None
            assert run.stdout.readline() == b"made\n"
            stale = Kubernetes(cluster, name)
            stale.apply(a_pod_that_takes_its_time(), an_experiment_that_waits_for_its_operator())
            eventually(lambda: stale.get("pod", "slow")["status"]["phase"] == "Running", what="the pod runs")

            assert name not in remove_stale(cluster), "the run is still going on"
            assert cluster.kubectl("get", "namespace", name, "-o", "jsonpath={.status.phase}") == "Active"
            run.kill()

        assert name in remove_stale(cluster)
        assert not cluster.kubectl("get", "namespace", name, "--ignore-not-found", "-o", "name")
        assert cluster.kubectl("get", "namespace", own, "-o", "jsonpath={.status.phase}") == "Active"
    finally:
        cluster.kubectl("delete", "namespace", own, name, "--wait=false", "--ignore-not-found")
