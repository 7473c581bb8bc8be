"""A namespace of their own on the local cluster (`python -m e2e.devcluster up`), and clients of its API server.

Run as `python -m e2e.devcluster exec -- pytest tests/component/cluster tests/component/results`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from e2e.namespaces import run_label
from podtune.cluster.client import KubernetesClient, read_if_there

Manifest = dict[str, Any]

IMAGE = "localhost/busybox:1"
RESTRICTED: Manifest = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture
async def client() -> AsyncIterator[KubernetesClient]:
    client = await KubernetesClient.connect(random.Random())
    yield client
    await client.close()


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    """A namespace in which Pod Security "restricted" is enforced."""
    name = f"podtune-component-{uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted", **run_label()}
    asyncio.run(_with_client(lambda client: _make(client, name, labels)))
    yield name
    asyncio.run(_with_client(lambda client: client.request("DELETE", f"/api/v1/namespaces/{name}")))


@pytest.fixture
async def pod(client: KubernetesClient, namespace: str) -> Callable[[str, str], Any]:
    """Runs a shell command in a pod, and waits until it runs."""

    async def run(name: str, command: str) -> Manifest:
        container = {
            "name": "main",
            "image": IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", command],
            "securityContext": RESTRICTED,
        }
        spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
        body = {"metadata": {"name": name}, "spec": spec}
        await client.request("POST", f"/api/v1/namespaces/{namespace}/pods", body=body)
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        return await wait_for(client, path, lambda body: body["status"]["phase"] != "Pending")

    return run


async def wait_for(client: KubernetesClient, path: str, holds: Callable[[Manifest], bool]) -> Manifest:
    """Reads an object until something holds of it."""
    async with asyncio.timeout(60):
        while True:
            body = await client.request("GET", path)
            if holds(body):
                return body
            await asyncio.sleep(0.2)


async def _with_client(act: Callable[[KubernetesClient], Any]) -> None:
    client = await KubernetesClient.connect(random.Random())
    try:
        await act(client)
    finally:
        await client.close()


async def _make(client: KubernetesClient, name: str, labels: dict[str, str]) -> None:
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name, "labels": labels}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    async with asyncio.timeout(60):
        while True:
            if await read_if_there(client, account) is not None:
                return
            await asyncio.sleep(0.1)
