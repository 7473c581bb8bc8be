"""Which other objects of its namespace a pod's spec refers to, in the fields that the allow-list lets through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_CLAIM_KIND = "PersistentVolumeClaim"


def list_secret_references(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Path and name of every Secret that a pod refers to."""
    yield from _list_references(spec, "secret", "secretName")
    for position, reference in enumerate(spec.get("imagePullSecrets") or ()):
        yield from _find_named(reference, f"imagePullSecrets[{position}]", "name")


def list_config_map_references(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Path and name of every ConfigMap that a pod refers to."""
    yield from _list_references(spec, "configMap", "name")


def list_claim_references(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Path and name of every claim that a pod mounts, or mounts a copy of."""
    for position, volume in enumerate(spec.get("volumes") or ()):
        path = f"volumes[{position}]"
        yield from _find_named(volume, path, "persistentVolumeClaim", "claimName")
        for source in ("dataSource", "dataSourceRef"):
            copied = ("ephemeral", "volumeClaimTemplate", "spec", source)
            if any(kind == _CLAIM_KIND for _, kind in _find_named(volume, path, *copied, "kind")):
                yield from _find_named(volume, path, *copied, "name")


def _list_references(spec: Mapping[str, Any], kind: str, name_in_volume: str) -> Iterator[tuple[str, str]]:
    """References from variables and volumes to objects of a kind: `secret` or `configMap`."""
    for containers in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(containers) or ()):
            path = f"{containers}[{position}]"
            for i, variable in enumerate(container.get("env") or ()):
                yield from _find_named(variable, f"{path}.env[{i}]", "valueFrom", f"{kind}KeyRef", "name")
            for i, source in enumerate(container.get("envFrom") or ()):
                yield from _find_named(source, f"{path}.envFrom[{i}]", f"{kind}Ref", "name")
    for position, volume in enumerate(spec.get("volumes") or ()):
        path = f"volumes[{position}]"
        yield from _find_named(volume, path, kind, name_in_volume)
        for i, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            yield from _find_named(source, f"{path}.projected.sources[{i}]", kind, "name")


def _find_named(value: Any, path: str, *fields: str) -> Iterator[tuple[str, str]]:
    for field in fields:
        value = value.get(field) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        yield ".".join((path, *fields)), value
