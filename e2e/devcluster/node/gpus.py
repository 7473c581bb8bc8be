"""Simulated GPUs: the scheduler counts them, containers get no device."""

from __future__ import annotations

import json
from pathlib import Path

from e2e.devcluster.kubectl import Kubectl
from e2e.devcluster.processes import wait_until
from e2e.devcluster.versions import name_of_its_own

RESOURCE = "nvidia.com/gpu"
DEVICE_PLUGINS = Path("/var/lib/kubelet/device-plugins")
"""Where the kubelet looks for checkpoints of device plugins; it is fixed in its source."""

_MARK = "podtune-simulated-gpu"


def find_mark() -> Path:
    """Return the file that keeps this cluster's simulated GPUs.

    A kubelet that finds no checkpoint takes its node for a new one and zeroes all extended resources when it starts;
    running pods that hold a GPU would then be refused. It only lists the directory, so any file will do.
    """
    return DEVICE_PLUGINS / name_of_its_own(_MARK)


def marks_exist() -> bool:
    """Return whether any cluster's mark is there, of whatever version."""
    return any(DEVICE_PLUGINS.glob(f"{_MARK}*"))


def simulate(kubectl: Kubectl, node: str, count: int, seconds: float = 180, resource: str = RESOURCE) -> None:
    """Give a node GPUs and wait until the scheduler may count on them."""
    if allocatable(kubectl, node, resource) != count:
        pointer = resource.replace("/", "~1")
        patch = [
            {"op": "add", "path": f"/status/{field}/{pointer}", "value": str(count)}
            for field in ("capacity", "allocatable")
        ]
        kubectl("patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps(patch))
    wait_until(lambda: allocatable(kubectl, node, resource) == count, f"{node} has no simulated GPUs", seconds)


def allocatable(kubectl: Kubectl, node: str, resource: str = RESOURCE) -> int:
    """Return how many GPUs the API server holds a node to have."""
    path = "{.status.allocatable." + resource.replace(".", "\\.") + "}"
    return int(kubectl("get", "node", node, "-o", f"jsonpath={path}") or 0)
