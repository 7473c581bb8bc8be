"""Has NetworkPolicies enforced on the local cluster for a while: its own network plugin enforces none without Docker.

kube-network-policies, of Kubernetes' SIG Network, decides on each new connection. It has the kernel hand over packets
by a rule of nftables that not every kernel knows (`queue`). iptables has one that does the same, so we add that.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.devcluster import Cluster
from e2e.devcluster.building import tools
from e2e.devcluster.layout import POD_NETWORK, SYSTEM_NODE
from e2e.experiments import EXAMPLES_IMAGE
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.namespaces import create_namespace

_TOOL = "kube-network-policies"
_QUEUE = 100
_CHAIN = "PODTUNE-POLICIES"
_TABLE = ["iptables", "-w", "-t", "mangle"]
_WATCHED = [
    {"apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": ["list", "watch"]},
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["list", "watch"]},
]


@contextmanager
def enforce_policies(cluster: Cluster) -> Iterator[None]:
    """Has NetworkPolicies enforced, of all namespaces, on connections that are made from now on."""
    if cluster.mode != "native":
        yield  # kind's network plugin enforces them
        return
    if shutil.which("iptables") is None:
        pytest.skip("NetworkPolicies can't be enforced here: iptables is missing")
    home = create_namespace(cluster, f"{_TOOL}-{uuid.uuid4().hex[:6]}")
    try:
        home.apply(*_describe(home.namespace, str(tools.ensure(_TOOL))))
        eventually(lambda: _decides(home), what=f"{_TOOL} decides on packets")
        with _hand_packets_over(cluster):
            yield
        print(home.kubectl("logs", _TOOL, "--tail=20"))
    finally:
        home.kubectl("delete", "clusterrole,clusterrolebinding", home.namespace, "--ignore-not-found")
        home.kubectl("delete", "namespace", home.namespace, "--wait=false")


def _describe(name: str, programs: str) -> Iterator[Object]:
    """The program's pod on the nodes' network, which is one for both nodes, and what it may see."""
    account = {"kind": "ServiceAccount", "name": _TOOL, "namespace": name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _TOOL}}
    yield {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": _WATCHED,
    }
    yield {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": role,
        "subjects": [account],
    }
    container: Object = {
        "name": "main",
        "image": EXAMPLES_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": [f"/programs/{_TOOL}", f"--hostname-override={SYSTEM_NODE.name}", f"--nfqueue-id={_QUEUE}"],
        "args": ["--metrics-bind-address=127.0.0.1:0"],
        "securityContext": {"runAsUser": 0, "runAsNonRoot": False, "capabilities": {"add": ["NET_ADMIN"]}},
        "volumeMounts": [{"name": "programs", "mountPath": "/programs", "readOnly": True}],
    }
    yield {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _TOOL},
        "spec": {
            "serviceAccountName": _TOOL,
            "hostNetwork": True,
            "nodeSelector": {"podtune.dev/role": "system"},
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [{"name": "programs", "hostPath": {"path": programs}}],
        },
    }


def _decides(home: Kubernetes) -> bool:
    """Whether it has taken the queue, which it does once it knows of all pods and policies."""
    queues = home.cluster.run(["cat", "/proc/net/netfilter/nfnetlink_queue"], check=False).stdout
    return any(line.split()[:1] == [str(_QUEUE)] for line in queues.splitlines())


@contextmanager
def _hand_packets_over(cluster: Cluster) -> Iterator[None]:
    """Has it decide on new connections of pods.

    The kubelet's own probes come from root on the node, and always pass. Were the program to end, all would. The API
    server is on the pods' router itself: what they send it is not sent on, so it takes a rule of its own.
    """
    queue = ["-j", "NFQUEUE", "--queue-num", str(_QUEUE), "--queue-bypass"]
    to_nodes = ["INPUT", "-s", POD_NETWORK, "-m", "conntrack", "--ctstate", "NEW", *queue]
    rules = [
        ["-N", _CHAIN],
        ["-A", _CHAIN, "-m", "owner", "--uid-owner", "0", "-j", "RETURN"],
        ["-A", _CHAIN, "-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "-j", "RETURN"],
        ["-A", _CHAIN, *queue],
        ["-A", "POSTROUTING", "-s", POD_NETWORK, "-j", _CHAIN],
        ["-A", "POSTROUTING", "-d", POD_NETWORK, "-j", _CHAIN],
        ["-A", *to_nodes],
    ]
    try:
        for rule in rules:
            cluster.run([*_TABLE, *rule])
        yield
    finally:
        for option in (["-s", POD_NETWORK], ["-d", POD_NETWORK]):
            cluster.run([*_TABLE, "-D", "POSTROUTING", *option, "-j", _CHAIN], check=False)
        cluster.run([*_TABLE, "-D", *to_nodes], check=False)
        for option in (["-F", _CHAIN], ["-X", _CHAIN]):
            cluster.run([*_TABLE, *option], check=False)
