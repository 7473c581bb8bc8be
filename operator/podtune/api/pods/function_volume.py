"""The ConfigMap that a Python function travels in to trials, where a pod's template mounts one.

The Python API writes both. Agents store the function's source, so that an experiment outlives the loss of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from podtune.protocol.agent_environment import FUNCTION_DIRECTORY

FUNCTION_VOLUME = "function"
"""Name of the volume that holds the function."""


@dataclass(frozen=True, slots=True)
class FunctionVolume:
    """What a template says of its function.

    Attributes:
        config_map: Name of the ConfigMap.
        keys: The ConfigMap's keys, by the paths of the files that they become.
    """

    config_map: str
    keys: Mapping[str, str]


def find_function(pod: Mapping[str, Any]) -> FunctionVolume | None:
    """The function of a pod's spec; None where a volume of that name is somebody's own, or there is none."""
    containers = pod.get("containers") or ()
    if not any(_is_mount(mount) for container in containers for mount in container.get("volumeMounts") or ()):
        return None
    for volume in pod.get("volumes") or ():
        match volume:
            case {"name": name, "configMap": {"name": str(config_map), "items": [*items]}} if name == FUNCTION_VOLUME:
                return FunctionVolume(config_map, dict(_read_items(items)))
    return None


def _is_mount(mount: Any) -> bool:
    match mount:
        case {"name": name, "mountPath": path}:
            return bool(name == FUNCTION_VOLUME and path == FUNCTION_DIRECTORY)
    return False


def _read_items(items: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Path and key of each file; the API server refuses items that are something else."""
    for item in items:
        match item:
            case {"path": str(path), "key": str(key)}:
                yield path, key
