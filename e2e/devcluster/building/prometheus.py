"""Prometheus and promtool: those of the machine, or Debian's package unpacked into the cache.

It is not installed: that would start a service on a developer's machine, and bring a dozen packages for its pages.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from pathlib import Path

from e2e.devcluster.building.packages import find_program
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import cache_directory
from e2e.devcluster.locks import locked
from e2e.devcluster.node import network
from e2e.devcluster.processes import run
from e2e.devcluster.progress import screen

_PACKAGE = "prometheus"
_PROGRAMS = ("prometheus", "promtool")
_AS_ROOT = ("apt-get", "-q", "-o", "APT::Sandbox::User=root")


def ensure() -> Path:
    """Returns the directory that holds `prometheus` and `promtool`.

    Raises:
        ClusterError: They are not there, and can't be had; the message says how to get them.
    """
    found = [find_program(name) for name in _PROGRAMS]
    if found[0] is not None and found[1] is not None and Path(found[0]).parent == Path(found[1]).parent:
        return Path(found[0]).parent
    target = cache_directory() / "prometheus" / _name_system()
    binaries = target / "usr" / "bin"
    if _is_complete(binaries):
        return binaries
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ClusterError("prometheus and promtool are missing; install Prometheus, so that both are on the PATH")
    # It is the lock of whoever installs packages: apt-get gives up where another one is at work.
    with locked(cache_directory() / "packages.lock", "installing Debian packages"):
        if not _is_complete(binaries):
            _unpack(target)
    return binaries


def _name_system() -> str:
    """The machine's release and architecture: another one's program may want another C library."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    return f"{release.get('ID', 'unknown')}-{release.get('VERSION_ID', 'rolling')}-{platform.machine()}"


def _is_complete(binaries: Path) -> bool:
    return all(os.access(binaries / program, os.X_OK) for program in _PROGRAMS)


def _unpack(target: Path) -> None:
    screen.say("unpacking Prometheus from Debian's package")
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work, screen.task("Prometheus"):
        # From within the cluster's network, where tests run, there is no way to Debian's servers.
        outside = network.outside_command()
        run([*outside, *_AS_ROOT, "update"], timeout=300)
        run([*outside, "env", "-C", work, *_AS_ROOT, "download", _PACKAGE], timeout=600)
        package = next(Path(work).glob("*.deb"))
        unpacked = Path(work) / "unpacked"
        run(["dpkg-deb", "-x", package, unpacked], timeout=300)
        # Moved whole, so that an interrupted one never looks complete.
        unpacked.rename(target)
