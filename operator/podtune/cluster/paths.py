"""Where things are on the API server."""

from __future__ import annotations

from podtune.api.names import EXPERIMENT_PLURAL, GROUP, TRIAL_PLURAL, VERSION

_RESOURCES = f"/apis/{GROUP}/{VERSION}"


def experiments(namespace: str = "") -> str:
    """All Experiments, of one namespace or of all."""
    return _collection(_RESOURCES, namespace, EXPERIMENT_PLURAL)


def trials(namespace: str = "") -> str:
    """All Trials, of one namespace or of all."""
    return _collection(_RESOURCES, namespace, TRIAL_PLURAL)


def pods(namespace: str = "") -> str:
    """All pods, of one namespace or of all."""
    return _collection("/api/v1", namespace, "pods")


def services(namespace: str) -> str:
    """Services of a namespace."""
    return _collection("/api/v1", namespace, "services")


def claims(namespace: str) -> str:
    """PersistentVolumeClaims of a namespace."""
    return _collection("/api/v1", namespace, "persistentvolumeclaims")


def config_maps(namespace: str) -> str:
    """ConfigMaps of a namespace."""
    return _collection("/api/v1", namespace, "configmaps")


def events(namespace: str) -> str:
    """Events of a namespace."""
    return _collection("/apis/events.k8s.io/v1", namespace, "events")


def leases(namespace: str) -> str:
    """Leases of a namespace."""
    return _collection("/apis/coordination.k8s.io/v1", namespace, "leases")


TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def _collection(api: str, namespace: str, plural: str) -> str:
    return f"{api}/namespaces/{namespace}/{plural}" if namespace else f"{api}/{plural}"
