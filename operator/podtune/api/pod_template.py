"""What a trial template may say: an allow-list of pod fields, and of nothing that reaches out of the pod.

The operator creates pods in its users' namespaces with its own rights, so a field that is not known to be
harmless is refused, with the field's path and the remedy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

AGENT_CONTAINER = "podtune-agent"
RESTORE_CONTAINER = "podtune-restore"
RESERVED_PREFIX = "podtune-"
TRIAL_CONTAINER = "trial"


def trial_container(spec: Mapping[str, Any]) -> str:
    """Name of the container that trains: the one named trial, or else the first."""
    names = [str(container.get("name", "")) for container in spec.get("containers", [])]
    return TRIAL_CONTAINER if TRIAL_CONTAINER in names else names[0]


def check_pod_spec(spec: Mapping[str, Any]) -> None:
    """Checks a trial template's pod spec against the allow-list.

    Raises:
        ValueError: A field is missing or not allowed; the message names it, its value and the remedy.
    """
    containers: Sequence[Any] = spec.get("containers") or []
    if not containers:
        raise ValueError("containers is missing or empty; name at least the container that trains")
