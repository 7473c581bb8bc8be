"""Namespaces that opt in are served without a restart, and those that no longer do are left alone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from podtune.controllers.store.store import Store
from podtune.controllers.watch.opt_ins import (
    DENIALS,
    REVIEW_PAUSE,
    SERVED_SECONDS,
    UNSERVED_SECONDS,
    NamespaceGate,
    OptIns,
    WatchForbidden,
)
from podtune.controllers.watch.resync import PERIOD, SETTLE, Resync
from podtune.controllers.watch.watch_health import ECHO_PATIENCE, WatchHealth
from podtune.kube.manifests import Manifest
from podtune.kube.paths import SELF_ACCESS_REVIEWS
from podtune.runner.settings import RunnerSettings
from tests.unit.cluster.fake_client import FakeCluster, no_answer, refusal
from tests.unit.cluster.objects import EXPERIMENTS, PODS, TRIALS, experiment_body, pod_body, trial_body
from tests.unit.cluster.virtual_time import in_virtual_time, now

SOON = 1.3 * UNSERVED_SECONDS
LOST = 1.3 * (SERVED_SECONDS + DENIALS * UNSERVED_SECONDS)
OWNED = {*(f"{kind}-{index}" for kind in "tp" for index in range(2))}


class RbacCluster(FakeCluster):
    """A cluster that knows in which namespaces the operator may create pods."""

    def __init__(self, *granted: str) -> None:
        super().__init__()
        self.granted = set(granted)
        self.asked: list[str] = []

    async def request(self, method: Any, path: str, **kwargs: Any) -> Manifest:
        if path != SELF_ACCESS_REVIEWS:
            return await super().request(method, path, **kwargs)
        if self.failures:
            raise self.failures.pop().error
        attributes = kwargs["body"]["spec"]["resourceAttributes"]
        self.asked.append(attributes["namespace"])
        return {"status": {"allowed": attributes["namespace"] in self.granted}}


class Scene:
    """Two trials with a pod each, of an Experiment whose namespace is `team`."""

    def __init__(self, *granted: str) -> None:
        self.cluster = RbacCluster(*granted)
        self.changed: list[str] = []
        self.gate = NamespaceGate("kubectl podtune enable")
        self.store = Store(RunnerSettings(), self.changed.append, find_bar=self.gate.find_bar)
        self.health = WatchHealth(now, self.gate.is_watched)
        rng = random.Random(1)
        self.resync = Resync(self.cluster, self.store, (), rng, self.gate.list_served)
        self.opt_ins = OptIns(self.cluster, self.gate, self.store, self.resync, self.health, monotonic=now, rng=rng)
        self.cluster.put(EXPERIMENTS, experiment_body())
        for index in range(2):
            self.cluster.put(TRIALS, trial_body(index, uid=f"t-{index}"))
            self.cluster.put(PODS, pod_body(f"digits-{index}", uid=f"p-{index}", owner=f"t-{index}"))

    @contextmanager
    def running(self) -> Iterator[None]:
        tasks = [asyncio.create_task(loop) for loop in (self.resync.run(), self.opt_ins.run())]
        try:
            yield
            assert not any(task.done() for task in tasks), tasks
        finally:
            for task in tasks:
                task.cancel()

    def is_served(self) -> bool:
        entry = self.store.find_entry("e-1")
        return entry is not None and entry.machine is not None


async def begun(*granted: str) -> Scene:
    scene = Scene(*granted)
    await scene.resync.run_first()
    return scene


@in_virtual_time
async def test_before_it_is_known_nothing_is_decided_and_nothing_is_said() -> None:
    scene = await begun("team")
    entry = scene.store.find_entry("e-1")
    assert (entry.machine, entry.bar) == (None, "")
    assert {call.path for call in scene.cluster.calls} == {"/apis/podtune.dev/v1alpha1/experiments"}


@in_virtual_time
async def test_a_namespace_that_has_opted_in_is_served_with_all_that_is_there() -> None:
    scene = await begun("team")
    with scene.running():
        await asyncio.sleep(1)
        assert scene.is_served()
        assert scene.store.list_uids() == {"e-1", *OWNED}
        assert scene.changed[-1] == "e-1", "it is decided on now"


@in_virtual_time
async def test_the_experiment_of_another_says_what_to_do_and_goes_on_when_it_is_done() -> None:
    scene = await begun()
    with scene.running():
        await asyncio.sleep(DENIALS * SOON)
        assert not scene.is_served()
        assert "kubectl podtune enable team" in (scene.gate.find_bar("team") or "")
        assert all("namespaces" not in call.path for call in scene.cluster.calls), "nothing is asked for there"
        scene.cluster.granted.add("team")
        await asyncio.sleep(SOON)
        assert scene.is_served()


@in_virtual_time
async def test_an_experiment_in_a_namespace_not_seen_before_is_asked_about_at_once() -> None:
    scene = await begun("team", "other")
    with scene.running():
        await asyncio.sleep(1)
        body = experiment_body("late", uid="e-2")
        body["metadata"]["namespace"] = "other"
        scene.store.observe_experiment(body)
        scene.opt_ins.see("other")
        await asyncio.sleep(0.1)
        assert scene.gate.find_bar("other") is None


@in_virtual_time
async def test_one_that_opts_out_is_forgotten_but_for_its_experiments_and_known_again_later() -> None:
    scene = await begun("team")
    with scene.running():
        await asyncio.sleep(1)
        scene.cluster.granted.clear()
        await asyncio.sleep(LOST)
        assert not scene.is_served()
        assert scene.store.list_uids() == {"e-1"}
        await asyncio.sleep(2 * (PERIOD + SETTLE))
        scene.cluster.granted.add("team")
        await asyncio.sleep(SOON)
        assert scene.is_served()
        assert scene.store.list_uids() == {"e-1", *OWNED}, "nothing was taken for deleted"


@in_virtual_time
async def test_what_is_seen_of_a_namespace_that_was_given_up_counts_no_more() -> None:
    scene = await begun("team")
    with scene.running():
        await asyncio.sleep(1)
        scene.cluster.granted.clear()
        await asyncio.sleep(LOST)
        scene.store.observe_trial(trial_body(7, uid="t-7", version=99))
        scene.store.observe_pod(pod_body("digits-7", uid="p-7", owner="t-7"))
        assert scene.store.list_uids() == {"e-1"}


@in_virtual_time
async def test_one_denial_alone_gives_nothing_up() -> None:
    scene = await begun("team")
    with scene.running():
        await asyncio.sleep(1)
        scene.cluster.granted.clear()
        asked = len(scene.cluster.asked)
        while len(scene.cluster.asked) == asked:  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.1)
        scene.cluster.granted.add("team")
        await asyncio.sleep(LOST)
        assert scene.is_served()
        assert [call.path for call in scene.cluster.calls].count(TRIALS) == 1, "it was not taken up again"


@in_virtual_time
async def test_a_review_without_an_answer_changes_nothing() -> None:
    scene = await begun("team")
    with scene.running():
        await asyncio.sleep(1)
        scene.cluster.fail("POST", "selfsubjectaccessreviews", no_answer(), times=1)
        await asyncio.sleep(LOST)
        assert not scene.cluster.failures, "it was asked"
        assert scene.is_served()


@in_virtual_time
async def test_rights_that_are_too_few_to_see_trials_are_as_good_as_none() -> None:
    scene = await begun("team")
    forbidden = refusal(403, "cannot list trials")
    request = scene.cluster.request

    async def refuse(method: Any, path: str, **kwargs: Any) -> Manifest:
        if path == TRIALS:
            raise forbidden
        return await request(method, path, **kwargs)

    scene.cluster.request = refuse
    with scene.running():
        await asyncio.sleep(1)
        assert scene.gate.find_bar("team")
        scene.cluster.request = request
        await asyncio.sleep(SOON)
        assert scene.is_served()


@in_virtual_time
async def test_a_namespace_without_experiments_is_not_asked_about_for_ever() -> None:
    scene = await begun()
    with scene.running():
        await asyncio.sleep(DENIALS * SOON)
        scene.store.observe_experiment_deletion(experiment_body())
        await asyncio.sleep(SOON)
        asked = len(scene.cluster.asked)
        await asyncio.sleep(10 * SOON)
        assert len(scene.cluster.asked) == asked


@in_virtual_time
async def test_many_namespaces_cost_no_more_than_so_many_requests_a_second() -> None:
    scene = await begun()
    for number in range(400):
        body = experiment_body(uid=f"e-{number}")
        body["metadata"]["namespace"] = f"n-{number}"
        scene.store.observe_experiment(body)
    with scene.running():
        await asyncio.sleep(60)
    assert 800 < len(scene.cluster.asked) <= 60 / REVIEW_PAUSE + 1


@in_virtual_time
async def test_each_namespace_is_watched_while_it_is_served() -> None:
    scene = await begun("team")
    watched: list[str] = []

    async def watch(namespace: str) -> None:
        watched.append(f"+{namespace}")
        try:
            await asyncio.Event().wait()
        finally:
            watched.append(f"-{namespace}")

    following = asyncio.create_task(scene.opt_ins.follow(watch))
    with scene.running():
        await asyncio.sleep(1)
        assert watched == ["+team"]
        scene.cluster.granted.clear()
        await asyncio.sleep(LOST)
        assert watched == ["+team", "-team"]
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


@in_virtual_time
async def test_a_watch_that_is_refused_has_the_namespace_asked_about_soon_and_ends_nothing() -> None:
    scene = await begun("team")
    tries: list[float] = []

    async def watch(namespace: str) -> None:
        tries.append(now())
        if len(tries) == 1:
            raise WatchForbidden(namespace)
        await asyncio.Event().wait()

    following = asyncio.create_task(scene.opt_ins.follow(watch))
    with scene.running():
        await asyncio.sleep(1)
        assert scene.cluster.asked == ["team", "team"]
        await asyncio.sleep(SOON)
        assert len(tries) == 2
        assert not following.done()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


@in_virtual_time
async def test_a_watch_that_fails_otherwise_ends_the_operator_as_it_does_without_opting_in() -> None:
    scene = await begun("team")

    async def watch(_: str) -> None:
        raise RuntimeError("boom")

    with scene.running(), pytest.raises(ExceptionGroup):
        async with asyncio.timeout(60):
            await scene.opt_ins.follow(watch)


@in_virtual_time
async def test_a_write_that_no_watch_can_bring_back_any_more_is_not_waited_for() -> None:
    scene = await begun("team")
    with scene.running():
        await asyncio.sleep(1)
        scene.health.wrote("Trial", trial_body(0, uid="t-0", version=1000))
        scene.cluster.granted.clear()
        await asyncio.sleep(LOST + ECHO_PATIENCE)
        assert scene.health.is_alive
        scene.cluster.granted.add("team")
        await asyncio.sleep(SOON)
        assert scene.health.is_alive
        scene.health.wrote("Trial", trial_body(0, uid="t-0", version=1001))
        await asyncio.sleep(ECHO_PATIENCE + 1)
        assert not scene.health.is_alive


def test_without_a_command_all_namespaces_are_served() -> None:
    gate = NamespaceGate()
    assert gate.find_bar("team") is None
    assert gate.is_watched("Pod", "team")
