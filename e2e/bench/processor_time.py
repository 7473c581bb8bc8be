"""Processor time and memory of a container, from outside: its processes are found by their cgroup."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
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
    total = 0
    for process in processes(container):
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def resident_bytes(container: str) -> int:
    """Resident memory of the container's processes."""
    return sum(int((process / "statm").read_text().split()[1]) * _PAGE for process in processes(container))
