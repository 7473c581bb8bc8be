"""The network namespace: one bridge that carries both nodes' addresses, and no way out of it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import GATEWAY, NODE_NETWORK_PREFIX, NODES, network_namespace

_BRIDGE = "node0"
_CLONE_NEWNET = 0x40000000
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def namespace_file() -> Path:
    """Return the file that names the namespace to the kernel; it exists while the cluster does."""
    return Path("/var/run/netns") / network_namespace()


def enter_command() -> list[str]:
    """Return the command prefix that runs a program inside the namespace.

    Not ``ip netns exec``: that mounts a fresh /sys, in which the kubelet finds no cgroups.
    """
    return ["nsenter", f"--net={namespace_file()}", "--"]


def environment_inside() -> dict[str, str]:
    """Return our environment without proxies, which cannot be reached from inside, and with all system programs."""
    path = os.environ.get("PATH", os.defpath).split(os.pathsep) + SYSTEM_PATH.split(os.pathsep)
    kept = {name: value for name, value in os.environ.items() if name not in _PROXY_VARIABLES}
    return {**kept, "PATH": os.pathsep.join(dict.fromkeys(path))}


def create() -> None:
    """Create the namespace, its bridge and the nodes' addresses."""
    # The kubelet refuses a loopback address as the node's, and not every kernel has dummy devices. A bridge without
    # a port stays down, so it gets one end of a pair that leads nowhere.
    commands = [
        "link set lo up",
        f"link add {_BRIDGE} type bridge",
        *(f"addr add {node.address}/{NODE_NETWORK_PREFIX} dev {_BRIDGE}" for node in NODES),
        "link add port0 type veth peer name port1",
        f"link set port0 master {_BRIDGE}",
        "link set port0 up",
        "link set port1 up",
        f"link set {_BRIDGE} up",
        f"route add default via {GATEWAY} dev {_BRIDGE}",
    ]
    _ip("netns", "add", network_namespace())
    _ip("-n", network_namespace(), "-batch", "-", stdin="\n".join(commands))
    with inside():
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        if bridge_traffic_is_filtered():
            Path("/proc/sys/net/bridge/bridge-nf-call-iptables").write_text("1")


def bridge_traffic_is_filtered() -> bool:
    """Return whether packets between pods of one node pass kube-proxy's rules.

    Without the kernel module the answer of a Service's pod on the same node would bypass address translation.
    """
    return Path("/proc/sys/net/bridge/bridge-nf-call-iptables").exists()


def exists() -> bool:
    """Return whether the namespace exists and is one, not the empty file that a reboot leaves."""
    return namespace_file().exists() and os.path.ismount(namespace_file())


def remove() -> None:
    """Remove the namespace; devices and packet filter rules go with it."""
    if namespace_file().exists():
        _ip("netns", "del", network_namespace())


@contextmanager
def inside() -> Iterator[None]:
    """Move the calling thread into the namespace for a while: sockets opened here belong to it.

    Raises:
        ClusterError: The namespace does not exist or may not be entered.
    """
    own = Path(f"/proc/self/task/{threading.get_native_id()}/ns/net")
    with own.open("rb") as back:
        try:
            with namespace_file().open("rb") as target:
                _setns(target.fileno())
        except FileNotFoundError as error:
            raise ClusterError("the cluster's network namespace does not exist: is it up?") from error
        try:
            yield
        finally:
            _setns(back.fileno())


def outside_command() -> list[str]:
    """Return the prefix that runs a program on the machine's own network, from wherever we are.

    Raises:
        ClusterError: We are inside the namespace, and so is everything that led here.
    """
    if not exists():
        return []
    inside_namespace = namespace_file().stat().st_ino
    pid = os.getpid()
    while pid > 1:
        own = Path(f"/proc/{pid}/ns/net")
        if own.stat().st_ino != inside_namespace:
            return [] if pid == os.getpid() else ["nsenter", f"--net={own}", "--"]
        # The parent's id is the second field after the program's name, which is in brackets.
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    raise ClusterError("this has to run outside the cluster's network namespace")


def _setns(descriptor: int) -> None:
    # os.setns exists from Python 3.12 on.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise ClusterError(f"cannot change the network namespace: {os.strerror(number)} (root is needed)")


def _ip(*arguments: str, stdin: str | None = None) -> None:
    command = ["ip", *arguments]
    environment = environment_inside()
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise ClusterError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
