"""Volumes that one machine can give: the files of ConfigMaps that travel with the manifest, and empty folders.

In a container they are mounted where the manifest says. A process has the file system of the machine, so there the
paths below a mount are replaced by those of the folder, wherever command, arguments and variables name them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from podtune.cli.errors import CliError
from podtune.kube.manifests import Manifest
from podtune.trial import layout

ConfigMaps = Mapping[str, Mapping[str, Any]]
"""The ConfigMaps of a file, by name."""
_BEFORE = r"(?<![\w./-])"
_AFTER = r"(?![\w.-])"


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder that a program sees somewhere else.

    Attributes:
        folder: Where it is on this machine.
        path: Where the manifest mounts it.
        is_read_only: Whether the program may only read it.
    """

    folder: Path
    path: str
    is_read_only: bool


def find_missing_volumes(pod_spec: Mapping[str, Any], config_maps: ConfigMaps) -> Iterator[tuple[int, str]]:
    """Says which volumes of a pod can't be had here, by their position, with the remedy."""
    for position, volume in enumerate(pod_spec.get("volumes") or ()):
        match volume:
            case {"emptyDir": _}:
                continue
            case {"configMap": {"name": name, **rest}} if name in config_maps or rest.get("optional"):
                continue
            case {"configMap": {"name": name}}:
                yield position, f"ConfigMap {name!r} isn't known here; put it into the same file"
            case _:
                yield position, f"{volume.get('name', '')!r} can't be mounted here; remove it"


def write_config_maps(pod_spec: Mapping[str, Any], config_maps: ConfigMaps, folder: Path) -> None:
    """Writes the files of a pod's ConfigMap volumes, each to a folder of its own.

    Raises:
        CliError: One names a file that it doesn't hold, or can't have.
    """
    for volume in pod_spec.get("volumes") or ():
        if "configMap" not in volume:
            continue
        place = folder / _name_folder(volume)
        place.mkdir(parents=True, exist_ok=True)
        for path, content in _list_files(volume["configMap"], config_maps):
            file = place / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


def find_mounts(pod: Manifest, container: Mapping[str, Any], shared: Path, own: Path) -> list[Mount]:
    """What of a pod's volumes a container mounts.

    Args:
        pod: The pod's manifest.
        container: The container.
        shared: Where `write_config_maps` has written.
        own: Where the empty folders of this pod are; they are made.
    """
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    mounts: list[Mount] = []
    for entry in container.get("volumeMounts") or ():
        volume = volumes.get(entry["name"], {})
        is_fixed = "configMap" in volume
        if entry["mountPath"] == layout.DIRECTORY or not (is_fixed or "emptyDir" in volume):
            continue  # what the agent brings, which is mounted apart
        folder = shared / _name_folder(volume) if is_fixed else own / entry["name"]
        place = folder / (entry.get("subPath") or "")
        if not is_fixed:
            place.mkdir(parents=True, exist_ok=True)
        mounts.append(Mount(place, entry["mountPath"].rstrip("/"), is_fixed or bool(entry.get("readOnly"))))
    return sorted(mounts, key=lambda mount: len(mount.path), reverse=True)


def replace_paths(text: str, mounts: list[Mount]) -> str:
    """A text with the folders in the place of the paths at which they are mounted."""
    for mount in mounts:
        text = re.sub(f"{_BEFORE}{re.escape(mount.path)}{_AFTER}", lambda _, mount=mount: str(mount.folder), text)  # type: ignore[misc]
    return text


def _name_folder(volume: Mapping[str, Any]) -> str:
    """Another name for each volume: stages may have different ones that are called the same."""
    digest = hashlib.sha256(json.dumps(volume, sort_keys=True).encode()).hexdigest()
    return f"{volume['name']}-{digest[:8]}"


def _list_files(source: Mapping[str, Any], config_maps: ConfigMaps) -> Iterator[tuple[PurePosixPath, bytes]]:
    """The files of a ConfigMap volume, by their paths."""
    config_map = config_maps.get(source["name"], {})
    content = {key: str(text).encode() for key, text in (config_map.get("data") or {}).items()}
    content |= {key: base64.b64decode(text) for key, text in (config_map.get("binaryData") or {}).items()}
    for item in source.get("items") or [{"key": key, "path": key} for key in content]:
        path = PurePosixPath(item["path"])
        if path.is_absolute() or ".." in path.parts:
            raise CliError(f"ConfigMap {source['name']}: path {item['path']!r} leads out of its volume; correct it")
        if item["key"] in content:
            yield path, content[item["key"]]
        elif not source.get("optional"):
            raise CliError(f"ConfigMap {source['name']}: it has no key {item['key']!r}, which a volume names")
