"""A real pod's token, as its agent has it, is believed, and any other is not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from podtune.cluster.client import KubernetesClient
from podtune.results.authentication import Authenticator, Caller, Unauthenticated

pytestmark = pytest.mark.cluster


async def token(client: KubernetesClient, namespace: str, audience: str, pod: dict[str, Any] | None) -> str:
    """A token, as the kubelet gets it for a projected volume."""
    bound = {}
    if pod is not None:
        metadata = pod["metadata"]
        reference = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        bound = {"boundObjectRef": reference}
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [audience], "expirationSeconds": 600, **bound},
    }
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    made = await client.request("POST", path, body=body)
    return str(made["status"]["token"])


async def test_a_pods_token_tells_which_pod_it_is(
    client: KubernetesClient, namespace: str, pod: Callable[[str, str], Any]
) -> None:
    body = await pod("digits-0-1", "sleep 1000")
    authenticator = Authenticator(client, time.monotonic)
    good = await token(client, namespace, "podtune.dev/results", body)
    assert await authenticator.authenticate(f"Bearer {good}") == Caller(
        namespace, "digits-0-1", body["metadata"]["uid"]
    )

    others = {
        "not valid for the audience": await token(client, namespace, "https://kubernetes.default.svc", body),
        "not bound to a pod": await token(client, namespace, "podtune.dev/results", None),
    }
    for other in others.values():
        with pytest.raises(Unauthenticated):
            await authenticator.authenticate(f"Bearer {other}")
    with pytest.raises(Unauthenticated):
        await authenticator.authenticate(f"Bearer {good[:-4]}AAAA")

    path = f"/api/v1/namespaces/{namespace}/pods/digits-0-1"
    await client.request("DELETE", path, params={"gracePeriodSeconds": "0"})
    fresh = Authenticator(client, time.monotonic)
    async with asyncio.timeout(60):
        while await _is_believed(fresh, good):
            fresh = Authenticator(client, time.monotonic)
            await asyncio.sleep(1)


async def _is_believed(authenticator: Authenticator, token: str) -> bool:
    try:
        await authenticator.authenticate(f"Bearer {token}")
    except Unauthenticated:
        return False
    return True
