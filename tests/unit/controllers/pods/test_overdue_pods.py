"""A program that ignores SIGTERM holds no GPU longer than its own grace period, but for what is to be stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from podtune.api.names import (
    ANNOTATION_GRACE,
    FINALIZER,
    LABEL_ATTEMPT,
    LABEL_EXPERIMENT,
    LABEL_MADE_FOR,
    LABEL_TRIAL,
)
from podtune.controllers.pods.overdue_pods import RETRY_SECONDS, OverduePods
from podtune.controllers.store.store import Store
from podtune.kube.manifests import Manifest
from podtune.protocol.messages import Unstored
from podtune.runner.settings import RunnerSettings
from tests.unit.cluster.fake_client import Failure, FakeCluster, no_answer
from tests.unit.cluster.objects import experiment_body, pod_body, trial_body
from tests.unit.cluster.virtual_time import in_virtual_time, now, settle

RUNNING = {"running": {"startedAt": "1970-01-01T00:00:00Z"}}
ENDED = {"terminated": {"exitCode": 0, "finishedAt": "1970-01-01T00:20:00Z"}}
GRACE = 630


class Scene:
    """A pod whose template has a grace period of 30 s, and a store with a drain of 10 min."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.overdue = OverduePods(self.cluster, now)
        self.store = Store(RunnerSettings(), lambda _: None, overdue_pods=self.overdue)
        self._version = 30

    def see(self, *, deleted: float | None = None, program: Any = RUNNING, agent: Any = RUNNING, **pod: Any) -> None:
        """The watch tells of the pod."""
        self._version += 1
        metadata: Manifest = {"annotations": {ANNOTATION_GRACE: "30"}}
        if deleted is not None:
            deadline = datetime.fromtimestamp(deleted + GRACE, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            metadata |= {"deletionTimestamp": deadline, "deletionGracePeriodSeconds": GRACE}
        status = {
            "phase": "Running",
            "initContainerStatuses": [{"name": "podtune-agent", "state": agent}],
            "containerStatuses": [{"name": "main", "state": program}],
        }
        body = pod_body(version=self._version, status=status, **(metadata | pod))
        self.store.observe_pod(body)

    @contextmanager
    def running(self) -> Iterator[None]:
        task = asyncio.create_task(self.overdue.run())
        try:
            yield
            assert not task.done(), task
        finally:
            task.cancel()

    @property
    def deletions(self) -> list[Any]:
        return [call.body for call in self.cluster.calls if call.method == "DELETE"]


@contextmanager
def watched(unstored: Unstored | None = None) -> Iterator[Scene]:
    """The pod runs, and its agent has told what it has to store."""
    scene = Scene()
    with scene.running():
        scene.see()
        scene.overdue.observe_agent("p-1", unstored)
        yield scene


SHORT = {"preconditions": {"uid": "p-1"}, "gracePeriodSeconds": 5}


@in_virtual_time
async def test_a_program_that_runs_on_is_ended_once_its_own_grace_period_is_over() -> None:
    with watched() as scene:
        scene.see(deleted=now())
        await asyncio.sleep(30.5)
        assert scene.deletions == []
        await asyncio.sleep(1)
        assert scene.deletions == [SHORT]
        await asyncio.sleep(1000)
        assert len(scene.deletions) == 1


@in_virtual_time
async def test_whoever_deleted_it_and_although_its_experiment_is_gone() -> None:
    """It was being deleted before the operator came up, and nothing is known of its owner."""
    scene = Scene()
    scene.see(deleted=now() - 100)
    with scene.running():
        await asyncio.sleep(300)
        assert scene.deletions == [], "its agent has not been heard: the grace period bounds it"
        scene.store.observe_agent("p-1", None)
        await settle()
        assert scene.deletions == [SHORT]


@in_virtual_time
async def test_what_was_reported_within_the_programs_time_is_stored_first() -> None:
    with watched() as scene:
        scene.see(deleted=now())
        await asyncio.sleep(20)
        scene.overdue.observe_agent("p-1", Unstored(since=7, seq=7, step=7, waits=True))
        await asyncio.sleep(100)
        scene.overdue.observe_agent("p-1", Unstored(since=7, seq=9, step=9, waits=True))
        await asyncio.sleep(100)
        assert scene.deletions == []
        scene.overdue.observe_agent("p-1", Unstored(since=9, seq=9, step=9, waits=True))
        await settle()
        assert scene.deletions == [SHORT], "what it reports afterwards is not waited for"


@in_virtual_time
async def test_a_checkpoint_that_was_given_up_is_not_waited_for() -> None:
    with watched(Unstored(since=7, seq=7, step=7, waits=False)) as scene:
        scene.see(deleted=now())
        await asyncio.sleep(32)
        assert scene.deletions == [SHORT]


@in_virtual_time
async def test_an_agent_that_is_over_has_nothing_to_store() -> None:
    with watched(Unstored(since=7, seq=7, step=7, waits=True)) as scene:
        scene.see(deleted=now(), agent=ENDED)
        await asyncio.sleep(32)
        assert scene.deletions == [SHORT]


@in_virtual_time
async def test_a_pod_whose_program_has_ended_is_left_to_its_agent() -> None:
    with watched() as scene:
        scene.see(deleted=now())
        await asyncio.sleep(29)
        scene.see(deleted=now() - 29, program=ENDED)
        await asyncio.sleep(1000)
        assert scene.deletions == []


@in_virtual_time
async def test_a_pod_without_time_for_a_checkpoint_is_left_to_the_kubelet() -> None:
    scene = Scene()
    with scene.running():
        scene.see(annotations={})
        scene.store.observe_agent("p-1", None)
        scene.see(deleted=now(), annotations={})
        await asyncio.sleep(1000)
        assert scene.deletions == []


@in_virtual_time
async def test_a_pod_that_is_given_less_by_another_is_left_to_the_kubelet() -> None:
    with watched() as scene:
        scene.see(deleted=now(), deletionGracePeriodSeconds=20)
        await asyncio.sleep(1000)
        assert scene.deletions == []


@in_virtual_time
async def test_a_deletion_that_fails_is_tried_again() -> None:
    with watched() as scene:
        scene.cluster.failures = [Failure("DELETE", "digits-0-1", no_answer())]
        scene.see(deleted=now())
        await asyncio.sleep(32 + RETRY_SECONDS)
        assert scene.deletions == [SHORT] * 2


@in_virtual_time
async def test_the_agent_of_rank_0_speaks_for_its_gang() -> None:
    scene = Scene()
    labels = {"podtune.dev/trial": "digits-0", "podtune.dev/attempt": "1", "podtune.dev/experiment": "digits"}
    with scene.running():
        for rank in (0, 1):
            of_rank: dict[str, Any] = {"name": f"digits-0-1-{rank}", "labels": labels | {"podtune.dev/rank": str(rank)}}
            scene.see(uid=f"p-{rank}", **of_rank)
            scene.overdue.observe_agent("p-0", Unstored(since=7, seq=7, step=7, waits=True))
            scene.see(uid=f"p-{rank}", deleted=now(), **of_rank)
        await asyncio.sleep(100)
        assert scene.deletions == []
        scene.overdue.observe_agent("p-0", None)
        await settle()
        assert [body["preconditions"]["uid"] for body in scene.deletions] == ["p-0", "p-1"]


class Owned(Scene):
    """The pod with its Trial and Experiment, whose agent has nothing to store."""

    def __init__(self) -> None:
        super().__init__()
        self.store.observe_experiment(experiment_body())
        self.store.observe_trial(trial_body())
        self.see()
        self.store.observe_agent("p-1", None)


FIRST = {"preconditions": {"uid": "p-1"}, "gracePeriodSeconds": 30}
UNDER_WAY = {"deletionTimestamp": "2024-05-01T12:00:00Z"}


def going(body: Manifest, *finalizers: str) -> Manifest:
    """An object whose deletion waits for something."""
    body["metadata"] |= UNDER_WAY | {"resourceVersion": "90", "finalizers": list(finalizers)}
    return body


@pytest.mark.parametrize(
    "go",
    [
        lambda store: store.observe_experiment_deletion(experiment_body()),
        lambda store: store.observe_trial_deletion(trial_body()),
        lambda store: store.on_missing("e-1"),
        lambda store: store.observe_experiment(going(experiment_body(), "foregroundDeletion")),
        lambda store: store.observe_trial(going(trial_body(), "foregroundDeletion")),
    ],
    ids=["experiment", "trial", "missed", "experiment in the foreground", "trial in the foreground"],
)
@in_virtual_time
async def test_a_pod_whose_owner_goes_is_deleted_at_once_with_its_programs_time_alone(go: Any) -> None:
    """Before the garbage collector deletes it with the whole of its grace period."""
    scene = Owned()
    with scene.running():
        await settle()
        assert scene.deletions == []
        go(scene.store)
        await settle()
        assert scene.deletions == [FIRST]
        scene.see(deleted=now(), deletionGracePeriodSeconds=30)
        scene.store.observe_trial_deletion(trial_body())
        await asyncio.sleep(1000)
        assert scene.deletions == [FIRST]


@in_virtual_time
async def test_a_warm_pod_goes_with_its_experiment() -> None:
    scene = Scene()
    scene.store.observe_experiment(experiment_body())
    owner = {"kind": "Experiment", "name": "digits", "uid": "e-1", "controller": True}
    labels = {LABEL_EXPERIMENT: "digits", LABEL_TRIAL: "digits-0", LABEL_ATTEMPT: "1", LABEL_MADE_FOR: "t-1"}
    scene.see(ownerReferences=[owner], labels=labels)
    scene.store.observe_agent("p-1", None)
    with scene.running():
        scene.store.observe_experiment_deletion(experiment_body())
        await settle()
        assert scene.deletions == [FIRST]


@in_virtual_time
async def test_a_pod_whose_agent_has_something_to_store_or_was_not_heard_is_left_to_the_garbage_collector() -> None:
    for heard in (True, False):
        scene = Scene()
        scene.store.observe_experiment(experiment_body())
        scene.store.observe_trial(trial_body())
        scene.see()
        if heard:
            scene.store.observe_agent("p-1", Unstored(since=7, seq=7, step=7, waits=True))
        with scene.running():
            scene.store.observe_experiment_deletion(experiment_body())
            await asyncio.sleep(10)
            assert scene.deletions == []


@in_virtual_time
async def test_a_pod_whose_program_has_ended_drains_also_when_its_owner_goes() -> None:
    scene = Owned()
    scene.see(program=ENDED)
    with scene.running():
        scene.store.observe_experiment_deletion(experiment_body())
        await asyncio.sleep(10)
        assert scene.deletions == []


@in_virtual_time
async def test_a_pod_that_somebody_deletes_together_with_its_owner_is_not_deleted_once_more_at_once() -> None:
    scene = Owned()
    with scene.running():
        scene.see(deleted=now())
        scene.store.observe_experiment_deletion(experiment_body())
        await asyncio.sleep(30)
        assert scene.deletions == []
        await asyncio.sleep(2)
        assert scene.deletions == [SHORT]


@in_virtual_time
async def test_pods_that_are_to_outlive_their_owner_do() -> None:
    """As with `kubectl delete --cascade=orphan`."""
    scene = Owned()
    with scene.running():
        scene.store.observe_trial(going(trial_body(), "orphan"))
        scene.store.observe_trial_deletion(going(trial_body()))
        await asyncio.sleep(10)
        assert scene.deletions == []
    scene = Owned()
    with scene.running():
        scene.store.observe_experiment(going(experiment_body(), "orphan"))
        scene.store.observe_experiment_deletion(going(experiment_body()))
        await asyncio.sleep(10)
        assert scene.deletions == []


@in_virtual_time
async def test_an_experiment_whose_deletion_waits_for_us_is_left_to_its_machine() -> None:
    scene = Owned()
    with scene.running():
        scene.store.observe_experiment(going(experiment_body(), FINALIZER))
        await asyncio.sleep(10)
        assert scene.deletions == []


@in_virtual_time
async def test_a_pod_without_a_number_for_a_grace_period_stops_nobody() -> None:
    """Anybody in its namespace may write its annotation."""
    scene = Owned()
    with scene.running():
        for text in ("9" * 5000, "9" * 20, "-1", "x"):
            scene.see(annotations={ANNOTATION_GRACE: text})
        scene.store.observe_experiment_deletion(experiment_body())
        await settle()
        assert scene.deletions == [{"preconditions": {"uid": "p-1"}, "gracePeriodSeconds": 1}]
