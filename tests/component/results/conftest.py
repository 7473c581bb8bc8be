from tests.component.cluster.conftest import client, namespace, pod

__all__ = ["client", "namespace", "pod"]
