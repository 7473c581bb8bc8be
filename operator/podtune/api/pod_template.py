"""What a trial template may say: an allow-list of pod fields, and of nothing that reaches out of the pod.

The operator creates pods in its users' namespaces with its own rights, so a field that is not known to be
harmless is refused, with the field's path and the remedy. The tables below are the list; they stay within the
Pod Security standard "baseline", and all that a pod needs for "restricted" can be said.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from podtune.api.model import FieldError
from podtune.api.names import GROUP, LABEL_MANAGED_BY
from podtune.trial.layout import DIRECTORY

AGENT_CONTAINER = "podtune-agent"
RESTORE_CONTAINER = "podtune-restore"
RESERVED_PREFIX = "podtune-"
RESERVED_VARIABLES = "PODTUNE_"
TRIAL_CONTAINER = "trial"
VARIABLE_OF_TRIAL = re.compile(r"(?<!\$)\$\(PODTUNE_(PARAM_|TRIAL|ATTEMPT|SEED)")
"""A reference that Kubernetes expands when the container starts."""

Check = Callable[[Any, str], None]
"""Looks at a value and its path below the pod's spec; raises FieldError when it is not allowed."""

_QUALIFIED_NAME = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def trial_container(spec: Mapping[str, Any]) -> str:
    """Name of the container that trains: the one named trial, or else the first."""
    names = [str(container.get("name", "")) for container in spec.get("containers", [])]
    return TRIAL_CONTAINER if TRIAL_CONTAINER in names else names[0]


def check_pod_spec(spec: Mapping[str, Any], service_accounts: Collection[str] = ()) -> None:
    """Checks a trial template's pod spec against the allow-list.

    Args:
        spec: The pod's spec, as in the manifest.
        service_accounts: Names of the service accounts that trials may run as, from the operator's settings.

    Raises:
        FieldError: A field is missing or not allowed; the error names it, its value and the remedy.
    """
    if not spec.get("containers"):
        raise FieldError("containers", "is missing or empty; name at least the container that trains")
    account = _one_of(
        service_accounts, "the operator's administrator allows accounts by its setting allowedServiceAccounts"
    )
    _fields(_POD | {"serviceAccountName": account})(spec, "")
    _check_unique_names(spec)


def check_reusable(spec: Mapping[str, Any]) -> None:
    """Checks that a pod can be given another trial: nothing that is fixed with the pod depends on the trial.

    Raises:
        FieldError: A container's command, arguments or environment refer to what differs from trial to trial.
    """
    for kind in ("containers", "initContainers"):
        for position, container in enumerate(spec.get(kind) or ()):
            for field in ("command", "args", "env"):
                if VARIABLE_OF_TRIAL.search(json.dumps(container.get(field) or [])):
                    raise FieldError(
                        f"spec.{kind}[{position}].{field}",
                        "refers to a $(PODTUNE_…) variable, which differs from trial to trial, and reuse is true; read "
                        "it in the program, by podtune.trial, or leave out reuse",
                    )


def check_secret_references(spec: Mapping[str, Any], secret: str) -> None:
    """Checks that a trial's own containers can't see the credentials of the checkpoint store.

    Raises:
        FieldError: The pod spec refers to the Secret.
    """
    for path, name in _secret_references(spec):
        if name == secret:
            raise FieldError(
                f"trialTemplate.spec.{path}",
                f"{secret!r} holds the credentials of the checkpoint store, which trials may not see; "
                "remove it, checkpoints are stored without it",
            )


def check_metadata(kind: str, entries: Mapping[str, str]) -> None:
    """Checks the keys of a trial template's labels or annotations.

    Args:
        kind: `labels` or `annotations`.
        entries: Values by key.

    Raises:
        FieldError: A key is not one, or is the operator's own.
    """
    for key in entries:
        if not _QUALIFIED_NAME.fullmatch(key):
            raise FieldError(kind, f"{key!r} is not a key; write it like team or example.com/team")
        domain = key.partition("/")[0]
        if domain == GROUP or domain.endswith(f".{GROUP}") or key == LABEL_MANAGED_BY:
            raise FieldError(kind, f"{key!r} is the operator's own; choose another key")


# --- the checks that the tables below are made of


def _anything(value: Any, path: str) -> None:
    """A field that is harmless whatever it says; the API server checks its form when the pod is made."""


def _fields(allowed: Mapping[str, Check]) -> Check:
    """An object of these fields and no others."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, Mapping):
            raise FieldError(path, f"{_shown(value)} is not a map; write fields below it")
        for name, entry in value.items():
            below = f"{path}.{name}" if path else str(name)
            if name not in allowed:
                raise FieldError(below, f"{_shown(entry)} is not allowed in a trial's pod; remove the field")
            if entry is not None:
                allowed[name](entry, below)

    return check


def _each(item: Check) -> Check:
    """A list of such items."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise FieldError(path, f"{_shown(value)} is not a list; write its entries with a dash each")
        for position, entry in enumerate(value):
            item(entry, f"{path}[{position}]")

    return check


def _only(value: Any) -> Check:
    """A field that may be left out or say one thing."""

    def check(found: Any, path: str) -> None:
        if found != value or type(found) is not type(value):
            raise FieldError(path, f"{_shown(found)} is not allowed; leave it out or write {_shown(value)}")

    return check


def _one_of(allowed: Collection[str], remedy: str) -> Check:
    def check(value: Any, path: str) -> None:
        if value not in allowed:
            raise FieldError(path, f"{_shown(value)} is not allowed; leave it out ({remedy})")

    return check


def _name(value: Any, path: str) -> None:
    if not isinstance(value, str) or not value:
        raise FieldError(path, f"{_shown(value)} is not a name; write a text")
    if value.startswith(RESERVED_PREFIX):
        raise FieldError(path, f"{value!r} begins with {RESERVED_PREFIX}, as the operator's own do; rename it")


def _variable(value: Any, path: str) -> None:
    if str(value).startswith(RESERVED_VARIABLES):
        raise FieldError(path, f"{value!r} begins with {RESERVED_VARIABLES}, as the operator's own do; rename it")


def _mount_path(value: Any, path: str) -> None:
    mounted, ours = posixpath.normpath(f"/{str(value).lstrip('/')}"), f"{DIRECTORY}/"
    if f"{mounted}/".startswith(ours) or ours.startswith(f"{mounted.rstrip('/')}/"):
        raise FieldError(
            path, f"{_shown(value)} would cover {DIRECTORY}, the operator's own volume; mount it elsewhere"
        )


def _profile(value: Any, path: str) -> None:
    _fields({"type": _one_of(("RuntimeDefault", "Localhost"), "RuntimeDefault"), "localhostProfile": _anything})(
        value, path
    )


def _gate(value: Any, path: str) -> None:
    domain = str(value).partition("/")[0]
    if domain == GROUP or domain.endswith(f".{GROUP}"):
        raise FieldError(path, f"{value!r} is the operator's own; choose another name")


def _list_of_none(value: Any, path: str) -> None:
    if value:
        raise FieldError(path, f"{_shown(value)} is not allowed; remove it, trials get no capabilities")


# --- the allow-list

_ENVIRONMENT = {
    "name": _variable,
    "value": _anything,
    "valueFrom": _fields(dict.fromkeys(("configMapKeyRef", "fieldRef", "resourceFieldRef", "secretKeyRef"), _anything)),
}
_HANDLER = {
    "exec": _anything,
    "grpc": _anything,
    "sleep": _anything,
    # No host: the kubelet would send the request, from the node's network.
    "httpGet": _fields(dict.fromkeys(("path", "port", "scheme", "httpHeaders"), _anything)),
    "tcpSocket": _fields({"port": _anything}),
}
_PROBE = _fields(
    _HANDLER
    | dict.fromkeys(
        (
            "failureThreshold",
            "initialDelaySeconds",
            "periodSeconds",
            "successThreshold",
            "terminationGracePeriodSeconds",
            "timeoutSeconds",
        ),
        _anything,
    )
)
_CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": _only(False),
    "appArmorProfile": _profile,
    "capabilities": _fields({"drop": _anything, "add": _list_of_none}),
    "privileged": _only(False),
    "readOnlyRootFilesystem": _anything,
    "runAsGroup": _anything,
    "runAsNonRoot": _anything,
    "runAsUser": _anything,
    "seccompProfile": _profile,
}
_POD_SECURITY = {
    "appArmorProfile": _profile,
    "fsGroup": _anything,
    "fsGroupChangePolicy": _anything,
    "runAsGroup": _anything,
    "runAsNonRoot": _anything,
    "runAsUser": _anything,
    "seccompProfile": _profile,
    "supplementalGroups": _anything,
    "supplementalGroupsPolicy": _anything,
}
_CONTAINER: dict[str, Check] = {
    "name": _name,
    "image": _anything,
    "imagePullPolicy": _anything,
    "command": _anything,
    "args": _anything,
    "workingDir": _anything,
    "env": _each(_fields(_ENVIRONMENT)),
    "envFrom": _each(_fields({"prefix": _variable, "configMapRef": _anything, "secretRef": _anything})),
    "ports": _each(_fields(dict.fromkeys(("name", "containerPort", "protocol"), _anything))),
    "resources": _anything,
    "resizePolicy": _anything,
    "volumeMounts": _each(
        _fields(
            {
                # The operator's volumes hold the agent's credentials.
                "name": _name,
                "mountPath": _mount_path,
                "readOnly": _anything,
                "recursiveReadOnly": _anything,
                "subPath": _anything,
                "subPathExpr": _anything,
            }
        )
    ),
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
    "lifecycle": _fields({"postStart": _fields(_HANDLER), "preStop": _fields(_HANDLER), "stopSignal": _anything}),
    "terminationMessagePath": _anything,
    "terminationMessagePolicy": _anything,
    "securityContext": _fields(_CONTAINER_SECURITY),
}
_VOLUME = _fields(
    {
        "name": _name,
        "configMap": _anything,
        "downwardAPI": _anything,
        "emptyDir": _anything,
        "ephemeral": _anything,
        "persistentVolumeClaim": _anything,
        "projected": _fields(
            {
                "defaultMode": _anything,
                # No serviceAccountToken: a trial gets no Kubernetes credentials, whatever their audience.
                "sources": _each(_fields(dict.fromkeys(("configMap", "downwardAPI", "secret"), _anything))),
            }
        ),
        "secret": _anything,
    }
)
_POD: dict[str, Check] = {
    "containers": _each(_fields(_CONTAINER)),
    # A native sidecar of the user's own is fine.
    "initContainers": _each(_fields(_CONTAINER | {"restartPolicy": _only("Always")})),
    "volumes": _each(_VOLUME),
    "restartPolicy": _only("Never"),
    "automountServiceAccountToken": _only(False),
    "hostIPC": _only(False),
    "hostNetwork": _only(False),
    "hostPID": _only(False),
    "hostUsers": _only(False),
    "shareProcessNamespace": _only(False),
    "schedulingGates": _each(_fields({"name": _gate})),
    "imagePullSecrets": _each(_fields({"name": _anything})),
    "securityContext": _fields(_POD_SECURITY),
} | dict.fromkeys(
    (
        "affinity",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "hostAliases",
        "nodeSelector",
        "os",
        "preemptionPolicy",
        "priorityClassName",
        "resourceClaims",
        "resources",
        "runtimeClassName",
        "schedulerName",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
    ),
    _anything,
)


def _check_unique_names(spec: Mapping[str, Any]) -> None:
    seen: set[str] = set()
    for kind in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(kind) or ()):
            path = f"{kind}[{position}]"
            for field in ("name", "image"):
                if not container.get(field):
                    raise FieldError(f"{path}.{field}", f"is missing; give the container its {field}")
            if container["name"] in seen:
                raise FieldError(f"{path}.name", f"{container['name']!r} stands there twice; rename one of the two")
            seen.add(container["name"])


def _secret_references(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Path and name of every Secret that the pod's spec refers to, in the fields that the allow-list lets through."""
    for kind in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(kind) or ()):
            path = f"{kind}[{position}]"
            for i, variable in enumerate(container.get("env") or ()):
                yield from _named(variable, f"{path}.env[{i}]", "valueFrom", "secretKeyRef", "name")
            for i, source in enumerate(container.get("envFrom") or ()):
                yield from _named(source, f"{path}.envFrom[{i}]", "secretRef", "name")
    for position, volume in enumerate(spec.get("volumes") or ()):
        path = f"volumes[{position}]"
        yield from _named(volume, path, "secret", "secretName")
        for i, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            yield from _named(source, f"{path}.projected.sources[{i}]", "secret", "name")
    for position, reference in enumerate(spec.get("imagePullSecrets") or ()):
        yield from _named(reference, f"imagePullSecrets[{position}]", "name")


def _named(value: Any, path: str, *fields: str) -> Iterator[tuple[str, str]]:
    for field in fields:
        value = value.get(field) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        yield ".".join((path, *fields)), value


def _shown(value: Any) -> str:
    """A value as in the manifest, shortened."""
    match value:
        case bool():
            return str(value).lower()
        case None:
            return "null"
        case Mapping() | list():
            return json.dumps(value, default=str)[:64]
        case _:
            return repr(value)[:64]
