"""Prepares the cluster for a campaign: fake nodes, and no other operator that serves its namespaces."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.devcluster import Cluster
from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS, RELEASE
from e2e.kubernetes import Kubernetes, eventually

AS_IT_IS = "PODTUNE_CHAOS_AS_IT_IS"
"""Set: KUBECONFIG is of a cluster with a fake node (see `e2e.devcluster.node.kwok`), and without an operator."""


@contextmanager
def prepared() -> Iterator[None]:
    """The local cluster is ready for faults while the context lasts, and as it was before afterwards.

    What a campaign has left behind that was killed does not matter: its processes have ended with it, the nodes are
    taken over, and its namespaces are removed by the campaign, before any operator is there.
    """
    if os.environ.get(AS_IT_IS):
        yield
        return
    cluster = Cluster.connect()
    try:
        with _without_operator(Kubernetes(cluster, OPERATOR_NAMESPACE)):
            cluster.add_kwok_nodes(2)
            yield
    finally:
        with uninterrupted():
            cluster.remove_kwok_nodes()


@contextmanager
def _without_operator(operator: Kubernetes) -> Iterator[None]:
    """The installed operator is away: it serves all namespaces."""
    deployment = f"deployment/{RELEASE}"
    if not operator.list("deployments", OPERATOR_PODS):
        yield
        return
    try:
        operator.kubectl("scale", deployment, "--replicas=0")
        eventually(lambda: operator.list("pods", OPERATOR_PODS), lambda pods: not pods, what="the operator is gone")
        yield
    finally:
        with uninterrupted():
            operator.kubectl("scale", deployment, "--replicas=1")
            operator.kubectl("rollout", "status", deployment, "--timeout=300s", timeout=330)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """SIGINT is ignored while things are put in order; those who wait for that have sent it already."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
