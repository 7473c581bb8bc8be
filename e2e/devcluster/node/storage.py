"""The S3 server of the cluster: versitygw in a pod, and a client small enough for the standard library."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import secrets
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from urllib.parse import quote, urlencode, urlsplit

from e2e.devcluster.building.images import s3_tag
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.kubectl import Kubectl
from e2e.devcluster.processes import wait_until

NAMESPACE = "s3"
NODE_PORT = 30900
BUCKET = "podtune"
_PORT = 9000
_REGION = "us-east-1"
_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class S3Access:
    """How to reach the bucket, from outside the cluster's network and from pods."""

    endpoint: str
    access_key: str
    secret_key: str
    cluster_endpoint: str = f"http://s3.{NAMESPACE}.svc:{_PORT}"
    bucket: str = BUCKET
    region: str = _REGION

    @classmethod
    def generate(cls, address: str) -> S3Access:
        """Make new credentials for a server at a node's address."""
        return cls(f"http://{address}:{NODE_PORT}", secrets.token_hex(8), secrets.token_hex(20))

    def environment(self) -> dict[str, str]:
        """Return it as the environment variables that tests and benchmarks read."""
        return {
            "PODTUNE_S3_ENDPOINT": self.endpoint,
            "PODTUNE_S3_CLUSTER_ENDPOINT": self.cluster_endpoint,
            "PODTUNE_S3_BUCKET": self.bucket,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": self.region,
        }


def manifest(access: S3Access, data_directory: str) -> str:
    """Return the objects of the S3 server, for ``kubectl apply``.

    Args:
        access: The credentials it shall take.
        data_directory: Where on the node the buckets are; they outlive the pod.
    """
    labels = {"app": "s3"}
    container = {
        "name": "versitygw",
        "image": s3_tag(),
        "imagePullPolicy": "Never",
        "args": ["--port", f":{_PORT}", "--health", "/health", "--region", access.region, "posix", "/data"],
        "envFrom": [{"secretRef": {"name": "s3-root"}}],
        "ports": [{"containerPort": _PORT}],
        # A busy machine is no reason to take it out of its Service.
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": _PORT},
            "periodSeconds": 1,
            "timeoutSeconds": 10,
            "failureThreshold": 10,
        },
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pod = {
        "nodeSelector": {"podtune.dev/role": "system"},
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": "data", "hostPath": {"path": data_directory, "type": "DirectoryOrCreate"}}],
    }
    items = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s3-root", "namespace": NAMESPACE},
            "stringData": {"ROOT_ACCESS_KEY": access.access_key, "ROOT_SECRET_KEY": access.secret_key},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s3", "namespace": NAMESPACE},
            "spec": {
                "type": "NodePort",
                "selector": labels,
                "ports": [{"port": _PORT, "targetPort": _PORT, "nodePort": NODE_PORT}],
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "s3", "namespace": NAMESPACE},
            "spec": {
                "replicas": 1,
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


class S3Client:
    """Requests signed with Signature Version 4, for checks and set-up; not a client for products.

    Args:
        access: Where the server is, and who we are.
        inside: Enters the network the server is reached from.
    """

    def __init__(self, access: S3Access, inside: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self._access = access
        self._inside = inside

    def answers(self) -> bool:
        """Return whether the server answers, with whatever."""
        return self._head_bucket() is not None

    def bucket_exists(self) -> bool:
        """Return whether the server answers and has the bucket."""
        return self._head_bucket() == HTTPStatus.OK

    def create_bucket(self) -> None:
        """Create the bucket."""
        self._request("PUT", f"/{self._access.bucket}")

    def put(self, key: str, body: bytes) -> None:
        """Store an object."""
        self._request("PUT", f"/{self._access.bucket}/{key}", body)

    def get(self, key: str) -> bytes:
        """Return an object's content."""
        return self._request("GET", f"/{self._access.bucket}/{key}")

    def list(self, prefix: str) -> list[str]:
        """Return the keys that start with a prefix, sorted."""
        found: list[str] = []
        while True:
            query = urlencode(
                sorted({"list-type": "2", "prefix": prefix, "start-after": found[-1] if found else ""}.items()),
                quote_via=quote,
                safe="",
            )
            page = _keys(self._request("GET", f"/{self._access.bucket}", query=query))
            if not page:
                return found
            found += page

    def uploads(self, prefix: str) -> Sequence[str]:
        """Return the keys of the uploads in parts that were begun and neither completed nor aborted."""
        query = urlencode({"prefix": prefix, "uploads": ""}, quote_via=quote, safe="")
        return _keys(self._request("GET", f"/{self._access.bucket}", query=query))

    def _head_bucket(self) -> int | None:
        try:
            return self._send("HEAD", f"/{self._access.bucket}")[0]
        except (OSError, http.client.HTTPException):
            return None

    def _request(self, method: str, path: str, body: bytes = b"", query: str = "") -> bytes:
        status, answer = self._send(method, path, body, query)
        if status != HTTPStatus.OK:
            raise ClusterError(f"S3: {method} {path}?{query}: {status} {answer[:300].decode(errors='replace')}")
        return answer

    def _send(self, method: str, path: str, body: bytes = b"", query: str = "") -> tuple[int, bytes]:
        address = urlsplit(self._access.endpoint)
        headers = sign(self._access, method, path, body, datetime.now(UTC), query=query)
        with self._inside():
            connection = http.client.HTTPConnection(address.netloc, timeout=10)
            try:
                connection.request(method, quote(path) + (f"?{query}" if query else ""), body, headers)
                response = connection.getresponse()
                return response.status, response.read()
            finally:
                connection.close()


def _keys(answer: bytes) -> list[str]:
    return [element.text or "" for element in ET.fromstring(answer).iter() if element.tag.endswith("}Key")]


def start(kubectl: Kubectl, access: S3Access, data_directory: str, client: S3Client) -> None:
    """Deploy the server, wait until it is reached as tests will reach it, and create the bucket unless it is there.

    Args:
        kubectl: Reaches the cluster.
        access: The credentials the server shall take.
        data_directory: Where on the node the buckets are; they outlive the pod.
        client: Reaches the server.
    """
    kubectl("apply", "-f", "-", stdin=manifest(access, data_directory))
    kubectl("rollout", "status", "deployment/s3", "-n", NAMESPACE, "--timeout=90s")
    # kube-proxy follows the pod's readiness within a second or so.
    wait_until(client.answers, f"the S3 server cannot be reached at {access.endpoint}", 30)
    if not client.bucket_exists():
        client.create_bucket()


def sign(access: S3Access, method: str, path: str, body: bytes, now: datetime, *, query: str = "") -> Mapping[str, str]:
    """Return the headers that authorize a request; its query is given as it is sent, with its names sorted.

    Signature Version 4 as in the Amazon S3 API reference, "Authenticating Requests (AWS Signature Version 4)".
    """
    timestamp = now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{timestamp[:8]}/{access.region}/s3/aws4_request"
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": urlsplit(access.endpoint).netloc, "x-amz-content-sha256": digest, "x-amz-date": timestamp}
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    canonical = f"{method}\n{quote(path)}\n{query}\n{lines}\n{names}\n{digest}"
    text = f"{_ALGORITHM}\n{timestamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{access.secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"{access.access_key}/{scope}"
    return {
        **headers,
        "authorization": f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}",
    }
