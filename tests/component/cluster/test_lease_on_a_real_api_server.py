"""Two candidates for a real Lease, with short times."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from podtune.cluster.client import KubernetesClient
from podtune.cluster.lease import Lease, LeaseLost, LeaseSettings
from tests.component.cluster.conftest import wait_for

pytestmark = pytest.mark.cluster


def candidate(client: KubernetesClient, namespace: str, name: str, identity: str, duration: float = 120.0) -> Lease:
    """One that renews often; a slow machine may take long for it."""
    settings = LeaseSettings(namespace, name, identity, duration, renew_every=0.3, give_up_after=duration / 2)
    return Lease(client, settings, time.monotonic, random.Random())


async def test_a_lease_that_is_not_renewed_is_taken_over(client: KubernetesClient, namespace: str) -> None:
    first = candidate(client, namespace, "expires", "a", duration=2.0)
    second = candidate(client, namespace, "expires", "b")
    await first.acquire()
    begun = time.monotonic()
    async with asyncio.timeout(60):
        await second.acquire()
    assert time.monotonic() - begun > 1.9
    assert not first.is_held
    with pytest.raises(LeaseLost):
        await first.hold()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/expires"
    taken = (await client.request("GET", path))["spec"]["renewTime"]
    holding = asyncio.create_task(second.hold())
    await wait_for(client, path, lambda lease: lease["spec"]["renewTime"] > taken)
    assert second.is_held
    holding.cancel()


async def test_one_that_is_given_back_is_taken_at_once(client: KubernetesClient, namespace: str) -> None:
    first, second = (candidate(client, namespace, "released", identity) for identity in "ab")
    await first.acquire()
    await first.release()
    async with asyncio.timeout(60):
        await second.acquire()


async def test_somebody_else_in_it_ends_the_leadership(client: KubernetesClient, namespace: str) -> None:
    lease = candidate(client, namespace, "stolen", "a")
    await lease.acquire()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/stolen"
    body = {"spec": {"holderIdentity": "b"}}
    await client.request("PATCH", path, body=body, content_type="application/merge-patch+json")
    with pytest.raises(LeaseLost, match="'b'"):
        await lease.hold()
    assert not lease.is_held
