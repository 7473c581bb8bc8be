"""What the operator's administrator decides about trial templates.

The tables of `podtune.api.pods.pod_template` refuse what no trial ever needs. What some clusters need and others must
not allow is decided here, by lists in the operator's settings. An entry is a name, or a pattern in which * stands for
any characters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from podtune.api.base import FieldError
from podtune.api.pods.pod_checks import AskAdministrator, Check, allow_anything, allow_fields, check_each, show_value

DEFAULT_TOLERATIONS = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "habana.ai/gaudi",
    "aws.amazon.com/neuron",
    "google.com/tpu",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
)
"""Taints of nodes with accelerators, and those that say how long a pod is waited for whose node is lost."""
DEFAULT_ANNOTATION_DOMAINS = (
    "cluster-autoscaler.kubernetes.io",
    "karpenter.sh",
    "kubectl.kubernetes.io",
    "kueue.x-k8s.io",
    "prometheus.io",
)
"""Domains whose annotations queue a pod, keep it from being moved, or have it watched, and give it no rights."""

_ADMINISTRATOR = "the operator's administrator"
_SYSTEM_CLASSES = "system-"
"""Begins the names of Kubernetes' own priority classes, whose pods preempt those of everybody."""
_CLUSTER_LABEL = "svc"
"""A part of every name of a Service that has more than two."""


@dataclass(frozen=True, slots=True)
class TemplatePolicy:
    """The administrator's lists.

    Attributes:
        service_accounts: Service accounts that trials may run as, besides the default one.
        priority_classes: Priority classes that trials may have; one of the system is to be listed by its full name.
        tolerations: Taints that trials may tolerate: `key` with any value, or `key=value`.
        annotation_domains: Domains of the annotations that trials' pods may have, besides plain words such as team.
        host_aliases: Host names that trials' pods may give addresses of their own.
        images: Images that a trial's containers may have, with their registry and tag, as they are written.
        denied_secrets: Secrets that a trial's containers may not see.
        denied_claims: PersistentVolumeClaims that a trial's containers may not mount.
        results_host: Name by which agents find the operator; no trial may give it another address.
    """

    service_accounts: Collection[str] = ()
    priority_classes: Collection[str] = ()
    tolerations: Collection[str] = DEFAULT_TOLERATIONS
    annotation_domains: Collection[str] = DEFAULT_ANNOTATION_DOMAINS
    host_aliases: Collection[str] = ()
    images: Collection[str] = ("*",)
    denied_secrets: Collection[str] = ()
    denied_claims: Collection[str] = ()
    results_host: str = ""


DEFAULT_POLICY = TemplatePolicy()
UNKNOWN_POLICY = TemplatePolicy(
    service_accounts=("*",),
    priority_classes=("*",),
    tolerations=("*",),
    annotation_domains=("*",),
    host_aliases=("*",),
)
"""For who can't know the administrator's lists: whatever one of them may allow is let through."""


def is_listed(name: str, listed: Collection[str]) -> bool:
    """Whether a name, or a pattern that it matches, is in a list."""
    return any(fnmatchcase(name, entry) for entry in listed)


def build_policy_fields(policy: TemplatePolicy) -> dict[str, Check]:
    """The checks of those fields of a pod's spec that the administrator decides about."""
    return {
        "serviceAccountName": AskAdministrator(_restrict_service_account(policy)),
        "priorityClassName": AskAdministrator(_restrict_priority_class(policy)),
        "tolerations": check_each(_restrict_toleration(policy)),
        "hostAliases": check_each(
            allow_fields({"ip": allow_anything, "hostnames": check_each(AskAdministrator(_restrict_host_name(policy)))})
        ),
    }


def restrict_image(policy: TemplatePolicy) -> Check:
    """The check of a container's image."""

    def check(value: Any, path: str) -> None:
        if not is_listed(str(value), policy.images):
            allowed = ", ".join(policy.images) or "none"
            raise FieldError(
                path,
                f"{show_value(value)} is not allowed; use an image that is: {allowed} ({_ADMINISTRATOR} lists them in "
                "the setting allowedImages)",
            )

    return check


def check_annotation_domains(keys: Collection[str], policy: TemplatePolicy) -> None:
    """Checks that annotations of a trial's pods are of domains that the administrator allows.

    An annotation may give a pod what none of its fields could: a device, another network, a sidecar with rights, a
    container without AppArmor. What one of an unknown domain does is not known, so it is refused. Container runtimes
    have keys such as io.katacontainers.config.runtime, whose domain is written backwards and has no slash after it.

    Raises:
        FieldError: An annotation is of another domain.
    """
    for key in keys:
        domain = key.partition("/")[0]
        has_domain = "/" in key or "." in key
        if has_domain and not is_listed(domain, policy.annotation_domains):
            raise FieldError(
                "annotations",
                f"{key!r} is not allowed; remove it, or write a key without slash and dots ({_ADMINISTRATOR} allows "
                "domains with the setting allowedAnnotationDomains)",
            )


def _restrict_service_account(policy: TemplatePolicy) -> Check:
    def check(value: Any, path: str) -> None:
        if not is_listed(str(value), policy.service_accounts):
            raise FieldError(
                path,
                f"{show_value(value)} is not allowed; leave it out ({_ADMINISTRATOR} allows accounts with the setting "
                "allowedServiceAccounts)",
            )

    return check


def _restrict_priority_class(policy: TemplatePolicy) -> Check:
    def check(value: Any, path: str) -> None:
        name = str(value)
        of_system = name.startswith(_SYSTEM_CLASSES)
        if not (name in policy.priority_classes if of_system else is_listed(name, policy.priority_classes)):
            raise FieldError(
                path,
                f"{show_value(value)} is not allowed; leave it out ({_ADMINISTRATOR} allows priority classes with the "
                "setting allowedPriorityClasses)",
            )

    return check


def _restrict_toleration(policy: TemplatePolicy) -> Check:
    def check(value: Any, path: str) -> None:
        if not any(_allows(entry, value) for entry in policy.tolerations):
            allowed = f"{_ADMINISTRATOR} allows taints with the setting allowedTolerations"
            if not value.get("key"):
                raise FieldError(
                    path, f"{show_value(value)} tolerates every taint; remove it, or name the key of one ({allowed})"
                )
            raise FieldError(path, f"{show_value(value)} is not allowed; remove it ({allowed})")

    fields = ("key", "operator", "value", "effect", "tolerationSeconds")
    return AskAdministrator(check, allow_fields(dict.fromkeys(fields, allow_anything)))


def _allows(entry: str, toleration: Mapping[str, Any]) -> bool:
    """Whether an entry, `key` or `key=value`, allows a toleration."""
    key, has_value, value = entry.partition("=")
    if not fnmatchcase(str(toleration.get("key") or ""), key):
        return False
    is_equal = toleration.get("operator") in (None, "", "Equal")
    return not has_value or (is_equal and fnmatchcase(str(toleration.get("value") or ""), value))


def _restrict_host_name(policy: TemplatePolicy) -> Check:
    def check(value: Any, path: str) -> None:
        name = str(value).lower().rstrip(".")
        if name == policy.results_host.lower().rstrip(".") or _CLUSTER_LABEL in name.split("."):
            raise FieldError(
                path,
                f"{show_value(value)} is a name inside the cluster, and the alias would apply to the agent, too; "
                "remove it",
            )
        if not is_listed(name, policy.host_aliases):
            raise FieldError(
                path,
                f"{show_value(value)} is not allowed, because the alias would apply to the agent, too; remove it, or "
                f"write the address itself ({_ADMINISTRATOR} allows names with the setting allowedHostAliases)",
            )

    return check
