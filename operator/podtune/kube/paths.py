"""Paths on the API server: the only place that builds them, from checked and quoted names.

A name that came from a user must not lead to another path. HTTP clients resolve `..`, and treat what follows `?` as a
query. So an invalid name makes no path, and an invalid path is not sent.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from podtune.api.names import (
    EXPERIMENT_KIND,
    EXPERIMENT_PLURAL,
    GROUP,
    OBJECT_NAME,
    TRIAL_KIND,
    TRIAL_PLURAL,
    VERSION,
)

__all__ = [
    "ACCESS_REVIEWS",
    "KINDS",
    "NAMESPACES",
    "POLICY_BINDINGS",
    "SELF_ACCESS_REVIEWS",
    "SERVER_VERSION",
    "TOKEN_REVIEWS",
    "PathError",
    "check_path",
    "claim",
    "claims",
    "cluster_role",
    "cluster_roles",
    "config_map",
    "config_maps",
    "controller_revision",
    "controller_revisions",
    "core_events",
    "definition",
    "events",
    "eviction_of",
    "exec_in",
    "experiment",
    "experiments",
    "lease",
    "leases",
    "log_of",
    "name_in",
    "namespace",
    "pod",
    "pods",
    "resource_quotas",
    "role_binding",
    "role_bindings",
    "secret",
    "secrets",
    "services",
    "status_of",
    "trial",
    "trials",
]

_MAX_NAME = 253
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SELF_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
NAMESPACES = "/api/v1/namespaces"
POLICY_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
SERVER_VERSION = "/version"
KINDS = {
    EXPERIMENT_PLURAL: EXPERIMENT_KIND,
    TRIAL_PLURAL: TRIAL_KIND,
    "pods": "Pod",
    "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "configmaps": "ConfigMap",
    "controllerrevisions": "ControllerRevision",
    "secrets": "Secret",
    "leases": "Lease",
    "clusterroles": "ClusterRole",
    "rolebindings": "RoleBinding",
}
"""The kind of the objects of each collection that single ones are read of."""

_CORE = "/api/v1"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_OWN = f"/apis/{GROUP}/{VERSION}"
_NAME = re.compile(OBJECT_NAME)
_PATH = re.compile("(/[A-Za-z0-9._-]+)+")


class PathError(ValueError):
    """A name can't be part of a path, or a path is none; the text shows it."""


def experiments(namespace: str = "") -> str:
    """All Experiments, of one namespace or of all."""
    return _build_collection(_OWN, namespace, EXPERIMENT_PLURAL)


def experiment(namespace: str, name: str) -> str:
    """One Experiment."""
    return name_in(experiments(_require_given(namespace)), name)


def trials(namespace: str = "") -> str:
    """All Trials, of one namespace or of all."""
    return _build_collection(_OWN, namespace, TRIAL_PLURAL)


def trial(namespace: str, name: str) -> str:
    """One Trial."""
    return name_in(trials(_require_given(namespace)), name)


def pods(namespace: str = "") -> str:
    """All pods, of one namespace or of all."""
    return _build_collection(_CORE, namespace, "pods")


def pod(namespace: str, name: str) -> str:
    """One pod."""
    return name_in(pods(_require_given(namespace)), name)


def services(namespace: str) -> str:
    """Services of a namespace."""
    return _build_collection(_CORE, _require_given(namespace), "services")


def claims(namespace: str) -> str:
    """PersistentVolumeClaims of a namespace."""
    return _build_collection(_CORE, _require_given(namespace), "persistentvolumeclaims")


def claim(namespace: str, name: str) -> str:
    """One PersistentVolumeClaim."""
    return name_in(claims(namespace), name)


def config_maps(namespace: str) -> str:
    """ConfigMaps of a namespace."""
    return _build_collection(_CORE, _require_given(namespace), "configmaps")


def config_map(namespace: str, name: str) -> str:
    """One ConfigMap."""
    return name_in(config_maps(namespace), name)


def controller_revisions(namespace: str) -> str:
    """ControllerRevisions of a namespace."""
    return _build_collection("/apis/apps/v1", _require_given(namespace), "controllerrevisions")


def controller_revision(namespace: str, name: str) -> str:
    """One ControllerRevision."""
    return name_in(controller_revisions(namespace), name)


def secrets(namespace: str) -> str:
    """Secrets of a namespace."""
    return _build_collection(_CORE, _require_given(namespace), "secrets")


def secret(namespace: str, name: str) -> str:
    """One Secret."""
    return name_in(secrets(namespace), name)


def events(namespace: str) -> str:
    """Events of a namespace."""
    return _build_collection("/apis/events.k8s.io/v1", _require_given(namespace), "events")


def event(namespace: str, name: str) -> str:
    """One Event."""
    return name_in(events(namespace), name)


def core_events(namespace: str) -> str:
    """The same Events as the core group has them: Kubernetes' role `view` may list those, and not the others."""
    return _build_collection(_CORE, _require_given(namespace), "events")


def leases(namespace: str) -> str:
    """Leases of a namespace."""
    return _build_collection("/apis/coordination.k8s.io/v1", _require_given(namespace), "leases")


def lease(namespace: str, name: str) -> str:
    """One Lease."""
    return name_in(leases(namespace), name)


def resource_quotas(namespace: str) -> str:
    """ResourceQuotas of a namespace."""
    return _build_collection(_CORE, _require_given(namespace), "resourcequotas")


def namespace(name: str) -> str:
    """One namespace."""
    return name_in(NAMESPACES, name)


def cluster_roles() -> str:
    """All ClusterRoles."""
    return f"{_RBAC}/clusterroles"


def cluster_role(name: str) -> str:
    """One ClusterRole."""
    return name_in(cluster_roles(), name)


def role_bindings(namespace: str) -> str:
    """RoleBindings of a namespace."""
    return _build_collection(_RBAC, _require_given(namespace), "rolebindings")


def role_binding(namespace: str, name: str) -> str:
    """One RoleBinding."""
    return name_in(role_bindings(namespace), name)


def definition(name: str) -> str:
    """One CustomResourceDefinition."""
    return name_in("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", name)


def name_in(collection: str, name: str) -> str:
    """One object of a collection.

    Raises:
        PathError: It can't be the name of an object.
    """
    return f"{collection}/{_check(name)}"


def status_of(path: str) -> str:
    """The status of an object."""
    return f"{path}/status"


def log_of(pod_path: str) -> str:
    """The log of a pod."""
    return f"{pod_path}/log"


def eviction_of(pod_path: str) -> str:
    """Where a pod's eviction is asked for."""
    return f"{pod_path}/eviction"


def exec_in(pod_path: str) -> str:
    """Where processes are started in a pod."""
    return f"{pod_path}/exec"


def check_path(path: str) -> str:
    """Returns a path as it is, looked at right before it is sent, whoever has made it.

    Raises:
        PathError: It has empty, `.` or `..` segments, a query, a fragment, or characters that no path of ours has.
    """
    if not _PATH.fullmatch(path) or any(segment in (".", "..") for segment in path.split("/")):
        raise PathError(f"{path!r:.200} is not a path on the API server; it is not sent")
    return path


def _build_collection(api: str, namespace: str, plural: str) -> str:
    return f"{api}/namespaces/{_check(namespace)}/{plural}" if namespace else f"{api}/{plural}"


def _require_given(namespace: str) -> str:
    """A namespace that must not be left out: what is one object's place in a namespace is a collection without."""
    return namespace or _check(namespace)


def _check(name: str) -> str:
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        raise PathError(f"{name!r:.100} can't be a name; names have lowercase letters, digits, - and .")
    return quote(name, safe="")
