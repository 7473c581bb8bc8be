"""Where everything of the local cluster is: names, addresses, ports and directories."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from e2e.devcluster.errors import ClusterError
from e2e.devcluster.versions import name_of_its_own

NODE_NETWORK_PREFIX = 24
GATEWAY = "10.89.0.1"
API_PORT = 6443
POD_NETWORK = "10.244.0.0/16"
SERVICE_NETWORK = "10.96.0.0/16"
SERVICE_API_ADDRESS = "10.96.0.1"
CLUSTER_DOMAIN = "cluster.local"
SIMULATED_GPUS = 16
"""More than the tests that run side by side want together: those that are about scarcity bring it about."""

_MARKER = ".podtune-cluster"
_DEFAULT_STATE = "/var/lib/podtune-e2e"


@dataclass(frozen=True)
class Node:
    """One of the two nodes; both are processes in the same network namespace, on ports of their own."""

    name: str
    index: int
    role: str
    gpus: int = 0

    @property
    def address(self) -> str:
        """Address of the node on the bridge inside the namespace."""
        return f"10.89.0.{self.index + 1}"

    @property
    def pod_subnet(self) -> str:
        """Addresses this node gives to its pods."""
        return f"10.244.{self.index}.0/24"

    @property
    def labels(self) -> dict[str, str]:
        """Labels the kubelet registers the node with."""
        labels = {"podtune.dev/role": self.role}
        if self.gpus:
            labels["podtune.dev/simulated-gpu"] = "true"
        return labels

    @property
    def kubelet_port(self) -> int:
        """Port of the kubelet's own API (``kubectl logs`` and ``exec``)."""
        return 10250 + 100 * (self.index - 1)

    @property
    def kubelet_health_port(self) -> int:
        """Port of the kubelet's health check, on loopback."""
        return 10248 + 100 * (self.index - 1)

    @property
    def containerd(self) -> str:
        """Name of this node's containerd among the components."""
        return f"containerd-{self.name}"

    @property
    def kubelet(self) -> str:
        """Name of this node's kubelet among the components."""
        return f"kubelet-{self.name}"


SYSTEM_NODE = Node("n1", 1, "system")
WORK_NODE = Node("n2", 2, "work", gpus=SIMULATED_GPUS)
NODES = (SYSTEM_NODE, WORK_NODE)
API_URL = f"https://{SYSTEM_NODE.address}:{API_PORT}"


def network_namespace() -> str:
    """Return the name of the network namespace everything runs in; nothing is bound on the machine's own network."""
    return name_of_its_own("podtune")


def cluster_cgroup() -> str:
    """Return the cgroup that every process of the cluster, pods included, lives below: so they are found again."""
    return name_of_its_own("podtune")


def node_named(name: str) -> Node:
    """Return the node with this name.

    Args:
        name: ``n1`` or ``n2``.

    Raises:
        ClusterError: There is no such node.
    """
    for node in NODES:
        if node.name == name:
            return node
    raise ClusterError(f"there is no node {name!r}; the nodes are {', '.join(n.name for n in NODES)}")


@dataclass(frozen=True)
class Layout:
    """The directories of one cluster. All of it is volatile and goes away with ``down``."""

    state: Path

    @classmethod
    def from_environment(cls) -> Layout:
        """Take the state directory from ``PODTUNE_CLUSTER_STATE`` or the default; each version has its own."""
        default = _DEFAULT_STATE if os.geteuid() == 0 else str(cache_directory() / "cluster")
        return cls(Path(name_of_its_own(os.environ.get("PODTUNE_CLUSTER_STATE", default))).absolute())

    @property
    def description(self) -> Path:
        """What a client has to know about the running cluster; written last by ``up``."""
        return self.state / "cluster.json"

    @property
    def kubeconfig(self) -> Path:
        """Credentials of the cluster's administrator."""
        return self.state / "kubeconfig"

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.state / "pki"

    @property
    def logs(self) -> Path:
        """One log file a component."""
        return self.state / "log"

    @property
    def components(self) -> Path:
        """The command line of every component, so that each can be started again."""
        return self.state / "components"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, which counts every write."""
        return self.state / "audit" / "audit.log"

    @property
    def s3_data(self) -> Path:
        """Buckets of the S3 server, which outlive its pod but not the cluster."""
        return self.state / "s3"

    @property
    def loaded_images(self) -> Path:
        """Which version of which image each node has."""
        return self.state / "images"

    def node(self, node: Node) -> Path:
        """Return the directory of one node's containerd and kubelet."""
        return self.state / node.name

    def containerd_socket(self, node: Node) -> Path:
        """Return the socket of one node's containerd."""
        return self.node(node) / "containerd.sock"

    def create(self) -> None:
        """Create the state directory and mark it as ours."""
        self.state.mkdir(mode=0o711, parents=True, exist_ok=True)
        (self.state / _MARKER).write_text("volatile state of `python -m e2e.devcluster`; removed by `down`\n")
        for folder in (self.pki, self.logs, self.components, self.audit_log.parent, self.loaded_images):
            folder.mkdir(mode=0o700, exist_ok=True)
        self.s3_data.mkdir(mode=0o777, exist_ok=True)

    def remove(self) -> None:
        """Remove the state directory, our mark last: so a removal that was broken off can be repeated."""
        if not self.state.exists():
            return
        for entry in self.state.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != _MARKER:
                entry.unlink()
        shutil.rmtree(self.state)

    def check_ours(self) -> None:
        """Refuse a state directory that holds something else, for it is about to be removed.

        Raises:
            ClusterError: The directory has content, but not our mark.
        """
        if self.state.exists() and any(self.state.iterdir()) and not (self.state / _MARKER).exists():
            raise ClusterError(f"{self.state} holds something that is not a Podtune cluster; set PODTUNE_CLUSTER_STATE")


def cache_directory() -> Path:
    """Return where built tools and images are kept between clusters."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "podtune"
