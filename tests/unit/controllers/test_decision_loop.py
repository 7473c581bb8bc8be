"""The loop takes one experiment after the other, asks its machine, and has done what that says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from structlog.testing import capture_logs

from podtune.controllers.action_runner import ActionRunner
from podtune.controllers.decision_loop import CLOCK_TOLERANCE, DecisionLoop
from podtune.controllers.metrics import RECONCILE_ERRORS
from podtune.controllers.pod_waiters import PodWaiters
from podtune.controllers.store.entry import ExperimentEntry
from podtune.controllers.store.stalled import Stalled
from podtune.controllers.store.store import Store
from podtune.controllers.work_queue import WorkQueue
from podtune.runner.actions import Action, DeletePod, WriteExperimentStatus
from podtune.runner.backoff import Backoff
from podtune.runner.experiment_machine import ActionPlan, ExperimentMachine
from tests.unit.cluster.objects import experiment_record
from tests.unit.cluster.virtual_time import in_virtual_time, now, settle

NEVER = float("inf")
ACTION = DeletePod("digits-0", "digits-0-1", "pod-0")


@dataclass
class Machine:
    """Says the same each time, and notes when it was asked."""

    plan: ActionPlan = field(default_factory=lambda: ActionPlan((ACTION,), NEVER))
    asked: list[float] = field(default_factory=list)
    fails: bool = False
    is_outdated: bool = False

    def decide(self, now: float) -> ActionPlan:
        self.asked.append(now)
        if self.fails:
            raise ValueError("an error of the machine")
        return self.plan


@dataclass
class KnownExperiments:
    """As much of a store as the loop looks at."""

    known: dict[str, ExperimentEntry] = field(default_factory=dict)
    told: list[ExperimentEntry] = field(default_factory=list)

    def find_entry(self, uid: str) -> ExperimentEntry | None:
        return self.known.get(uid)

    def list_entries(self) -> Iterator[ExperimentEntry]:
        return iter(list(self.known.values()))

    def record_decision(self, entry: ExperimentEntry) -> None:
        self.told.append(entry)


@dataclass
class StartedActions:
    """As much of an action runner as the loop looks at."""

    started: list[Action] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    is_closed: bool = False

    def start(self, entry: ExperimentEntry, actions: Iterable[Action]) -> None:
        self.started += actions

    def cancel(self, uid: str) -> None:
        self.cancelled.append(uid)

    async def close(self) -> None:
        self.is_closed = True


class Scene:
    """A loop, and the experiments that it works off."""

    def __init__(self) -> None:
        self.clock_is_off, self.leads = 0.0, True
        self.store, self.actions = KnownExperiments(), StartedActions()
        self.queue, self.waiters = WorkQueue(self.now), PodWaiters()
        self.loop = DecisionLoop(
            cast("Store", self.store),
            self.queue,
            cast("ActionRunner", self.actions),
            pod_waiters=self.waiters,
            now=self.now,
            may_decide=lambda: self.leads,
        )

    def now(self) -> float:
        return now() + self.clock_is_off

    def add(self, uid: str = "e-1", *, machine: bool = True, **changes: Any) -> tuple[ExperimentEntry, Machine]:
        """One more experiment, which needs a look."""
        experiment, made = replace(experiment_record(), uid=uid, **changes), Machine()
        serves = cast("ExperimentMachine", made) if machine else None
        entry = self.store.known[uid] = ExperimentEntry(experiment, Stalled(Backoff(1.0, 1.0)), serves)
        self.queue.add(uid)
        return entry, made

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.loop.run())
        await settle()
        try:
            yield
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@in_virtual_time
async def test_what_a_machine_says_is_done_and_it_is_asked_again_when_it_wants_to_be() -> None:
    scene = Scene()
    entry, machine = scene.add()
    machine.plan = ActionPlan((ACTION,), now() + 5.0)
    begun = now()
    async with scene.running():
        assert (scene.actions.started, scene.store.told) == ([ACTION], [entry])
        machine.plan = ActionPlan((), NEVER)
        await asyncio.sleep(60.0)
    assert machine.asked == [begun, begun + 5.0]


@in_virtual_time
async def test_agents_that_wait_are_woken_when_their_pods_are_given_something() -> None:
    scene = Scene()
    _, machine = scene.add()
    machine.plan = ActionPlan((), NEVER, ("pod-0",))
    begun = now()
    waiting = asyncio.create_task(scene.waiters.wait("pod-0", 60.0))
    await settle()
    async with scene.running():
        await waiting
    assert now() == begun


@in_virtual_time
async def test_an_error_is_of_one_experiment_alone_and_it_is_asked_again_after_a_while() -> None:
    scene, errors = Scene(), RECONCILE_ERRORS._value.get()
    failing, machine = scene.add()
    _, other = scene.add("e-2")
    machine.fails = True
    with capture_logs() as logs:
        async with scene.running():
            assert (len(machine.asked), len(other.asked)) == (1, 1)
            assert scene.store.told[0] is failing, "what it was promised of its namespace is taken in"
            machine.fails = False
            await asyncio.sleep(10.0)
    assert [log["event"] for log in logs] == ["reconcile failed"]
    assert len(machine.asked) == 2
    assert RECONCILE_ERRORS._value.get() == errors + 1


@in_virtual_time
async def test_nothing_is_left_of_an_experiment_that_is_gone() -> None:
    scene = Scene()
    scene.queue.add_at("gone", now() + 5.0)
    scene.queue.add("gone")
    async with scene.running():
        await asyncio.sleep(60.0)
    assert scene.actions.cancelled == ["gone"], "it is looked at once"


@in_virtual_time
async def test_one_that_never_had_a_usable_spec_is_told_so() -> None:
    scene = Scene()
    scene.add(machine=False, spec=None, problem="parameters: too few")
    async with scene.running():
        (action,) = scene.actions.started
    assert isinstance(action, WriteExperimentStatus)
    assert "parameters: too few" in action.status.message


@in_virtual_time
async def test_all_machines_are_made_anew_when_the_clock_goes_back() -> None:
    scene = Scene()
    (first, _), (second, _) = scene.add("e-1"), scene.add("e-2")
    async with scene.running():
        scene.clock_is_off = -CLOCK_TOLERANCE
        scene.queue.add("e-1")
        await settle()
        assert first.machine is not None, "a little is nothing to worry about"
        scene.clock_is_off = -3 * CLOCK_TOLERANCE
        with capture_logs() as logs:
            scene.queue.add("e-1")
            await settle()
        assert [log["event"] for log in logs] == ["machines rebuilt: the clock was set back"]
        assert (first.machine, second.machine) == (None, None)


@in_virtual_time
async def test_who_does_not_run_or_has_lost_the_lease_does_not_lead() -> None:
    scene = Scene()
    assert not scene.loop.is_leading
    async with scene.running():
        assert scene.loop.is_leading
        scene.leads = False
        assert not scene.loop.is_leading
        scene.leads = True
    assert not scene.loop.is_leading
    assert scene.actions.is_closed
