"""A namespace of a known name, for what is set up for it and for what is measured there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.devcluster import Cluster
from e2e.kubernetes import Kubernetes


@contextmanager
def fresh_namespace(cluster: Cluster, name: str) -> Iterator[Kubernetes]:
    """A namespace with nothing in it, which is gone afterwards: its end costs what is measured next nothing."""
    _remove(cluster, name)
    cluster.kubectl("create", "namespace", name)
    try:
        yield Kubernetes(cluster, name)
    finally:
        _remove(cluster, name)


def _remove(cluster: Cluster, name: str) -> None:
    cluster.kubectl("delete", "namespace", name, "--ignore-not-found", "--timeout=300s", timeout=310)
