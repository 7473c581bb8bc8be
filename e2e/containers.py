"""Containers as what they are on this machine: ordinary processes, known by their cgroup."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from e2e.kubernetes import Object


def read_container_id(status: Object) -> str:
    """A container's id, which is in the name of its cgroup, from its entry in its pod's status."""
    return str(status["containerID"]).removeprefix("containerd://")


def kill_container(status: Object) -> None:
    """SIGKILLs all processes of a container.

    Args:
        status: The container's entry in its pod's status.
    """
    for process in list_processes(status):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            os.kill(int(process.name), signal.SIGKILL)


def list_processes(status: Object) -> Iterator[Path]:
    """The folders in /proc of a container's processes, by the container's entry in its pod's status."""
    container = read_container_id(status)
    for cgroups in Path("/proc").glob("[0-9]*/cgroup"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if container in cgroups.read_text():
                yield cgroups.parent
