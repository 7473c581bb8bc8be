"""The two nodes: a containerd and a kubelet each, side by side in one namespace.

What two kubelets on one machine would fight over is kept apart: cgroup roots (each removes pods it does not know),
log directories, pod networks and runc's state. The device plugin directory cannot be moved; nothing here uses it
but for the mark that keeps simulated GPUs (see `gpus.find_mark`).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from e2e.devcluster.building import images
from e2e.devcluster.building.packages import CNI_PLUGINS, program
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.kubectl import Kubectl
from e2e.devcluster.layout import CLUSTER_DOMAIN, SYSTEM_NODE, Layout, Node, cluster_cgroup
from e2e.devcluster.node import cgroups, gpus
from e2e.devcluster.node.control_plane import answers
from e2e.devcluster.processes import Component

_KUBELET_STARTS = 5


def pods_cgroup(node: Node) -> str:
    """Return the cgroup that holds all pods of a node."""
    return f"{cluster_cgroup()}/{node.name}"


def start_containerd(layout: Layout, node: Node) -> None:
    """Start a node's containerd and return once it answers."""
    directory = layout.node(node)
    for name in ("cni", "runc", "podlogs"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "cni" / "10-pods.conflist").write_text(json.dumps(_cni_configuration(directory, node)))
    settings = directory / "containerd.toml"
    settings.write_text(_containerd_settings(directory, layout.containerd_socket(node)))
    component = Component(layout, node.containerd, [program("containerd"), "-c", str(settings)])
    component.start()
    wait_containerd(layout, node)


def wait_containerd(layout: Layout, node: Node) -> None:
    """Wait until a node's containerd answers."""
    component = Component.load(layout, node.containerd)
    component.wait_ready(lambda: images.runtime_answers(layout, node))


def start_kubelet(layout: Layout, node: Node, tools: Path) -> None:
    """Start a node's kubelet; the node is not registered yet when this returns."""
    directory = layout.node(node)
    cgroups.create(pods_cgroup(node))
    if node.gpus:
        gpus.find_mark().parent.mkdir(parents=True, exist_ok=True)
        gpus.find_mark().write_text("keeps the GPUs simulated by Podtune's test cluster over restarts of the kubelet\n")
    # Pods get cluster DNS or, with `dnsPolicy: Default`, this; nothing of the machine's own.
    (directory / "resolv.conf").write_text(f"nameserver {SYSTEM_NODE.address}\n")
    settings = directory / "kubelet.json"
    settings.write_text(json.dumps(_kubelet_settings(layout, node), indent=1))
    labels = ",".join(f"{key}={value}" for key, value in node.labels.items())
    Component(layout, node.kubelet, [
        f"{tools}/kubelet", f"--config={settings}", f"--kubeconfig={layout.pki}/kubelet-{node.name}.kubeconfig",
        f"--root-dir={directory}/kubelet", f"--cert-dir={directory}/kubelet-pki", f"--hostname-override={node.name}",
        f"--node-ip={node.address}", f"--node-labels={labels}",
    ]).start()  # fmt: skip


def wait_kubelet(layout: Layout, node: Node) -> None:
    """Wait until a node's kubelet says it is healthy.

    One that dies is started again, as systemd would do it: containerd answers `ctr` a moment before it answers
    kubelets, and a kubelet without an answer ends.

    Raises:
        ClusterError: It died each time, or is not healthy in time.
    """
    component = Component.load(layout, node.kubelet)
    for starts_left in reversed(range(_KUBELET_STARTS)):
        try:
            component.wait_ready(lambda: kubelet_is_healthy(node))
        except ClusterError:
            if not starts_left or component.main_process() is not None:
                raise
            component.start()
        else:
            return


def kubelet_is_healthy(node: Node) -> bool:
    """Return whether a kubelet passes its health check."""
    return answers(f"http://127.0.0.1:{node.kubelet_health_port}/healthz")


def wait_ready(layout: Layout, node: Node, kubectl: Kubectl, seconds: float = 240) -> None:
    """Wait until the API server holds a node for Ready, and has its GPUs."""
    component = Component.load(layout, node.kubelet)
    component.wait_ready(lambda: _says_ready(node, kubectl), seconds)
    if node.gpus:
        gpus.simulate(kubectl, node.name, node.gpus, seconds)


def is_ready(node: Node, kubectl: Kubectl) -> bool:
    """Return whether the API server holds a node for Ready and takes pods for it, with all its GPUs."""
    return (
        _says_ready(node, kubectl)
        and not _is_closed(node, kubectl)
        and gpus.allocatable(kubectl, node.name) == node.gpus
    )


def _is_closed(node: Node, kubectl: Kubectl) -> bool:
    """Whether a test that was killed has left the node tainted, or cordoned."""
    return bool(kubectl("get", "node", node.name, "-o", "jsonpath={.spec.taints}{.spec.unschedulable}"))


def _says_ready(node: Node, kubectl: Kubectl) -> bool:
    path = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
    return kubectl("get", "node", node.name, "--ignore-not-found", "-o", path) == "True"


def _cni_configuration(directory: Path, node: Node) -> dict[str, object]:
    bridge = {
        "type": "bridge",
        "bridge": f"pods-{node.name}",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(directory / "cni-addresses"),
            "ranges": [[{"subnet": node.pod_subnet}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return {"cniVersion": "0.4.0", "name": f"podtune-{node.name}", "plugins": plugins}


def _containerd_settings(directory: Path, socket: Path) -> str:
    # restrict_oom_score_adj: runc fails with "can't get final child's PID" where root lacks CAP_SYS_RESOURCE.
    # netns_mounts_under_state_dir: pods' namespaces are then found, and unmounted, by their path.
    return f"""
version = 2
root = "{directory}/containerd"
state = "{directory}/containerd-state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{images.PAUSE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{directory}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = "{directory}/runc"
"""


def _kubelet_settings(layout: Layout, node: Node) -> dict[str, object]:
    directory = layout.node(node)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0",
        "port": node.kubelet_port,
        "healthzPort": node.kubelet_health_port,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{pods_cgroup(node)}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket(node)}",
        "clusterDNS": [SYSTEM_NODE.address],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": str(directory / "resolv.conf"),
        "podLogsDir": str(directory / "podlogs"),
        "volumePluginDir": str(directory / "volume-plugins"),
        "maxPods": 250,
        "serializeImagePulls": False,
        # Loss of a node is noticed 20 s after its last lease, which is renewed every quarter of this.
        "nodeLeaseDurationSeconds": 20,
        "nodeStatusUpdateFrequency": "4s",
        # By default a volume that is too full is noticed after one to two minutes.
        "volumeStatsAggPeriod": "10s",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": int(Path(f"/proc/{os.getpid()}/oom_score_adj").read_text()),
    }
