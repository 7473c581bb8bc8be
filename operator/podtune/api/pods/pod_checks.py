"""The checks that tables of pod fields are made of: each looks at a value and its path."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from podtune.api.base import FieldError
from podtune.api.suggestions import did_you_mean

Check = Callable[[Any, str], None]
"""Looks at a value and its path below the pod's spec; raises FieldError when it is not allowed."""

_REFUSED = frozenset(
    {
        *(
            "activeDeadlineSeconds",
            "ephemeralContainers",
            "evictionRequest",
            "hostname",
            "hostnameOverride",
            "nodeName",
        ),
        *("overhead", "priority", "readinessGates", "schedulingGroup", "serviceAccount", "setHostnameAsFQDN"),
        *("subdomain", "workloadRef", "serviceAccountName", "dnsConfig", "dnsPolicy", "hostAliases", "tolerations"),
        *("priorityClassName", "restartPolicy", "restartPolicyRules", "stdin", "stdinOnce", "tty", "volumeDevices"),
        *("mountPropagation", "fileKeyRef", "host", "http", "procMount", "seLinuxOptions", "windowsOptions"),
        *("seLinuxChangePolicy", "sysctls", "serviceAccountToken", "clusterTrustBundle", "podCertificate"),
        *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker"),
        *("gcePersistentDisk", "gitRepo", "glusterfs", "hostPath", "image", "iscsi", "nfs", "photonPersistentDisk"),
        *("portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume", "hostPort", "hostIP"),
    }
)
"""Fields that Kubernetes has and a trial's pod may not use, at least in some places; any other does not exist."""


def allow_anything(value: Any, path: str) -> None:
    """A field that is harmless whatever it says; the API server checks its form when the pod is made."""


def allow_fields(allowed: Mapping[str, Check]) -> Check:
    """An object of these fields and no others."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, Mapping):
            raise FieldError(path, f"{show_value(value)} is not a map; write fields below it")
        for name, entry in value.items():
            below = f"{path}.{name}" if path else str(name)
            if name not in allowed and name in _REFUSED:
                raise FieldError(below, f"{show_value(entry)} is not allowed in a trial's pod; remove the field")
            if name not in allowed:
                remedy = did_you_mean(str(name), allowed) or "remove it"
                raise FieldError(below, f"{show_value(entry)} is set in a field that does not exist; {remedy}")
            if entry is not None:
                allowed[name](entry, below)

    return check


def check_each(item: Check) -> Check:
    """A list of such items."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise FieldError(path, f"{show_value(value)} is not a list; write each entry with a dash")
        for position, entry in enumerate(value):
            item(entry, f"{path}[{position}]")

    return check


def allow_only(value: Any) -> Check:
    """A field that may be left out or say one thing."""

    def check(found: Any, path: str) -> None:
        if found != value or type(found) is not type(value):
            raise FieldError(path, f"{show_value(found)} is not allowed; leave it out or write {show_value(value)}")

    return check


def allow_one_of(allowed: Collection[str], remedy: str) -> Check:
    """A field that may be left out or say one of these."""

    def check(value: Any, path: str) -> None:
        if value not in allowed:
            raise FieldError(path, f"{show_value(value)} is not allowed; leave it out ({remedy})")

    return check


def forbid(why: str) -> Check:
    """A field that may be left out or be empty."""

    def check(value: Any, path: str) -> None:
        if value:
            raise FieldError(path, f"{show_value(value)} is not allowed; remove it, {why}")

    return check


def show_value(value: Any) -> str:
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
