"""The operator's process, kopf and signals included, on a real API server, where nothing is to be done."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from podtune.cluster.client import KubernetesClient
from tests.component.cluster.conftest import wait_for
from tests.component.operator_process import LEASE, ended, operator, until

pytestmark = pytest.mark.cluster

IN_TIME = 25.0
"""Seconds to an end in good order: a pod is given 30."""


def leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


async def led(client: KubernetesClient, namespace: str) -> None:
    """Waits until the leader's watches are about to be on: it has renewed its Lease a while after taking it."""
    path = f"{leases(namespace)}/{LEASE}"
    await wait_for(client, path, lambda lease: lease["spec"]["renewTime"][:19] > lease["spec"]["acquireTime"][:19])


async def test_sigterm_ends_a_leader_at_once_and_gives_the_lease_back(client: KubernetesClient, namespace: str) -> None:
    async with operator(namespace) as process:
        await until(process, "leading")
        await led(client, namespace)
        process.send_signal(signal.SIGTERM)
        assert await ended(process, within=IN_TIME) == (0, "")
    lease = await client.request("GET", f"{leases(namespace)}/{LEASE}")
    assert lease["spec"]["holderIdentity"] == ""


async def test_sigterm_in_the_first_moments_of_leading_does_too(client: KubernetesClient, namespace: str) -> None:
    async with operator(namespace) as process:
        await until(process, "leading")
        process.send_signal(signal.SIGTERM)
        assert await ended(process, within=IN_TIME) == (0, "")
    lease = await client.request("GET", f"{leases(namespace)}/{LEASE}")
    assert lease["spec"]["holderIdentity"] == ""


async def test_sigterm_ends_a_standby(client: KubernetesClient, namespace: str) -> None:
    async with operator(namespace) as first:
        await until(first, "leading")
        async with operator(namespace) as second:
            await until(second, "waiting for the lease")
            second.send_signal(signal.SIGTERM)
            assert await ended(second, within=IN_TIME) == (0, "")
        assert first.returncode is None
        first.send_signal(signal.SIGTERM)
        await ended(first, within=IN_TIME)


async def test_a_lost_lease_ends_the_process_with_1(client: KubernetesClient, namespace: str) -> None:
    async with operator(namespace) as process:
        await until(process, "leading")
        await led(client, namespace)
        path, body = f"{leases(namespace)}/{LEASE}", {"spec": {"holderIdentity": "somebody"}}
        await client.request("PATCH", path, body=body, content_type="application/merge-patch+json")
        assert await ended(process, within=IN_TIME) == (1, "the lease is held by 'somebody' now")
        assert (await client.request("GET", path))["spec"]["holderIdentity"] == "somebody"
        await client.request("DELETE", path)


async def test_a_frozen_leader_that_wakes_ends_with_1(client: KubernetesClient, namespace: str) -> None:
    async with operator(namespace) as first:
        await until(first, "leading")
        await led(client, namespace)
        async with operator(namespace) as second:
            await until(second, "waiting for the lease")
            first.send_signal(signal.SIGSTOP)
            await until(second, "leading")
            first.send_signal(signal.SIGCONT)
            code, last = await ended(first, within=IN_TIME)
            assert (code, "not renewed" in last or "held by" in last) == (1, True)
            assert second.returncode is None
            second.send_signal(signal.SIGTERM)
            await ended(second, within=60)  # while it starts to watch, kopf takes the signal, and its time


async def test_a_port_that_is_taken_ends_the_process_with_a_sentence(namespace: str) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        async with operator(namespace, PODTUNE_LISTEN_PROBES=port) as process:
            code, last = await ended(process, within=60)
    assert code == 1
    assert last.startswith(f"port {port} can't be listened on")


async def test_an_api_server_that_is_not_there_ends_the_process_with_a_sentence(namespace: str, tmp_path: Path) -> None:
    async with operator(namespace, KUBECONFIG=str(tmp_path / "none")) as process:
        code, last = await ended(process, within=60)
    assert (code, "kubeconfig" in last) == (1, True)


async def test_kopf_leaves_no_trace_on_what_it_watches(
    client: KubernetesClient, namespace: str, pod: Callable[[str, str], Any]
) -> None:
    async with operator(namespace) as process:
        await until(process, "leading")
        await led(client, namespace)
        await pod("watched", "sleep 1000")
        path = f"/api/v1/namespaces/{namespace}/pods/watched"
        labels = {"app.kubernetes.io/managed-by": "podtune", "podtune.dev/trial": "digits-0"}
        body = {"metadata": {"labels": labels}}
        changed = await client.request("PATCH", path, body=body, content_type="application/merge-patch+json")
        await asyncio.sleep(2)
        after = await client.request("GET", path)
        process.send_signal(signal.SIGTERM)
        await ended(process, within=IN_TIME)
    assert after["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]
    assert not after["metadata"].get("annotations")
    assert not after["metadata"].get("finalizers")
