"""A receiver of webhooks that is away while operators are killed, on a real API server.

Its trials never get further than their pods' images, which nobody has: people end them.
"""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import pytest

from podtune.cluster.client import KubernetesClient
from tests.component.cluster.conftest import IMAGE, RESTRICTED, wait_for
from tests.component.cluster.test_process import led, operator, until
from tests.unit.webhooks.stub_receiver import StubReceiver

pytestmark = pytest.mark.cluster

API = "/apis/podtune.dev/v1alpha1/namespaces"
MERGE = "application/merge-patch+json"
AWAY = 15.0
"""Seconds that the receiver is away, at least."""


def make_experiment() -> dict[str, Any]:
    container = {"name": "main", "image": IMAGE, "args": ["true"], "securityContext": RESTRICTED}
    return {
        "apiVersion": "podtune.dev/v1alpha1",
        "kind": "Experiment",
        "metadata": {"name": "digits"},
        "spec": {
            "objective": {"metric": "accuracy", "mode": "max", "missing": "lenient"},
            "parameters": [{"name": "lr", "float": {"min": 0.1, "max": 0.9}}],
            "search": {"algorithm": "random", "maxTrials": 3, "seed": 7},
            "maxConcurrentTrials": 3,
            "trialTemplate": {"spec": {"containers": [container]}},
        },
    }


async def stop_trial(client: KubernetesClient, namespace: str, index: int) -> None:
    body = {"spec": {"desiredState": "Stopped"}}
    await client.request("PATCH", f"{API}/{namespace}/trials/digits-{index}", body=body, content_type=MERGE)


async def list_facts(client: KubernetesClient, namespace: str) -> set[tuple[str, str]]:
    """The ids that the objects' changes of state have, with their states, by their statuses alone."""
    experiment = await client.request("GET", f"{API}/{namespace}/experiments/digits")
    trials = (await client.request("GET", f"{API}/{namespace}/trials"))["items"]
    return {
        (f"{body['metadata']['uid']}-transition-{entry['number']}", entry["state"])
        for body in (experiment, *trials)
        for entry in (body.get("status") or {}).get("transitions") or ()
    }


def list_heard(stub: StubReceiver) -> set[tuple[str, str]]:
    return {(event["id"], event["data"]["state"]) for event in stub.events if "state" in event["data"]}


async def test_a_receiver_that_is_away_loses_nothing_and_hears_nothing_under_two_keys(
    client: KubernetesClient, namespace: str
) -> None:
    stub = StubReceiver()
    settings = {
        "PODTUNE_WEBHOOKS": json.dumps([{"name": "tracker", "url": stub.url}]),
        "PODTUNE_POD_UID": "always-the-same",  # so that the next one need not wait for the Lease to expire
    }

    async def is_stopped(index: int) -> None:
        path = f"{API}/{namespace}/trials/digits-{index}"
        await wait_for(client, path, lambda body: (body.get("status") or {}).get("state") == "TERMINATED")

    async with stub.up(), operator(namespace, **settings) as first:
        await until(first, "leading")
        await led(client, namespace)
        await client.request("POST", f"{API}/{namespace}/experiments", body=make_experiment())
        await stub.wait_until(lambda: any(e["type"].endswith("experiment.running") for e in stub.events), 60.0)
    begun = asyncio.get_running_loop().time()  # both are away now: the operator was killed
    async with operator(namespace, **settings) as second:
        await until(second, "leading")
        await stop_trial(client, namespace, 0)
        await is_stopped(0)
        second.send_signal(signal.SIGKILL)
        await second.wait()
    await stop_trial(client, namespace, 1)  # while there is no operator
    async with operator(namespace, **settings) as third:
        await until(third, "leading")
        await is_stopped(1)
        await asyncio.sleep(max(0.0, begun + AWAY - asyncio.get_running_loop().time()))
        async with stub.up():
            await stop_trial(client, namespace, 2)
            await stub.wait_until(lambda: any(e["type"].endswith("experiment.failed") for e in stub.events), 60.0)
            facts = await list_facts(client, namespace)
            await stub.wait_until(lambda: facts <= list_heard(stub))
    by_id: dict[str, dict[str, Any]] = {}
    for event in stub.events:
        assert by_id.setdefault(event["id"], event)["data"]["number"] == event["data"]["number"]
    keys = [(event["type"], event["subject"], event["data"]["number"]) for event in by_id.values()]
    assert len(keys) == len(set(keys)), "no fact has two ids"
    kept = await client.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/operator-under-test-webhook-tracker")
    assert len(kept.get("data") or {}) == 1
