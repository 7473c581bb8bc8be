"""Removing a cluster in whatever state it is: running, half started, or killed with everything left lying.

Nothing here trusts a record of what was started. Processes are found by cgroup, mounts by path, and what a
component has put outside the state directory by the names it used.
"""

from __future__ import annotations

import ctypes
import os
import re
import socket
from pathlib import Path

from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import Layout, cluster_cgroup
from e2e.devcluster.node import cgroups, gpus, network

_MNT_DETACH = 2
_CNI_RESULTS = Path("/var/lib/cni/results")
_CONTAINER_LOGS = Path("/var/log/containers")
_SHIM_SOCKETS = Path("/run/containerd/s")


def remove(layout: Layout) -> None:
    """Remove the cluster, and verify that nothing of it is left.

    Raises:
        ClusterError: Something resisted.
    """
    layout.check_ours()
    cgroups.kill_all(cluster_cgroup())
    _unmount_below(layout.state)
    network.remove()
    cgroups.remove(cluster_cgroup())
    _remove_strays(layout)
    layout.remove()
    left = leftovers(layout)
    if left:
        raise ClusterError("not everything could be removed:\n" + "\n".join(left))


def leftovers(layout: Layout) -> list[str]:
    """Return what is there of a cluster, one line each."""
    left = [f"mount {path}" for path in mounts_below(layout.state)]
    left += [f"process {pid}" for pid in sorted(cgroups.processes(cluster_cgroup()))]
    roots = [root / cluster_cgroup() for root in cgroups.hierarchies()]
    left += [f"cgroup {root}" for root in roots if root.exists()]
    if network.namespace_file().exists():
        left.append(f"network namespace {network.namespace_file()}")
    if layout.state.exists():
        left.append(f"directory {layout.state}")
    return left


def mounts_below(directory: Path, mountinfo: str | None = None) -> list[Path]:
    """Return the mount points at or below a directory, the latest first: the order to unmount in.

    Args:
        directory: Where to look.
        mountinfo: The kernel's list; this process's own by default.
    """
    listed = mountinfo if mountinfo is not None else Path("/proc/self/mountinfo").read_text()
    points = [Path(_unescape(line.split()[4])) for line in listed.splitlines() if line.strip()]
    return [point for point in reversed(points) if point == directory or directory in point.parents]


def _unescape(path: str) -> str:
    # The kernel writes blanks and backslashes as three octal digits.
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _unmount_below(directory: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for point in mounts_below(directory):
        # Lazily: a mount that something outside still looks into must not stop us.
        if libc.umount2(os.fsencode(point), _MNT_DETACH) != 0:
            raise ClusterError(f"cannot unmount {point}: {os.strerror(ctypes.get_errno())}")


def _nobody_listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return True
        return False


def _remove_strays(layout: Layout) -> None:
    # Shims of all containerds of a machine share this directory, and name their sockets by a hash.
    for shim in filter(_nobody_listens, _SHIM_SOCKETS.glob("*")):
        shim.unlink()
    for result in _CNI_RESULTS.glob("*"):
        # It holds the path of the pod's network namespace or of its addresses; the names of other states begin alike.
        if f"{layout.state}/" in result.read_text():
            result.unlink()
    for link in _CONTAINER_LOGS.glob("*.log"):
        if link.is_symlink() and layout.state in link.readlink().parents:
            link.unlink(missing_ok=True)
    if gpus.find_mark().exists():
        gpus.find_mark().unlink()
        if not gpus.marks_exist():
            # Without a mark of ours the socket would be another kubelet's; with another's, it is that cluster's.
            (gpus.DEVICE_PLUGINS / "kubelet.sock").unlink(missing_ok=True)
    for directory in (
        _SHIM_SOCKETS, _SHIM_SOCKETS.parent, _CNI_RESULTS, _CNI_RESULTS.parent, _CONTAINER_LOGS,
        gpus.DEVICE_PLUGINS, gpus.DEVICE_PLUGINS.parent,
    ):  # fmt: skip
        if directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()
