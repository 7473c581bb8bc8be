"""Prometheus scrapes the operator that is installed, while a bucket is away, and then the operator itself."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.devcluster import Cluster
from e2e.devcluster.building import prometheus
from e2e.devcluster.errors import ClusterError
from e2e.disruptions import scaled_to_nothing
from e2e.experiments import counter, experiment, store
from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS, RELEASE
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.tests.monitoring.dashboard_queries import list_unanswered
from e2e.tests.monitoring.prometheus_server import PrometheusServer, ScrapeTls, running_prometheus
from e2e.trials import EXPERIMENTS, let_go_on

pytestmark = [pytest.mark.alone, pytest.mark.long]

READER = "e2e-metrics-reader"
ROLE = f"{OPERATOR_NAMESPACE}-{RELEASE}-metrics-reader"
PORT = 8444
NO_GPU: Object = {"requests": {"cpu": "10m", "memory": "32Mi"}}
ABSENT = ("podtune_storage_jobs", "podtune_trials_not_storing{", "podtune_webhook", "podtune_experiment_problems")
"""What has no series while nothing is wrong, or without receivers."""


@pytest.fixture
def token(cluster: Cluster, operator: Kubernetes) -> Iterator[str]:
    """That of an account that may read metrics, and nothing else."""
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": READER}}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE}
    subject = {"kind": "ServiceAccount", "name": READER, "namespace": OPERATOR_NAMESPACE}
    operator.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": READER}},
        {**rbac, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
    )
    yield operator.kubectl("create", "token", READER).strip()
    operator.kubectl("delete", "serviceaccount", READER)
    cluster.kubectl("delete", "clusterrolebinding", READER)


@pytest.fixture
def server(operator: Kubernetes, token: str, tmp_path: Path) -> Iterator[PrometheusServer]:
    try:
        prometheus.ensure()
    except ClusterError as error:
        pytest.skip(str(error))
    (tmp_path / "token").write_text(token)
    authority = tmp_path / "ca.crt"
    secret = operator.get("secrets", f"{RELEASE}-results-tls")
    authority.write_bytes(base64.b64decode(secret["data"]["ca.crt"]))
    tls = ScrapeTls(authority, f"{RELEASE}-results.{OPERATOR_NAMESPACE}.svc")
    address = operator.list("pods", OPERATOR_PODS)[0]["status"]["podIP"]
    with running_prometheus(tmp_path, [f"{address}:{PORT}"], tmp_path / "token", tls) as server:
        yield server


def test_alerts_fire_where_the_bucket_is_away_and_where_the_operator_is(
    cluster: Cluster, operator: Kubernetes, namespace: Kubernetes, server: PrometheusServer
) -> None:
    container = counter({"EPOCHS": "200", "HOLD_AT": "200", "EPOCH_SECONDS": "0.5"}, resources=NO_GPU)
    namespace.apply(experiment("scraped", container, checkpoints={"store": store(cluster)}))
    running = f'podtune_trials{{namespace="{namespace.namespace}",experiment="scraped",state="running"}} == 2'
    eventually(lambda: server.query(running), what="both trials run, as Prometheus sees it")
    assert [target["lastError"] for target in server.list_targets()] == [""]
    eventually(lambda: list_unanswered(server, ABSENT), lambda empty: not empty, what="every query is answered")
    with scaled_to_nothing(Kubernetes(cluster, "s3"), "deployment/s3", "app=s3"):
        eventually(server.list_firing, lambda firing: "PodtuneStoreUnusable" in firing)
    eventually(server.list_firing, lambda firing: "PodtuneStoreUnusable" not in firing)
    with scaled_to_nothing(operator, f"deployment/{RELEASE}", OPERATOR_PODS):
        eventually(server.list_firing, lambda firing: "PodtuneDown" in firing)
    let_go_on(namespace)
    namespace.wait_for_condition(EXPERIMENTS, "scraped", "Complete")
