"""A real Kubernetes for the tests: on this machine without Docker, or kind where Docker runs.

From a shell: ``python -m e2e.devcluster up|down|status|env|kubectl …``. From Python::

    from e2e.devcluster import Cluster

    cluster = Cluster.connect()
    cluster.run(["kubectl", "get", "pods"])

The package uses the standard library only: it has to run before any virtual environment exists.
"""

from e2e.devcluster.cluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.node.storage import S3Access

__all__ = ["Cluster", "ClusterError", "S3Access"]
