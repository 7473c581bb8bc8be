"""Taking pods away, as others do on a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.devcluster import Cluster
from e2e.devcluster.node import gpus as node_gpus
from e2e.experiments import counter
from e2e.kubernetes import Kubernetes, Object, eventually


def evict(namespace: Kubernetes, pod: str) -> None:
    """Asks the eviction API to take a pod away, as `kubectl drain` does."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/{namespace.namespace}/pods/{pod}/eviction"
    namespace.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


def provide_gpus(cluster: Cluster, resource: str, count: int) -> None:
    """Gives the node that trains GPUs of a make that no other test asks for.

    So a test can use all that there are, and have pods preempted for them, while others run.
    """
    node_gpus.simulate(cluster.kubectl, cluster.node_name("n2"), count, resource=resource)


@contextmanager
def scaled_to_nothing(kubernetes: Kubernetes, deployment: str, pods: str) -> Iterator[None]:
    """A deployment is away while the context lasts."""
    kubernetes.kubectl("scale", deployment, "--replicas=0")
    try:
        eventually(lambda: not kubernetes.list("pods", pods), what=f"the pods of {deployment} are gone")
        yield
    finally:
        kubernetes.kubectl("scale", deployment, "--replicas=1")
        kubernetes.kubectl("rollout", "status", deployment, "--timeout=180s", timeout=200)


@contextmanager
def urgent_pod(namespace: Kubernetes, resource: str, gpus: int) -> Iterator[None]:
    """A pod of high priority that wants GPUs for a moment; others have to make room."""
    name = f"{namespace.namespace}-urgent"
    resources: Object = {"limits": {resource: str(gpus)}, "requests": {"cpu": "10m", "memory": "32Mi"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "urgent"},
        "spec": {
            "containers": [counter(resources=resources, command=["sleep", "3"])],
            "restartPolicy": "Never",
            "priorityClassName": name,
            "terminationGracePeriodSeconds": 1,
        },
    }
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "value": 1000,
        "metadata": {"name": name},
    }
    namespace.apply(priority)
    try:
        namespace.apply(pod)
        yield
    finally:
        namespace.kubectl("delete", "priorityclass", name, "--ignore-not-found")
