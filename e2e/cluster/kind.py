"""The same cluster as containers, with kind, where Docker runs."""

from __future__ import annotations

from e2e.cluster.cluster import Cluster


class KindCluster(Cluster):
    """See `Cluster`."""

    mode = "kind"
