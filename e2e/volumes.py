"""Volumes for tests: the local cluster provisions none, so tests bring their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from e2e.devcluster import Cluster
from e2e.experiments import EXAMPLES_IMAGE, RESTRICTED
from e2e.kubernetes import Kubernetes, Object, eventually

AGENT = 60532


@contextmanager
def provide_volume(cluster: Cluster, name: str, access_mode: str) -> Iterator[str]:
    """A storage class of this name with one volume, on the node that trains.

    It is made writable for the agent, as a provisioner's would be.
    """
    path = f"/var/tmp/{name}"
    (node, *_) = cluster.kubectl("get", "nodes", "-l", "podtune.dev/role=work", "-o", "name").split()
    node = node.removeprefix("node/")
    host = Kubernetes(cluster, "default")
    program = f"import os; os.chown('/volume', 0, {AGENT}); os.chmod('/volume', 0o2775)"
    volume = {"name": "volume", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
    preparation: Object = {
        "nodeName": node,
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "chown",
                "image": EXAMPLES_IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-c", program],
                "securityContext": {"runAsUser": 0, "runAsNonRoot": False},
                "volumeMounts": [{"name": "volume", "mountPath": "/volume"}],
            }
        ],
        "volumes": [volume],
    }
    host.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": preparation})
    try:
        eventually(lambda: host.get("pods", name)["status"]["phase"] == "Succeeded", what="the volume is not prepared")
        of_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec: Object = {
            "storageClassName": name,
            "capacity": {"storage": "1Gi"},
            "accessModes": [access_mode],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": volume["hostPath"],
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [of_node]}]}},
        }
        host.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
        yield name
    finally:
        host.kubectl("delete", "pod", name, "--wait=false", "--ignore-not-found")
        cluster.kubectl("delete", "persistentvolume", name, "--wait=false", "--ignore-not-found")


def make_claim(namespace: Kubernetes, name: str, storage_class: str, access_mode: str) -> None:
    """A PersistentVolumeClaim for the volume of a class."""
    spec = {
        "storageClassName": storage_class,
        "accessModes": [access_mode],
        "resources": {"requests": {"storage": "100Mi"}},
    }
    namespace.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec})


def set_free(cluster: Cluster, name: str) -> None:
    """Lets a volume whose claim was deleted be claimed anew, as an administrator does who saves what is on it."""
    get = ("get", "persistentvolume", name, "-o", "jsonpath={.status.phase}")
    eventually(lambda: cluster.kubectl(*get), lambda phase: phase == "Released", what="its claim is gone")
    patch = '[{"op": "remove", "path": "/spec/claimRef"}]'
    cluster.kubectl("patch", "persistentvolume", name, "--type=json", "-p", patch)


class Volume:
    """What lies on the volume of a claim, as a pod sees it that mounts it."""

    def __init__(self, namespace: Kubernetes, claim: str) -> None:
        self._namespace = namespace
        container = {
            "name": "reader",
            "image": EXAMPLES_IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python3", "-c", "import time; time.sleep(3600)"],
            "securityContext": RESTRICTED | {"runAsGroup": AGENT},
            "volumeMounts": [{"name": "volume", "mountPath": "/volume", "readOnly": True}],
        }
        mounted = {"name": "volume", "persistentVolumeClaim": {"claimName": claim}}
        spec = {"containers": [container], "volumes": [mounted], "terminationGracePeriodSeconds": 0}
        namespace.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reader"}, "spec": spec})
        eventually(lambda: namespace.get("pods", "reader")["status"]["phase"] == "Running", what="the reader runs")

    def list(self, folder: str = "") -> list[str]:
        """All files, relative to the volume."""
        program = (
            "import pathlib; p = pathlib.Path('/volume'); "
            f"print(*(f.relative_to(p) for f in (p / '{folder}').rglob('*') if f.is_file()), sep='\\n')"
        )
        return sorted(self._run(program).split())

    def read(self, path: str) -> Any:
        """A file of JSON."""
        return json.loads(self._run(f"print(open('/volume/{path}').read())"))

    def _run(self, program: str) -> str:
        return self._namespace.kubectl("exec", "reader", "--", "python3", "-c", program)
