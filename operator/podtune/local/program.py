"""What of a pod's manifest becomes a process: the command and the environment, as the kubelet makes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podtune.api.pods.pod_template import find_trial_container
from podtune.kube.manifests import Manifest
from podtune.trial import layout

_REFERENCE = re.compile(r"\$\$|\$\(([^()]*)\)")
_OWN = "PODTUNE_"
_LOOPBACK = "127.0.0.1"
_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
COMPUTED_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.labels['…']",
    "metadata.annotations['…']",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.podIP",
    "status.hostIP",
)
"""Fields of a pod that are known here."""


@dataclass(frozen=True, slots=True)
class Program:
    """A process to start.

    Attributes:
        command: The container's command; empty where that is the image's.
        arguments: What follows it.
        variables: Those of the manifest.
    """

    command: tuple[str, ...]
    arguments: tuple[str, ...]
    variables: Mapping[str, str]


def find_training_container(pod: Manifest) -> Mapping[str, Any]:
    """A pod's container that trains, or evaluates."""
    name = find_trial_container(pod["spec"])
    found: Mapping[str, Any] = next(one for one in pod["spec"]["containers"] if one.get("name", "") == name)
    return found


def build_program(pod: Manifest, directory: Path, host: str, environ: Mapping[str, str], endpoint: str = "") -> Program:
    """Makes the process of a pod's training container.

    Args:
        pod: The pod's manifest.
        directory: Takes the place of /podtune.
        host: Name of this machine.
        environ: Has the values that a cluster would look up in Secrets.
        endpoint: Address of the agent's endpoint here; empty where it has none.
    """
    container = find_training_container(pod)
    known: dict[str, str] = {}
    places = {layout.ENV_DIRECTORY: str(directory), **({layout.ENV_ENDPOINT: endpoint} if endpoint else {})}
    for entry in container.get("env") or ():
        value = _find_value(entry, pod, known, host, environ)
        if value is not None:
            known[entry["name"]] = places.get(entry["name"], value)
    command, arguments = (
        tuple(expand(str(word), known) for word in container.get(field) or ()) for field in ("command", "args")
    )
    return Program(command, arguments, known)


def inherit(environ: Mapping[str, str]) -> dict[str, str]:
    """What a process inherits: all but variables of ours."""
    return {key: value for key, value in environ.items() if not key.startswith(_OWN)}


def expand(text: str, values: Mapping[str, str]) -> str:
    """Expands `$(NAME)` as Kubernetes does: `$$` is a dollar, and what is not known stays as it is."""

    def replace(match: re.Match[str]) -> str:
        return "$" if match[1] is None else values.get(match[1], match[0])

    return _REFERENCE.sub(replace, text)


def is_computed(path: str) -> bool:
    """Whether a field of a pod is known here."""
    return path in COMPUTED_FIELDS or _KEYED.fullmatch(path) is not None


def _find_value(
    entry: Mapping[str, Any], pod: Manifest, known: Mapping[str, str], host: str, environ: Mapping[str, str]
) -> str | None:
    """The value of a variable; None where it has none."""
    source = entry.get("valueFrom")
    if not source:
        return expand(str(entry.get("value") or ""), known)
    if "fieldRef" in source and is_computed(path := source["fieldRef"].get("fieldPath", "")):
        return _compute_field(path, pod, host)
    return environ.get(entry["name"])


def _compute_field(path: str, pod: Manifest, host: str) -> str:
    metadata = pod["metadata"]
    if keyed := _KEYED.fullmatch(path):
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    match path:
        case "spec.nodeName":
            return host
        case "spec.serviceAccountName":
            return str(pod["spec"].get("serviceAccountName") or "default")
        case "status.podIP" | "status.hostIP":
            return _LOOPBACK
        case _:
            return str(metadata[path.removeprefix("metadata.")])
