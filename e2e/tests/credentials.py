"""Looks for credentials where people look, and for the limits of processes that hold some."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from e2e.containers import list_processes
from e2e.kubernetes import Object

_OF_THEIR_KIND: Mapping[str, re.Pattern[str]] = {
    "a token of a service account": re.compile(r"eyJ[\w-]{20,}\.eyJ[\w-]{20,}"),
    "a private key": re.compile(r"PRIVATE KEY-----"),
    # Each of the three ways in which its beginning may come to lie.
    "a private key in base64": re.compile("UFJJVkFURSBLRV|BSSVZBVEUgS0VZ|QUklWQVRFIEtFW"),
}
_CORE_LIMIT = re.compile(r"^Max core file size +(\S+) +(\S+)", re.MULTILINE)
PRIVATE_KEYS = frozenset({"a private key", "a private key in base64"})
"""What `find_credentials` calls them."""
NO_CORE_DUMP = ("1", "1")
"""What `list_core_limits` says of a process that leaves none."""


def find_credentials(text: str, known: Iterable[str] = ()) -> set[str]:
    """What a text tells that it must not: credentials that are known, and what looks like one."""
    told = {key for key in known if key in text}
    return told | {kind for kind, pattern in _OF_THEIR_KIND.items() if pattern.search(text)}


def list_core_limits(pod: Object, container: str = "") -> list[tuple[str, ...]]:
    """How large core dumps of our own processes in a pod may be: the soft and the hard limit of each.

    Args:
        pod: Where they are; nodes' processes are those of this machine.
        container: Whose processes; by default those of all containers.
    """
    statuses = [*pod["status"].get("initContainerStatuses", ()), *pod["status"].get("containerStatuses", ())]
    chosen = [each for each in statuses if container in ("", each["name"]) and "containerID" in each]
    limits = [_read_core_limit(process) for status in chosen for process in list_processes(status)]
    return [each for each in limits if each]


def _read_core_limit(process: Path) -> tuple[str, ...]:
    """A process's limits; nothing of one that has ended, or that is not ours, as what is executed in a container."""
    with contextlib.suppress(OSError):
        if b"/podtune-" in (process / "cmdline").read_bytes():
            limits = _CORE_LIMIT.search((process / "limits").read_text())
            return limits.groups() if limits else ()
    return ()
