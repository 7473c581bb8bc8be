"""The cgroups of the cluster: the register of its processes, and the root of both kubelets' pods.

Both versions are served. On version 1 every hierarchy gets the same tree, because the kubelet insists on it; so does
version 2 where it is mounted beside version 1, for runc uses it there.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from functools import cache
from pathlib import Path

from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import cluster_cgroup

# The cgroup went away while we walked, or (version 2) it is a threaded one, whose parent has the list.
_NO_LIST = (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP)


def components_cgroup() -> str:
    """Return the cgroup that holds all components, relative to the root."""
    return f"{cluster_cgroup()}/components"


@cache
def hierarchies() -> tuple[Path, ...]:
    """Return the mount points: all of version 1, and the one of version 2."""
    first: list[Path] = []
    second: list[Path] = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, kind = line.partition(" - ")
        point = Path(mount.split()[4])
        if kind.startswith("cgroup2 "):
            second.append(point)
        elif kind.startswith("cgroup "):
            first.append(point)
    found = first + second[:1]
    if not found:
        raise ClusterError("no cgroup file system is mounted")
    return tuple(dict.fromkeys(found))


def create(name: str) -> list[Path]:
    """Create a cgroup in every hierarchy, with all controllers on, and return its directories."""
    directories = []
    for root in hierarchies():
        path = root
        for part in Path(name).parts:
            _hand_down_controllers(path)
            path /= part
            path.mkdir(exist_ok=True)
            _inherit_cpuset(path)
        directories.append(path)
    return directories


def processes(name: str) -> set[int]:
    """Return the processes in a cgroup and everything below it."""
    found: set[int] = set()
    for root in hierarchies():
        for directory, _, _ in os.walk(root / name):
            try:
                found.update(int(pid) for pid in (Path(directory) / "cgroup.procs").read_text().split())
            except OSError as error:
                if error.errno not in _NO_LIST:
                    raise
    return found


def kill_all(name: str, seconds: float = 20) -> None:
    """Kill everything in a cgroup and below it, again until nothing new appears.

    Raises:
        ClusterError: Something survived the deadline.
    """
    deadline = time.monotonic() + seconds
    while remaining := processes(name):
        for pid in remaining:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            raise ClusterError(f"processes that do not die: {sorted(remaining)}")
        time.sleep(0.05)


def remove(name: str, seconds: float = 20) -> None:
    """Remove a cgroup and everything below it, in every hierarchy.

    Raises:
        ClusterError: The kernel still held one of them at the deadline.
    """
    deadline = time.monotonic() + seconds
    for root in hierarchies():
        while (root / name).exists():
            busy = _remove_tree(root / name)
            if busy is None:
                break
            if time.monotonic() > deadline:
                raise ClusterError(f"cgroup {busy} is still in use")
            time.sleep(0.05)


def _remove_tree(top: Path) -> Path | None:
    """Remove what can be removed, deepest first; return one that is busy."""
    busy = None
    for directory, _, _ in os.walk(top, topdown=False):
        try:
            Path(directory).rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            # A killed process holds its cgroup until the kernel has finished with it.
            busy = Path(directory)
    return busy


def _hand_down_controllers(path: Path) -> None:
    control = path / "cgroup.subtree_control"
    if not control.exists():
        return
    enabled = set(control.read_text().split())
    for controller in (path / "cgroup.controllers").read_text().split():
        if controller not in enabled:
            control.write_text(f"+{controller}")


def _inherit_cpuset(path: Path) -> None:
    # On version 1 a new cpuset is empty, and nothing can join it before it has processors and memory.
    for name in ("cpuset.cpus", "cpuset.mems"):
        inherited = path.parent / name
        own = path / name
        if own.exists() and inherited.exists() and not own.read_text().strip():
            value = inherited.read_text().strip()
            if value:
                own.write_text(value)
