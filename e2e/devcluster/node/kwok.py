"""Fake nodes for scale tests: kwok pretends that their pods run and complete."""

from __future__ import annotations

import json
from pathlib import Path

from e2e.devcluster.building import tools
from e2e.devcluster.kubectl import Kubectl
from e2e.devcluster.layout import Layout
from e2e.devcluster.node import gpus
from e2e.devcluster.processes import Component, wait_until

_STAGES = Path(__file__).parents[1] / "manifests" / "kwok-stages.yaml"
_NAME = "kwok"
TAINT = "kwok.x-k8s.io/node"
_SELECTOR = f"{TAINT}=fake"
PLAYED = "e2e/played"
"""Label of the fake nodes: kwok leaves the pods that select it alone, and somebody else plays their kubelet."""
_CAPACITY = {"cpu": "64", "memory": "512Gi", "pods": "1000", gpus.RESOURCE: "8"}


def add(layout: Layout, kubectl: Kubectl, count: int) -> None:
    """Start kwok, add fake nodes and wait until all are Ready."""
    component = Component(layout, _NAME, [
        f"{tools.ensure('kwok')}/kwok", f"--kubeconfig={layout.kubeconfig}", f"--config={_STAGES}",
        f"--manage-nodes-with-label-selector={_SELECTOR}", "--manage-all-nodes=false", "--cidr=10.245.0.0/16",
        "--node-lease-duration-seconds=40", "--enable-crds=",
    ])  # fmt: skip
    if component.main_process() is None:
        component.start()
    fakes = {"apiVersion": "v1", "kind": "List", "items": [_node(index) for index in range(count)]}
    kubectl("apply", "-f", "-", stdin=json.dumps(fakes), timeout=300)

    def ready() -> bool:
        path = '{range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
        listed = kubectl("get", "nodes", "-l", _SELECTOR, "-o", f"jsonpath={path}")
        return listed.split().count("True") >= count

    component.wait_ready(ready, 60 + count / 10)


def remove(layout: Layout, kubectl: Kubectl) -> None:
    """Remove the fake nodes and their pods, then stop kwok."""
    listed = json.loads(kubectl("get", "pods", "-A", "-o", "json"))
    fakes = kubectl("get", "nodes", "-l", _SELECTOR, "-o", "name").split()
    names = {name.removeprefix("node/") for name in fakes}
    stranded: dict[str, list[str]] = {}
    for pod in listed["items"]:
        if pod["spec"].get("nodeName") in names:
            stranded.setdefault(pod["metadata"]["namespace"], []).append(pod["metadata"]["name"])
    for namespace, pods in stranded.items():
        objects = {
            "apiVersion": "v1",
            "kind": "List",
            "items": [
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}} for name in pods
            ],
        }
        kubectl(
            "delete", "-f", "-", "--force", "--grace-period=0", "--wait=false",
            "--ignore-not-found", stdin=json.dumps(objects), timeout=300,
        )  # fmt: skip
    kubectl("delete", "nodes", "-l", _SELECTOR, "--wait=false", timeout=300)
    wait_until(
        lambda: not kubectl("get", "nodes", "-l", _SELECTOR, "-o", "name").strip(),
        "fake nodes remain", 60,
    )  # fmt: skip
    Component.load(layout, _NAME).kill()


def _node(index: int) -> dict[str, object]:
    name = f"kwok-{index}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {TAINT: "fake", "kubernetes.io/hostname": name, "podtune.dev/role": "fake", PLAYED: "true"},
            "annotations": {TAINT: "fake"},
        },
        "spec": {"taints": [{"key": TAINT, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"capacity": _CAPACITY, "allocatable": _CAPACITY},
    }
