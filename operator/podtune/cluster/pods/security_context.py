"""The default security context of a trial's own containers: as few rights as most programs need.

A program as root is still allowed, since most public images have one; but without a capability, and without a way to
get one. Nor can it become the agent's user, who owns the agent's files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podtune.kube.manifests import Manifest

RUNTIME_DEFAULT: Mapping[str, str] = {"type": "RuntimeDefault"}
BECOMING_ANOTHER = ("SETGID", "SETUID")
"""Capabilities that no container of a trial keeps, whatever its template says."""


def confine(spec: Manifest, *, non_root: bool) -> None:
    """Gives a template's pod and containers, in place, the security context that they do not have."""
    pod = _drop_nulls(spec.get("securityContext"))
    pod.setdefault("seccompProfile", dict(RUNTIME_DEFAULT))
    if non_root:
        pod.setdefault("runAsNonRoot", True)
    spec["securityContext"] = pod
    for container in [*spec["containers"], *(spec.get("initContainers") or ())]:
        own = _drop_nulls(container.get("securityContext"))
        own.setdefault("allowPrivilegeEscalation", False)
        own["capabilities"] = _drop_capabilities(own.get("capabilities"))
        container["securityContext"] = own


def forbid_root(pod: Manifest) -> Manifest | None:
    """A copy of a pod whose containers must not run as root, but for those that say otherwise; None if the pod does.

    What a pod says of `runAsNonRoot` holds for each of its containers that says nothing.
    """
    spec = pod["spec"]
    context = spec.get("securityContext") or {}
    if context.get("runAsNonRoot") is not None:
        return None
    return {**pod, "spec": {**spec, "securityContext": {**context, "runAsNonRoot": True}}}


def make_agent_profile(pod_context: Mapping[str, Any]) -> Manifest:
    """What the agent's security context has to say so that the pod's AppArmor profile is not the agent's.

    Where the pod has none, the agent has the runtime's by default, and says nothing: a kubelet without AppArmor refuses
    every pod that names a profile.
    """
    return {"appArmorProfile": dict(RUNTIME_DEFAULT)} if pod_context.get("appArmorProfile") else {}


def _drop_capabilities(own: Mapping[str, Any] | None) -> Manifest:
    dropped = (own or {}).get("drop")
    if dropped is None or "ALL" in dropped:
        return {"drop": ["ALL"]}
    return {"drop": [*dropped, *(name for name in BECOMING_ANOTHER if name not in dropped)]}


def _drop_nulls(context: Mapping[str, Any] | None) -> Manifest:
    """A security context without the fields that are null, which say nothing."""
    return {field: value for field, value in (context or {}).items() if value is not None}
