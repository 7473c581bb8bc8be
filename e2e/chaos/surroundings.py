"""What a campaign needs of the cluster: fake nodes, and that no other operator serves its namespaces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.cluster import Cluster
from e2e.cluster.errors import ClusterError
from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS, RELEASE
from e2e.kubernetes import Kubernetes, eventually

AS_IT_IS = "PODTUNE_CHAOS_AS_IT_IS"
"""Set: KUBECONFIG is of a cluster with a node labelled podtune.dev/role=fake, and without an operator."""


@contextmanager
def prepared() -> Iterator[None]:
    """The local cluster is ready for faults while the context lasts."""
    if os.environ.get(AS_IT_IS):
        yield
        return
    cluster = Cluster.connect()
    operator = Kubernetes(cluster, OPERATOR_NAMESPACE)
    cluster.add_kwok_nodes(2)
    try:
        with _without_operator(operator):
            yield
    finally:
        cluster.remove_kwok_nodes()


@contextmanager
def _without_operator(operator: Kubernetes) -> Iterator[None]:
    """The installed operator is away: it serves all namespaces."""
    deployment = f"deployment/{RELEASE}"
    try:
        operator.kubectl("scale", deployment, "--replicas=0")
    except ClusterError:
        yield  # it is not installed
        return
    try:
        eventually(lambda: operator.list("pods", OPERATOR_PODS), lambda pods: not pods, what="the operator is gone")
        yield
    finally:
        operator.kubectl("scale", deployment, "--replicas=1")
        operator.kubectl("rollout", "status", deployment, "--timeout=60s")
