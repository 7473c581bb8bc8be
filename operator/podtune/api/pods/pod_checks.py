"""The checks that tables of pod fields are made of: each looks at a value and its path.

Tables are data: `podtune.api.pods.fields_in_cel` writes the same checks for the API server. So a check that refuses
values by a condition says it in CEL, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podtune.api.base import FieldError
from podtune.api.suggestions import did_you_mean

Check = Callable[[Any, str], None]
"""Looks at a value and its path below the pod's spec; raises FieldError when it is not allowed."""

NO_MAP = "is not a map; write fields below it"
NO_LIST = "is not a list; write each entry with a dash"
UNSAFE_FIELDS = frozenset(
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


@dataclass(frozen=True, slots=True)
class AllowFields:
    """An object of these fields and no others."""

    allowed: Mapping[str, Check]

    def __call__(self, value: Any, path: str) -> None:
        """Checks the object, and what is below it."""
        if not isinstance(value, Mapping):
            raise FieldError(path, f"{show_value(value)} {NO_MAP}")
        for name, entry in value.items():
            below = f"{path}.{name}" if path else str(name)
            if name not in self.allowed and name in UNSAFE_FIELDS:
                raise FieldError(below, f"{show_value(entry)} is not allowed in a trial's pod; remove the field")
            if name not in self.allowed:
                remedy = did_you_mean(str(name), self.allowed) or "remove it"
                raise FieldError(below, f"{show_value(entry)} is set in a field that does not exist; {remedy}")
            if entry is not None:
                self.allowed[name](entry, below)


@dataclass(frozen=True, slots=True)
class CheckEach:
    """A list of such items."""

    item: Check

    def __call__(self, value: Any, path: str) -> None:
        """Checks one item after the other."""
        if not isinstance(value, list):
            raise FieldError(path, f"{show_value(value)} {NO_LIST}")
        for position, entry in enumerate(value):
            self.item(entry, f"{path}[{position}]")


@dataclass(frozen=True, slots=True)
class CheckAll:
    """Several checks of one value, in this order."""

    checks: Sequence[Check]

    def __call__(self, value: Any, path: str) -> None:
        """Checks the value by each of them."""
        for check in self.checks:
            check(value, path)


@dataclass(frozen=True, slots=True)
class Refuse:
    """Refuses values by a condition.

    Attributes:
        condition: Whether a value is refused.
        cel: The same of `value`, in CEL.
        words: What is wrong, and the remedy; they follow the value.
    """

    condition: Callable[[Any], bool]
    cel: str
    words: str

    def __call__(self, value: Any, path: str) -> None:
        """Checks the value."""
        if self.condition(value):
            raise FieldError(path, f"{show_value(value)} {self.words}")


@dataclass(frozen=True, slots=True)
class AskAdministrator:
    """A field that the administrator's lists decide about.

    Attributes:
        check: The check by the lists. The chart writes it in CEL, as the lists are its values.
        form: What holds of the field, whatever the lists say.
    """

    check: Check
    form: Check = allow_anything

    def __call__(self, value: Any, path: str) -> None:
        """Checks the form, and asks the lists."""
        self.form(value, path)
        self.check(value, path)


def allow_fields(allowed: Mapping[str, Check]) -> Check:
    """An object of these fields and no others."""
    return AllowFields(allowed)


def check_each(item: Check) -> Check:
    """A list of such items."""
    return CheckEach(item)


def allow_only(value: bool | str) -> Check:
    """A field that may be left out or say one thing."""
    return Refuse(
        lambda found: found != value or type(found) is not type(value),
        f"value != {write_literal(value)}",
        f"is not allowed; leave it out or write {show_value(value)}",
    )


def allow_one_of(allowed: Collection[str], remedy: str) -> Check:
    """A field that may be left out or say one of these."""
    choices = ", ".join(map(write_literal, allowed))
    return Refuse(
        lambda value: value not in allowed, f"!(value in [{choices}])", f"is not allowed; leave it out ({remedy})"
    )


def forbid(why: str) -> Check:
    """A field that may be left out or be empty."""
    empty = ", ".join(f"dyn({nothing})" for nothing in ("[]", "{}", '""', "0", "false"))
    return Refuse(bool, f"!(value in [{empty}])", f"is not allowed; remove it, {why}")


def write_literal(value: bool | str) -> str:
    """A value in CEL."""
    return json.dumps(value, ensure_ascii=False)


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
