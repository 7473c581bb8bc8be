"""Kopf, as it is set up here, brings what happens on a real API server, and nothing that is not asked for."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from podtune.cluster.client import KubernetesClient
from podtune.controllers.watch.kopf import make_handlers, run_kopf

pytestmark = pytest.mark.cluster

LABELS = {
    "app.kubernetes.io/managed-by": "podtune",
    "podtune.dev/experiment": "digits",
}


class Store:
    """Remembers which pods came and went."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.changed = asyncio.Event()

    def observe_pod(self, body: dict[str, Any]) -> None:
        self._note("seen", body)

    def observe_pod_deletion(self, body: dict[str, Any]) -> None:
        self._note("gone", body)

    def _note(self, what: str, body: dict[str, Any]) -> None:
        self.seen.append((what, body["metadata"]["name"]))
        self.changed.set()

    observe_experiment = observe_trial = observe_experiment_deletion = observe_trial_deletion = observe_pod

    async def until(self, fact: tuple[str, str]) -> None:
        async with asyncio.timeout(60):
            while fact not in self.seen:
                self.changed.clear()
                await self.changed.wait()


class Health:
    def saw(self, kind: str, body: dict[str, Any]) -> None:
        assert int(body["metadata"]["resourceVersion"]) > 0


class Resync:
    calls = 0

    def call(self) -> None:
        self.calls += 1


# Kopf, when it is cancelled, leaves its connections to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_pods_of_trials_come_and_go_and_others_are_not_even_sent(
    client: KubernetesClient, namespace: str, pod: Callable[[str, str], Any]
) -> None:
    store, resync, ready = Store(), Resync(), asyncio.Event()
    path = f"/api/v1/namespaces/{namespace}/pods"
    await pod("before", "sleep 1000")
    await pod("stranger", "sleep 1000")
    body = {"metadata": {"labels": LABELS}}
    await client.request("PATCH", f"{path}/before", body=body, content_type="application/merge-patch+json")
    handlers = make_handlers(store, Health(), resync)  # type: ignore[arg-type]
    task = asyncio.create_task(run_kopf(handlers, [namespace], ready))
    try:
        await ready.wait()
        await store.until(("seen", "before"))
        assert resync.calls == 1, "a list calls for a sweep"
        await client.request("DELETE", f"{path}/before")
        await store.until(("gone", "before"))
        assert resync.calls == 1
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        del task
        gc.collect()
    assert {name for _, name in store.seen} == {"before"}
