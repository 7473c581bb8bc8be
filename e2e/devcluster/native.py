"""The cluster made of processes on this machine: two nodes in a network namespace, no Docker."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path

from e2e.devcluster import cleanup
from e2e.devcluster.building import archives, builds, images, packages, tools
from e2e.devcluster.cluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.kubectl import Kubectl, bind
from e2e.devcluster.layout import NODES, SYSTEM_NODE, Layout, Node, node_named
from e2e.devcluster.node import certificates, cgroups, control_plane, kwok, network, nodes, storage
from e2e.devcluster.node.storage import S3Access, S3Client
from e2e.devcluster.processes import Component
from e2e.devcluster.side_by_side import Step


class NativeCluster(Cluster):
    """See `Cluster`."""

    mode = "native"
    tools = "cluster"

    @property
    def enter(self) -> list[str]:
        return network.enter_command()

    def inside(self) -> AbstractContextManager[None]:
        return network.inside()

    def node_name(self, node: str) -> str:
        return node_named(node).name

    def build_image(self, dockerfile: Path, target: str, tag: str, context: Path | None = None) -> str:
        return builds.build_image(dockerfile, target, tag, context=context).key

    def load_image(self, tag: str) -> list[str]:
        return images.load(self.layout, archives.current(tag))

    def node_processes(self, node: str) -> dict[str, list[int]]:
        found = node_named(node)
        kubelet, containerd = self._components(found)
        runtime = containerd.main_process()
        return {
            "kubelet": kubelet.processes(),
            "containerd": [] if runtime is None else [runtime],
            "shims": [pid for pid in containerd.processes() if pid != runtime],
            "pods": sorted(cgroups.processes(nodes.pods_cgroup(found))),
        }

    def kill_component(self, name: str) -> None:
        """Kill any component, such as ``kube-apiserver``, with SIGKILL."""
        Component.load(self.layout, name).kill()

    def start_component(self, name: str) -> None:
        """Start a killed component as it was, and wait until it answers."""
        component = Component.load(self.layout, name)
        if component.main_process() is None:
            component.start()
        if name in control_plane.COMPONENTS:
            component.wait_ready(lambda: control_plane.check_running(self.layout, name) is None)

    def kill_kubelet(self, node: str) -> None:
        self.kill_component(node_named(node).kubelet)

    def start_kubelet(self, node: str) -> None:
        found = node_named(node)
        self.start_component(found.kubelet)
        nodes.wait_kubelet(self.layout, found)
        nodes.wait_ready(self.layout, found, self.kubectl)

    def kill_node(self, node: str) -> None:
        found = node_named(node)
        for component in self._components(found):
            cgroups.kill_all(component.cgroup)
        cgroups.kill_all(nodes.pods_cgroup(found))

    def start_node(self, node: str) -> None:
        found = node_named(node)
        self.start_component(found.containerd)
        nodes.wait_containerd(self.layout, found)
        self.start_kubelet(node)

    def lose_etcd(self) -> None:
        """Throw away all that the API server knows, and start anew what does not depend on it: an empty cluster.

        The data of nodes and the bucket stay. What runs on the nodes is killed by their kubelets: nobody knows it now.
        """
        control_plane.lose_etcd(self.layout)
        for node in NODES:
            self.kill_kubelet(node.name)  # it registers its node when it starts, and never again
            self.start_kubelet(node.name)
        self.start_component(control_plane.PROXY)
        storage.start(self.kubectl, self.s3, str(self.layout.s3_data), self.s3_client)

    def add_kwok_nodes(self, count: int) -> None:
        kwok.add(self.layout, self.kubectl, count)

    def remove_kwok_nodes(self) -> None:
        kwok.remove(self.layout, self.kubectl)

    def _components(self, node: Node) -> tuple[Component, Component]:
        return Component.load(self.layout, node.kubelet), Component.load(self.layout, node.containerd)


def up(layout: Layout) -> None:
    """Make sure that a healthy cluster runs: return at once if it does, else build it from nothing."""
    tools.ensure("kwok")  # whoever adds fake nodes may do so beside the cluster, where there is no network to build it
    if layout.description.exists() and not problems(layout):
        print("the cluster is up and healthy", flush=True)
        return
    _refuse_without_root()
    packages.ensure_cluster()
    binaries = tools.ensure()
    began = time.monotonic()
    bundled = images.bundled(binaries)
    cleanup.remove(layout)
    layout.create()
    cgroups.create(cgroups.components_cgroup())
    network.create()
    certificates.create(layout)
    kubectl = _kubectl(layout, binaries)
    access = S3Access.generate(SYSTEM_NODE.address)
    with ThreadPoolExecutor() as pool:
        runtimes = [pool.submit(_start_runtime, layout, node, bundled) for node in NODES]
        control_plane.start(layout, binaries)
        for node in NODES:
            # A kubelet needs its node's runtime within seconds, but not its images.
            nodes.start_kubelet(layout, node, binaries)
        _all(runtimes)
        client = S3Client(access, network.inside)
        s3 = pool.submit(storage.start, kubectl, access, str(layout.s3_data), client)
        _all([pool.submit(nodes.wait_ready, layout, node, kubectl) for node in NODES])
        control_plane.start_proxy(layout, binaries)
        s3.result()
    layout.description.touch(mode=0o600)
    layout.description.write_text(json.dumps({"mode": NativeCluster.mode, "s3": asdict(access)}))
    simulated = ", ".join(f"{node.gpus} on {node.name}" for node in NODES if node.gpus)
    print(f"the cluster is up after {time.monotonic() - began:.0f} s; GPUs are simulated: {simulated}", flush=True)


def steps_before_up() -> list[Step]:
    """Return what of the cluster can be made before it is up, and takes long; nothing where all of it is there.

    Raises:
        ClusterError: We may not start a cluster on this machine.
    """
    steps = tools.steps(["cluster", "kwok"])
    if steps:
        _refuse_without_root()
    return steps


def _refuse_without_root() -> None:
    if os.geteuid() != 0:
        raise ClusterError("a cluster without Docker needs root: network namespaces, mounts and cgroups")


def down(layout: Layout) -> None:
    """Remove the cluster, in whatever state it is."""
    if os.geteuid() != 0:
        raise ClusterError("only root can remove the cluster")
    cleanup.remove(layout)


def problems(layout: Layout) -> list[str]:
    """Return what is wrong with the cluster, one line each; nothing when it is healthy."""
    if not network.exists():
        return ["the network namespace does not exist"]
    found = [
        f"{name}: {wrong}" for name in control_plane.COMPONENTS if (wrong := control_plane.check_running(layout, name))
    ]
    for node in NODES:
        if not nodes.kubelet_is_healthy(node):
            found.append(f"{node.kubelet}: does not answer")
        if not images.runtime_answers(layout, node):
            found.append(f"{node.containerd}: does not answer")
    if found:
        # What follows goes through all of these.
        return found
    binaries = tools.installed()
    if binaries is None:
        return ["the tools are gone from the cache"]
    kubectl = _kubectl(layout, binaries)
    unready = [node for node in NODES if not nodes.is_ready(node, kubectl)]
    found = [f"node {node.name}: not Ready, tainted, cordoned, or without its GPUs" for node in unready]
    description = json.loads(layout.description.read_text())
    if not S3Client(S3Access(**description["s3"]), network.inside).bucket_exists():
        found.append("S3: the bucket cannot be reached")
    return found


def _start_runtime(layout: Layout, node: Node, bundled: list[archives.Archive]) -> None:
    nodes.start_containerd(layout, node)
    for archive in bundled:
        if archive.tag != images.s3_tag() or node == SYSTEM_NODE:
            images.load(layout, archive, [node])


def _kubectl(layout: Layout, binaries: Path) -> Kubectl:
    return bind(binaries / "kubectl", layout.kubeconfig, network.enter_command())


def _all(futures: list[Future[None]]) -> None:
    for future in futures:
        future.result()
