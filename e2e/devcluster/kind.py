"""The same cluster as containers, with kind, where Docker runs (Linux).

The test-suite has not exercised this module: the machines it runs on have no Docker. That holds for every function
here. What it shares with the cluster without Docker (simulated GPUs, the S3 server and its client, kubectl, building
the tools) is exercised there. Fake nodes for scale tests are not offered here: those tests compare components by
their own processor time, which takes the cluster without Docker.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import cache
from pathlib import Path

from e2e.devcluster.building import images, tools
from e2e.devcluster.building.builds import short_name
from e2e.devcluster.cluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.kubectl import Kubectl, bind
from e2e.devcluster.layout import NODES, SYSTEM_NODE, WORK_NODE, Layout, node_named
from e2e.devcluster.node import gpus, storage
from e2e.devcluster.node.control_plane import AUDIT_POLICY
from e2e.devcluster.node.storage import S3Access, S3Client
from e2e.devcluster.processes import run
from e2e.devcluster.progress import screen
from e2e.devcluster.side_by_side import Step
from e2e.devcluster.versions import choose_other

_NAME = "podtune-e2e"
_CONTAINERS = {SYSTEM_NODE.name: f"{_NAME}-worker", WORK_NODE.name: f"{_NAME}-worker2"}
_BUSYBOX_SOURCE = "busybox:1.37"
_S3_DATA = "/var/lib/podtune-s3"
_AUDIT = "/var/log/podtune-audit"


class KindCluster(Cluster):
    """See `Cluster`."""

    mode = "kind"
    tools = "clients"

    @property
    def enter(self) -> list[str]:
        return []

    def inside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def node_name(self, node: str) -> str:
        return _CONTAINERS[node_named(node).name]

    def build_image(self, dockerfile: Path, target: str, tag: str, context: Path | None = None) -> str:
        build_image(dockerfile, target, tag, {}, context)
        return run(["docker", "image", "inspect", "--format", "{{.Id}}", tag]).strip().removeprefix("sha256:")[:16]

    def load_image(self, tag: str) -> list[str]:
        _kind("load", "docker-image", tag)
        return [node.name for node in NODES]

    def node_processes(self, node: str) -> dict[str, list[int]]:
        lines = run(["docker", "top", self.node_name(node), "-eo", "pid,comm"]).splitlines()[1:]
        found: dict[str, list[int]] = {"kubelet": [], "containerd": [], "shims": [], "pods": []}
        for pid, name in (line.split(maxsplit=1) for line in lines):
            role = "shims" if name.startswith("containerd-shim") else name if name in found else "pods"
            found[role].append(int(pid))
        return found

    def kill_kubelet(self, node: str) -> None:
        # Killed alone, systemd would start it again.
        run(["docker", "exec", self.node_name(node), "systemctl", "stop", "kubelet"])

    def start_kubelet(self, node: str) -> None:
        run(["docker", "exec", self.node_name(node), "systemctl", "start", "kubelet"])
        self._wait_ready(node)

    def kill_node(self, node: str) -> None:
        run(["docker", "kill", self.node_name(node)])

    def start_node(self, node: str) -> None:
        run(["docker", "start", self.node_name(node)])
        self._wait_ready(node)

    def add_kwok_nodes(self, count: int) -> None:
        raise ClusterError("fake nodes need the cluster without Docker: PODTUNE_CLUSTER_MODE=native")

    def remove_kwok_nodes(self) -> None:
        return

    def _wait_ready(self, node: str) -> None:
        _wait_ready(self.kubectl, node)


@cache
def is_used() -> bool:
    """Return whether Docker runs here; ``PODTUNE_CLUSTER_MODE`` (``kind`` or ``native``) overrules it.

    Other versions than that of all tests run without Docker everywhere.
    """
    if choose_other() is not None:
        return False
    mode = os.environ.get("PODTUNE_CLUSTER_MODE")
    if mode is not None:
        return mode == KindCluster.mode
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def up(layout: Layout) -> None:
    """Make sure that a healthy cluster runs, as `native.up` does."""
    if layout.description.exists() and not problems(layout):
        print("the cluster is up and healthy", flush=True)
        return
    down(layout)
    layout.create()
    binaries = tools.ensure("clients")
    policy = layout.audit_log.parent / "policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    configuration = layout.state / "kind.json"
    configuration.write_text(json.dumps(cluster_configuration(layout), indent=1))
    _kind("create", "cluster", f"--config={configuration}", f"--kubeconfig={layout.kubeconfig}", "--wait=180s")
    run(["docker", "pull", "-q", _BUSYBOX_SOURCE], timeout=600)
    run(["docker", "tag", _BUSYBOX_SOURCE, images.BUSYBOX])
    _kind("load", "docker-image", images.BUSYBOX)
    _kind("load", "image-archive", str(images.s3_server(binaries).path))
    kubectl = bind(binaries / "kubectl", layout.kubeconfig)
    for node in NODES:
        container = _CONTAINERS[node.name]
        if node.gpus:
            run(["docker", "exec", container, "mkdir", "-p", gpus.DEVICE_PLUGINS])
            run(["docker", "exec", container, "touch", gpus.find_mark()])
        _wait_ready(kubectl, node.name)
    access = S3Access.generate("127.0.0.1")
    storage.start(kubectl, access, _S3_DATA, S3Client(access))
    layout.description.touch(mode=0o600)
    layout.description.write_text(json.dumps({"mode": KindCluster.mode, "s3": asdict(access)}))


def steps_before_up() -> list[Step]:
    """Return what of the cluster can be made before it is up, as `native.steps_before_up` does."""
    return tools.steps(["clients"] if shutil.which("kind") else ["clients", "kind"])


def down(layout: Layout) -> None:
    """Remove the cluster."""
    layout.check_ours()
    _kind("delete", "cluster")
    if layout.state.exists():
        shutil.rmtree(layout.state)


def problems(layout: Layout) -> list[str]:
    """Return what is wrong with the cluster, one line each."""
    if _NAME not in _kind("get", "clusters").split():
        return ["kind has no such cluster"]
    found = []
    kubectl = bind(tools.ensure("clients") / "kubectl", layout.kubeconfig)
    for node in NODES:
        container = _CONTAINERS[node.name]
        path = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
        if kubectl("get", "node", container, "-o", path) != "True" or gpus.allocatable(kubectl, container) != node.gpus:
            found.append(f"node {container}: not Ready, or without its GPUs")
    description = json.loads(layout.description.read_text())
    if not S3Client(S3Access(**description["s3"])).bucket_exists():
        found.append("S3: the bucket cannot be reached")
    return found


def build_image(dockerfile: Path, target: str, tag: str, arguments: Mapping[str, str], context: Path | None) -> None:
    """Build an image with Docker, on the base image the Dockerfile names itself."""
    options = [word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")]
    folder = context or dockerfile.absolute().parent
    with screen.task(short_name(tag)):
        run(["docker", "build", "--target", target, "-t", tag, *options, "-f", dockerfile, folder], timeout=1800)


def cluster_configuration(layout: Layout) -> dict[str, object]:
    """Return kind's configuration: a control plane that keeps an audit log, and two workers."""
    patch = f"""
kind: ClusterConfiguration
apiServer:
  extraArgs:
    audit-policy-file: {_AUDIT}/policy.json
    audit-log-path: {_AUDIT}/audit.log
  extraVolumes:
  - {{name: audit, hostPath: {_AUDIT}, mountPath: {_AUDIT}, readOnly: false, pathType: DirectoryOrCreate}}
controllerManager:
  extraArgs:
    node-monitor-grace-period: 20s
"""
    port = {"containerPort": storage.NODE_PORT, "hostPort": storage.NODE_PORT, "listenAddress": "127.0.0.1"}
    workers: list[dict[str, object]] = [{"role": "worker", "labels": node.labels} for node in NODES]
    workers[0]["extraPortMappings"] = [port]
    mounts = [{"hostPath": str(layout.audit_log.parent), "containerPath": _AUDIT}]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": _NAME,
        "nodes": [{"role": "control-plane", "kubeadmConfigPatches": [patch], "extraMounts": mounts}, *workers],
    }


def _wait_ready(kubectl: Kubectl, node: str) -> None:
    container = _CONTAINERS[node]
    kubectl("wait", "--for=condition=Ready", f"node/{container}", "--timeout=120s", timeout=130)
    if node_named(node).gpus:
        gpus.simulate(kubectl, container, node_named(node).gpus)


def _kind(*arguments: str) -> str:
    program = shutil.which("kind") or str(tools.ensure("kind") / "kind")
    named = [] if arguments[:2] == ("get", "clusters") else [f"--name={_NAME}"]
    return run([program, *arguments, *named], timeout=900)
