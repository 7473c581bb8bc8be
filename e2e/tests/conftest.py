"""What every test of the whole product has: the cluster with the operator on it, and a namespace of its own."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import STORE_SECRET
from e2e.install import OPERATOR_NAMESPACE
from e2e.kubernetes import Kubernetes
from e2e.namespaces import create_namespace


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives the tests here time for several of their deadlines, which are long, and has the longest begin first."""
    items.sort(key=lambda item: item.get_closest_marker("first") is None)
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(1200))


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return Cluster.connect()


@pytest.fixture(scope="session")
def operator(cluster: Cluster) -> Kubernetes:
    """The operator's own namespace."""
    return Kubernetes(cluster, OPERATOR_NAMESPACE)


def make_namespace(cluster: Cluster, *, secret: bool = True) -> Kubernetes:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubernetes = create_namespace(cluster, f"e2e-{uuid.uuid4().hex[:8]}", labels)
    if secret:
        kubernetes.apply(store_secret(cluster.s3.access_key, cluster.s3.secret_key))
    return kubernetes


def store_secret(access_key: str, secret_key: str) -> dict[str, object]:
    data = {"accessKeyID": access_key, "secretAccessKey": secret_key}
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": STORE_SECRET}, "data": encoded}


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Kubernetes]:
    """A namespace under Pod Security "restricted", with the bucket's credentials; what happened is shown on failure."""
    kubernetes = make_namespace(cluster)
    failures = request.session.testsfailed
    yield kubernetes
    if request.session.testsfailed > failures:
        print(kubernetes.kubectl("get", "experiments.podtune.dev,trials.podtune.dev,pods", "-o", "wide"))
        print(kubernetes.kubectl("get", "events", "--sort-by=.lastTimestamp")[-4000:])
    cluster.kubectl("delete", "namespace", kubernetes.namespace, "--wait=false", "--ignore-not-found")


@pytest.fixture(scope="session")
def programs() -> Path:
    return Path(__file__).parent.parent / "programs"
