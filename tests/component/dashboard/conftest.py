from tests.component.cluster.conftest import client, namespace

__all__ = ["client", "namespace"]
