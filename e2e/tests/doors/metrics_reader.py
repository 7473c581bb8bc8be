"""Somebody who may read the operator's metrics, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS, RELEASE
from e2e.kubernetes import Kubernetes

ACCOUNT = "prometheus"
# Within the operator's pod, whose address is not that of the certificate.
READ = """
import ssl, sys, urllib.request
headers = {"Authorization": "Bearer " + sys.stdin.read()}
request = urllib.request.Request("https://127.0.0.1:8444/metrics", headers=headers)
print(urllib.request.urlopen(request, timeout=30, context=ssl._create_unverified_context()).read().decode())
"""


@contextmanager
def made_metrics_reader(namespace: Kubernetes) -> Iterator[str]:
    """The token of an account of a namespace that has the right while the context lasts."""
    namespace.kubectl("create", "serviceaccount", ACCOUNT)
    role, account = f"{OPERATOR_NAMESPACE}-{RELEASE}-metrics-reader", f"{namespace.namespace}:{ACCOUNT}"
    words = ["create", "clusterrolebinding", namespace.namespace, f"--clusterrole={role}"]
    namespace.kubectl(*words, f"--serviceaccount={account}")
    try:
        yield namespace.kubectl("create", "token", ACCOUNT).strip()
    finally:
        namespace.kubectl("delete", "clusterrolebinding", namespace.namespace)


def read_metrics(operator: Kubernetes, token: str) -> str:
    """All that the operator tells of itself."""
    (pod,) = operator.list("pods", OPERATOR_PODS)
    return operator.kubectl("exec", "-i", pod["metadata"]["name"], "--", "python3", "-c", READ, stdin=token)
