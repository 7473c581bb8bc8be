"""Webhooks as part of the operator: what is told, and what the next operator makes up for."""

from __future__ import annotations

import asyncio
import json

import pytest

from podtune.app import operator as operator_module
from podtune.app.settings import SettingsError, read_settings
from podtune.webhooks import delivery as delivery_module
from tests.unit.app.test_operator import Cluster, Kopf, Process, until
from tests.unit.cluster.objects import EXPERIMENTS, experiment_body
from tests.unit.webhooks.stub_receiver import StubReceiver

CONFIG_MAP = "/api/v1/namespaces/system/configmaps/podtune-operator-webhook-tracker"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(operator_module, "run_kopf", Kopf().watch)
    monkeypatch.setattr(delivery_module, "SAVE_SECONDS", 0.1)
    return Cluster()


def make_process(cluster: Cluster, stub: StubReceiver) -> Process:
    return Process(cluster, PODTUNE_WEBHOOKS=json.dumps([{"name": "tracker", "url": stub.url}]))


def is_running(cluster: Cluster) -> bool:
    status = (cluster.get(f"{EXPERIMENTS}/digits") or {}).get("status") or {}
    return status.get("state") == "Running"


async def kill(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_receiver_hears_of_an_experiment(cluster: Cluster) -> None:
    stub = StubReceiver()
    cluster.put(EXPERIMENTS, experiment_body())
    async with stub.up(), make_process(cluster, stub).running():
        await stub.wait_until(lambda: any(event["type"].endswith("experiment.running") for event in stub.events))
    assert {event["subject"] for event in stub.events if ".experiment." in event["type"]} == {"digits"}


async def test_what_happened_while_it_was_away_is_told_by_the_next_operator(cluster: Cluster) -> None:
    stub = StubReceiver()
    cluster.put(EXPERIMENTS, experiment_body())
    async with make_process(cluster, stub).running() as task:
        await until(cluster, lambda: is_running(cluster))
        await kill(task)
    async with stub.up():
        async with make_process(cluster, stub).running():
            await stub.wait_until(lambda: "e-1-transition-1" in stub.ids)
            await stub.wait_until(lambda: any(event["type"].endswith("experiment.running") for event in stub.events))
        async with make_process(cluster, stub).running():
            await until(cluster, lambda: cluster.leaders() == ["a"])
            await asyncio.sleep(0.3)
    assert len(stub.ids) == len(set(stub.ids)), "the third operator knows what was told"


async def test_an_operator_without_webhooks_keeps_no_positions_and_no_changes(cluster: Cluster) -> None:
    cluster.put(EXPERIMENTS, experiment_body())
    async with Process(cluster).running():
        await until(cluster, lambda: is_running(cluster))
    assert not cluster.all("configmaps")
    assert "transitions" not in cluster.get(f"{EXPERIMENTS}/digits")["status"]  # type: ignore[index]


def test_a_wrong_receiver_is_a_wrong_setting() -> None:
    with pytest.raises(SettingsError, match=r"PODTUNE_WEBHOOKS \[0\].url: 'nowhere' is not an address"):
        read_settings({"PODTUNE_AGENT_IMAGE": "agent:1", "PODTUNE_WEBHOOKS": '[{"name": "x", "url": "nowhere"}]'})
