"""How many GPUs a pod requests, as budgets and simulations count them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_WHOLE = re.compile(r"(nvidia\.com/gpu(\.shared)?|amd\.com/gpu|gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi)")
_MIG = re.compile(r"nvidia\.com/mig-(?P<slices>[1-7])g\..+")
MIG_SLICES = 7
"""Compute slices of a GPU that NVIDIA's Multi-Instance GPU divides (A100 and later; only the A30 has 4)."""


def count_requested_gpus(pod_spec: Mapping[str, Any]) -> float:
    """How many GPUs a pod holds while it is on a node: those of its containers and sidecars together.

    A MIG device such as nvidia.com/mig-2g.10gb counts as 2/7 of a GPU. Resources that only accompany a GPU (such as the
    memory of a vGPU), devices of dynamic resource allocation, and values that are not numbers don't count.
    """
    return sum(count_gpus_among(limits) for limits in _list_limits(pod_spec))


def count_gpus_among(limits: Mapping[str, Any]) -> float:
    """How many GPUs a container's resource limits ask for."""
    return sum(_count_gpus(name) * _parse_amount(written) for name, written in limits.items())


def leave_out_gpus(pod_spec: Mapping[str, Any]) -> None:
    """Takes GPUs out of what a pod asks for; nothing else changes."""
    for kind in ("initContainers", "containers"):
        for container in pod_spec.get(kind) or ():
            resources = container.get("resources") or {}
            for asked in (resources.get("limits") or {}, resources.get("requests") or {}):
                for name in [name for name in asked if _count_gpus(name)]:
                    del asked[name]


def _list_limits(pod_spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The containers' limits; what a device plugin hands out is never requested without one."""
    for kind in ("initContainers", "containers"):
        for container in pod_spec.get(kind) or ():
            resources = container.get("resources")
            limits = resources.get("limits") if isinstance(resources, Mapping) else None
            if isinstance(limits, Mapping):
                yield limits


def _count_gpus(resource: str) -> float:
    if _WHOLE.fullmatch(resource):
        return 1.0
    mig = _MIG.fullmatch(resource)
    return int(mig["slices"]) / MIG_SLICES if mig else 0.0


def _parse_amount(written: Any) -> float:
    try:
        return max(0.0, float(written))
    except (TypeError, ValueError):
        return 0.0
