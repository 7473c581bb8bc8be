"""What a container may request: the API server's rules, checked before they refuse a pod."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from podtune.api.base import FieldError
from podtune.api.pods.pod_checks import show_value
from podtune.api.pods.quantities import parse_quantity

_NATIVE = re.compile(r"cpu|memory|ephemeral-storage|hugepages-.+")


def check_resources(resources: Any, path: str) -> None:
    """Checks a container's `resources`.

    Raises:
        FieldError: The API server would refuse a pod with them.
    """
    if resources is None:
        return
    if not isinstance(resources, Mapping):
        raise FieldError(path, f"{show_value(resources)} is not a map; write limits and requests below it")
    limits, requests = (_check_amounts(resources.get(kind), f"{path}.{kind}") for kind in ("limits", "requests"))
    for name, amount in requests.items():
        field_path = f"{path}.requests.{name}"
        if name in limits and parse_quantity(amount) > parse_quantity(limits[name]):  # type: ignore[operator]
            raise FieldError(
                field_path, f"{show_value(amount)} is more than its limit, {show_value(limits[name])}; raise the limit"
            )
        if not is_device(name):
            continue
        if name not in limits:
            raise FieldError(field_path, f"{show_value(amount)} is set only in requests; write it under limits instead")
        if parse_quantity(amount) != parse_quantity(limits[name]):
            raise FieldError(
                field_path,
                f"{show_value(amount)} differs from its limit, {show_value(limits[name])}; leave it out of requests",
            )


def check_amounts(amounts: Mapping[str, Any], path: str) -> None:
    """Checks limits or requests by resource name.

    Raises:
        FieldError: One is not a quantity, or a device is divided.
    """
    for name, amount in amounts.items():
        if amount is None:
            continue  # as if it were left out
        field_path = f"{path}.{name}" if path else str(name)
        if "/" not in str(name) and not _NATIVE.fullmatch(str(name)):
            remedy = "write cpu, memory, ephemeral-storage or a device such as nvidia.com/gpu"
            raise FieldError(field_path, f"{show_value(amount)} is set for an unknown resource; {remedy}")
        parsed = parse_quantity(amount)
        if parsed is None:
            raise FieldError(field_path, f"{show_value(amount)} is not a quantity; write it like 4, 500m or 16Gi")
        if parsed < 0:
            raise FieldError(field_path, f"{show_value(amount)} is too small; write 0 or more")
        if is_device(name) and parsed.denominator != 1:
            raise FieldError(field_path, f"{show_value(amount)} is a fraction of a device; write a whole number")


def find_memory_limit(pod_spec: Mapping[str, Any], container: str) -> str:
    """The limit of memory of a pod's container, as the API server writes it; empty where it has none."""
    for found in pod_spec.get("containers") or ():
        if found.get("name") == container:
            limits = (found.get("resources") or {}).get("limits") or {}
            return str(limits.get("memory") or "")
    return ""


def is_device(name: str) -> bool:
    """Whether a resource is one that a device plugin hands out, whole and by its limit."""
    return ("/" in name and "kubernetes.io/" not in name) or name.startswith("hugepages-")


def _check_amounts(amounts: Any, path: str) -> Mapping[str, Any]:
    if amounts is None:
        return {}
    if not isinstance(amounts, Mapping):
        raise FieldError(path, f"{show_value(amounts)} is not a map; write amounts by resource name below it")
    check_amounts(amounts, path)
    return {str(name): amount for name, amount in amounts.items() if amount is not None}
