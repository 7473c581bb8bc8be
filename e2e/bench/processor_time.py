"""Processor time and memory of a container, from outside: its processes are found by their cgroup."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
COMPONENTS = ("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "kwok", "kubelet", "containerd")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def processes(container: str) -> list[Path]:
    """The /proc folders of a container's processes."""
    found = []
    for cgroups in Path("/proc").glob("[0-9]*/cgroup"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if container in cgroups.read_text():
                found.append(cgroups.parent)
    return found


def seconds(container: str) -> float:
    """Processor seconds that the container's processes have used so far."""
    return sum(seconds_of(process) for process in processes(container))


def components() -> Counter[str]:
    """Processor time that each component of the cluster has used so far, by its program's name; in milliseconds."""
    used: Counter[str] = Counter()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name = (process / "cmdline").read_bytes().split(b"\0")[0].decode().rpartition("/")[2]
            if name in COMPONENTS:
                used[name] += round(seconds_of(process) * 1000)
    return used


def seconds_of(process: Path) -> float:
    """Processor seconds that a process has used so far, by its /proc folder."""
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_bytes(container: str) -> int:
    """Resident memory of the container's processes."""
    return sum(map(resident_bytes_of, processes(container)))


def resident_bytes_of(process: Path) -> int:
    """Resident memory of a process, by its /proc folder."""
    return int((process / "statm").read_text().split()[1]) * _PAGE
