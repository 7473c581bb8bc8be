"""What the watches have missed is found out, and what they are about to tell is left to them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from podtune.controllers.store.store import Store
from podtune.controllers.watch.kopf import LISTED_AT_A_TIME, make_settings
from podtune.controllers.watch.resync import AT_A_TIME, PERIOD, RESYNC_SOON, SETTLE, Resync
from podtune.kube.errors import ApiError
from podtune.runner.settings import RunnerSettings
from tests.unit.cluster.fake_client import FakeCluster, no_answer
from tests.unit.cluster.objects import EXPERIMENTS, PODS, TRIALS, experiment_body, pod_body, trial_body
from tests.unit.cluster.virtual_time import in_virtual_time, now


class Scene:
    def __init__(self, *namespaces: str) -> None:
        self.cluster = FakeCluster()
        self.store = Store(RunnerSettings(), lambda _: None)
        self.resync = Resync(self.cluster, self.store, namespaces, random.Random(1))

    def fill(self) -> None:
        self.cluster.put(EXPERIMENTS, experiment_body())
        for index in range(3):
            self.cluster.put(TRIALS, trial_body(index, uid=f"t-{index}"))
            self.cluster.put(PODS, pod_body(f"digits-{index}", uid=f"p-{index}", owner=f"t-{index}"))

    @contextmanager
    def running(self) -> Iterator[None]:
        task = asyncio.create_task(self.resync.run())
        try:
            yield
            assert not task.done(), task
        finally:
            task.cancel()


async def listed() -> Scene:
    """All that there is has been listed once."""
    scene = Scene()
    scene.fill()
    await scene.resync.run_first()
    return scene


ALL = {"e-1", *(f"{kind}-{index}" for kind in "tp" for index in range(3))}


@in_virtual_time
async def test_the_first_one_fills_the_store_page_by_page() -> None:
    scene = Scene()
    scene.cluster.page = 2
    scene.fill()
    await scene.resync.run_first()
    assert scene.store.list_uids() == ALL
    entry = scene.store.find_entry("e-1")
    assert entry.machine is not None


@in_virtual_time
async def test_a_large_page_is_read_in_parts_with_others_in_between() -> None:
    scene = Scene()
    count = 3 * AT_A_TIME
    scene.cluster.put(EXPERIMENTS, experiment_body())
    for index in range(count):
        scene.cluster.put(TRIALS, trial_body(index, uid=f"t-{index}"))
    seen: set[int] = set()
    filling = asyncio.create_task(scene.resync.run_first())
    while not filling.done():
        await asyncio.sleep(0)
        seen.add(len(scene.store.list_uids()) - 1)
    assert {AT_A_TIME, 2 * AT_A_TIME, count} <= seen


def test_watches_begin_with_lists_in_parts() -> None:
    assert make_settings().watching.chunk_size == LISTED_AT_A_TIME


@in_virtual_time
async def test_only_what_is_served_is_listed() -> None:
    scene = Scene("team", "other")
    scene.fill()
    scene.cluster.put(PODS, {"metadata": {"name": "web", "uid": "w"}, "spec": {"containers": []}})
    scene.cluster.put("/api/v1/namespaces/third/pods", pod_body(uid="x"))
    await scene.resync.run_first()
    assert scene.store.list_uids() == ALL
    assert {call.path.split("/namespaces/")[1].split("/")[0] for call in scene.cluster.calls} == {"team", "other"}


@in_virtual_time
async def test_a_failure_of_the_first_one_is_told() -> None:
    scene = Scene()
    scene.cluster.fail("GET", "trials", no_answer())
    with pytest.raises(ApiError):
        await scene.resync.run_first()


@in_virtual_time
async def test_a_malformed_object_keeps_nobody_from_starting() -> None:
    scene = Scene()
    scene.fill()
    scene.cluster.change(f"{TRIALS}/digits-1", lambda body: body.update(spec={}))
    scene.cluster.change(f"{PODS}/digits-2-1", lambda body: body["metadata"].update(labels=scene_labels()))
    await scene.resync.run_first()
    assert scene.store.list_uids() == ALL - {"t-1", "p-2"}


def scene_labels() -> dict[str, str]:
    return {"app.kubernetes.io/managed-by": "podtune", "podtune.dev/trial": "digits-2"}


@in_virtual_time
async def test_deletions_that_no_watch_has_told_of_are_found() -> None:
    scene = await listed()
    with scene.running():
        scene.cluster.remove(f"{PODS}/digits-0-1")
        scene.cluster.remove(f"{TRIALS}/digits-1")
        await asyncio.sleep(PERIOD + SETTLE)
        assert scene.store.list_uids() == ALL - {"p-0", "t-1"}
        scene.cluster.remove(f"{EXPERIMENTS}/digits")
        await asyncio.sleep(PERIOD + SETTLE)
        assert scene.store.find_entry("e-1") is None


@in_virtual_time
async def test_what_the_watch_tells_a_little_later_is_left_to_it() -> None:
    scene = await listed()
    ended = scene.cluster.remove(f"{PODS}/digits-0-1") | {"status": {"phase": "Succeeded"}}
    with scene.running():
        scene.resync.call()
        await asyncio.sleep(RESYNC_SOON + SETTLE / 2)
        entry = scene.store.find_entry("e-1")
        assert entry.machine is not None
        scene.store.observe_pod_deletion(ended)
        await asyncio.sleep(SETTLE)
        plan = entry.machine.decide(0.0)
    reasons = [getattr(action, "status", None) for action in plan.actions]
    ends = [status.last_attempt.reason for status in reasons if getattr(status, "last_attempt", None)]
    assert ends == ["NoUsableResult"]  # as its program has ended: not PodVanished


@in_virtual_time
async def test_what_is_made_while_the_lists_are_read_stays() -> None:
    scene = await listed()

    def make_meanwhile(call: object) -> None:
        if "pods" in str(call):
            scene.cluster.before = lambda _: None
            made = scene.cluster.put(TRIALS, trial_body(7, uid="t-7"))
            scene.store.observe_trial(made)

    scene.cluster.before = make_meanwhile
    with scene.running():
        scene.resync.call()
        await asyncio.sleep(RESYNC_SOON + SETTLE + 1)
    assert "t-7" in scene.store.list_uids()


@in_virtual_time
async def test_many_calls_make_one_sweep_and_soon() -> None:
    scene = await listed()
    lists = len(scene.cluster.calls)
    with scene.running():
        for _ in range(1000):
            scene.resync.call()
        await asyncio.sleep(RESYNC_SOON + 1)
        assert len(scene.cluster.calls) == lists + 3
        await asyncio.sleep(PERIOD / 2)
        assert len(scene.cluster.calls) == lists + 3


@in_virtual_time
async def test_one_that_fails_is_made_up_for_by_the_next() -> None:
    scene = await listed()
    scene.cluster.remove(f"{PODS}/digits-0-1")
    scene.cluster.fail("GET", "pods", no_answer())
    begun = now()
    with scene.running():
        await asyncio.sleep(PERIOD + SETTLE)
        assert "p-0" in scene.store.list_uids()
        await asyncio.sleep(PERIOD + SETTLE)
        assert "p-0" not in scene.store.list_uids()
    assert now() - begun < 2.1 * PERIOD
