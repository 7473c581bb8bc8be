"""Debian packages the cluster is made of, installed when they are missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import cache_directory
from e2e.devcluster.locks import locked
from e2e.devcluster.node.network import SYSTEM_PATH, outside_command
from e2e.devcluster.processes import run
from e2e.devcluster.progress import screen

CNI_PLUGINS = Path("/usr/lib/cni")

_CLUSTER = {
    "containerd": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "nft": "nftables",
    "socat": "socat",
    "conntrack": "conntrack",
    "busybox": "busybox-static",
    "openssl": "openssl",
    str(CNI_PLUGINS / "bridge"): "containernetworking-plugins",
}
_IMAGES = {"buildah": "buildah", "debootstrap": "debootstrap"}


def find_program(name: str) -> str | None:
    """Return the path of a program, also where PATH leaves out the system's folders; None where it is not installed."""
    return shutil.which(name) or shutil.which(name, path=SYSTEM_PATH)


def program(name: str) -> str:
    """Return the path of a program that a package brought.

    Raises:
        ClusterError: It is not installed.
    """
    path = find_program(name)
    if path is None:
        raise ClusterError(f"{name} is not installed")
    return path


def ensure_cluster() -> None:
    """Install what running a node takes."""
    _ensure(_CLUSTER)


def ensure_images() -> None:
    """Install what building an image takes."""
    _ensure(_IMAGES)


def _ensure(packages: dict[str, str]) -> None:
    if _missing(packages):
        with _installing():
            if missing := _missing(packages):
                _install(missing)


def _missing(packages: dict[str, str]) -> list[str]:
    return sorted(package for name, package in packages.items() if find_program(name) is None)


def install(*missing: str) -> None:
    """Install packages.

    Raises:
        ClusterError: We may not; the message holds the command to run.
    """
    with _installing():
        _install(missing)


def _installing() -> AbstractContextManager[None]:
    # apt-get gives up where another one is at work.
    return locked(cache_directory() / "packages.lock", "installing Debian packages")


def _install(missing: Sequence[str]) -> None:
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ClusterError(f"missing programs; as root: {' '.join(command)}")
    screen.say(f"installing {', '.join(missing)}")
    # containerd runs under our own flags only. Without systemd nothing is started anyway; with it, the packaged
    # service uses /run/containerd/containerd.sock and /var/lib/containerd, and we neither.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with screen.task("Debian packages"):
        # From within the cluster's network, where tests run, there is no way to Debian's servers.
        outside = outside_command()
        run([*outside, "apt-get", "update", "-q"], timeout=300, environment=environment)
        run([*outside, *command], timeout=600, environment=environment)
