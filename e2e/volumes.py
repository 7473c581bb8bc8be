"""Volumes for tests: the local cluster provisions none, so tests bring their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.devcluster import Cluster
from e2e.experiments import EXAMPLES_IMAGE
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
        eventually(lambda: host.get("pod", name)["status"]["phase"] == "Succeeded", what="the volume is not prepared")
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
