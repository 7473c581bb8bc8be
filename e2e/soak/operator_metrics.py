"""The metrics of the operator that is installed, read as Prometheus reads them: by HTTPS, with a token."""

from __future__ import annotations

import base64
import http.client
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS, RELEASE
from e2e.kubernetes import Kubernetes

METRICS_PORT = 8444
METRICS_SERVER_NAME = f"{RELEASE}-results.{OPERATOR_NAMESPACE}.svc"
"""The name in the operator's certificate."""
_ROLE = f"{OPERATOR_NAMESPACE}-{RELEASE}-metrics-reader"
_TOKEN_DURATION = "3h"
"""Longer than a soak."""
_TIMEOUT = 10.0


@contextmanager
def metrics_token(operator: Kubernetes) -> Iterator[str]:
    """The token of an account that may read metrics, and nothing else; the account goes with the context."""
    reader = f"e2e-metrics-{uuid4().hex[:8]}"
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": reader}}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _ROLE}
    subject = {"kind": "ServiceAccount", "name": reader, "namespace": OPERATOR_NAMESPACE}
    operator.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": reader}},
        {**rbac, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
    )
    try:
        yield operator.kubectl("create", "token", reader, f"--duration={_TOKEN_DURATION}").strip()
    finally:
        operator.kubectl("delete", "serviceaccount", reader)
        operator.cluster.kubectl("delete", "clusterrolebinding", reader)


def read_authority(operator: Kubernetes) -> str:
    """The certificate of the authority that the operator's own one is signed by, as PEM."""
    return base64.b64decode(operator.get("secrets", f"{RELEASE}-results-tls")["data"]["ca.crt"]).decode()


@dataclass(frozen=True)
class OperatorMetrics:
    """Where one operator serves its metrics.

    Attributes:
        address: Its pod's.
        token: Of an account that may read them.
        context: Trusts its authority alone.
        port: Of the metrics.
    """

    address: str
    token: str
    context: ssl.SSLContext
    port: int = METRICS_PORT

    def read(self, name: str) -> float | None:
        """The value of a metric without labels; None where the operator has not answered, or has none of this name."""
        try:
            text = self.read_all()
        except (OSError, http.client.HTTPException):
            return None
        found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else None

    def read_all(self) -> str:
        """All metrics as text; empty where the operator has not let the token in.

        Raises:
            OSError: It can't be reached.
        """
        with (
            socket.create_connection((self.address, self.port), _TIMEOUT) as plain,
            self.context.wrap_socket(plain, server_hostname=METRICS_SERVER_NAME) as connected,
        ):
            connection = http.client.HTTPConnection(METRICS_SERVER_NAME)
            connection.sock = connected
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            return answer.read().decode() if answer.status == http.HTTPStatus.OK else ""


@contextmanager
def reading_metrics(operator: Kubernetes) -> Iterator[OperatorMetrics]:
    """The metrics of the only operator, for as long as the context lasts."""
    (pod,) = operator.list("pods", OPERATOR_PODS)
    context = ssl.create_default_context(cadata=read_authority(operator))
    with metrics_token(operator) as token:
        yield OperatorMetrics(pod["status"]["podIP"], token, context)
