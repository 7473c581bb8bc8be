"""Each action is carried out when it is its experiment's turn, and who asked for it hears how it went."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor as Threads
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

from structlog.testing import capture_logs

from podtune.api.names import ExperimentReason, TrialState
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import AttemptEnd, ProposalSource, TrialSpec, TrialStatus
from podtune.api.restore_from import RestoreFrom
from podtune.cluster.executor import Executor
from podtune.controllers.action_runner import MAX_LOOK_UPS_OF_ONE, MAX_REQUESTS, MAX_REQUESTS_OF_ONE, ActionRunner
from podtune.controllers.metrics import ATTEMPTS, CHECKPOINTS_LEFT, RECONCILE_ERRORS
from podtune.controllers.store.entry import ExperimentEntry
from podtune.controllers.store.stalled import Stalled
from podtune.controllers.work_queue import WorkQueue
from podtune.runner.actions import (
    DONE,
    Action,
    ActionResult,
    ActionStatus,
    DeletePod,
    EmitEvent,
    FindCheckpoint,
    Propose,
    WriteTrialStatus,
)
from podtune.runner.backoff import Backoff
from podtune.runner.experiment_machine import ExperimentMachine
from podtune.runner.records import Experiment, Trial
from podtune.runner.search.origins import Origin
from tests.unit.cluster.objects import experiment_record
from tests.unit.cluster.virtual_time import in_virtual_time, now, settle

ORIGINS = (Origin(ProposalSource.SEARCHER, 0), Origin(ProposalSource.SEARCHER, 1))
PROPOSE = Propose(first=0, count=2, observations=(), observed=0, pending=(), origins=ORIGINS)


def delete_pod(number: int = 0) -> DeletePod:
    return DeletePod(f"digits-{number}", f"digits-{number}-1", f"pod-{number}")


def find_checkpoint(number: int) -> FindCheckpoint:
    return FindCheckpoint(f"digits-{number}", RestoreFrom(experiment="other", trial=f"other-{number}"))


def write_status(number: int = 0, *, routine: bool = False, **status: Any) -> WriteTrialStatus:
    return WriteTrialStatus(f"digits-{number}", f"t-{number}", 1, TrialStatus.model_validate(status), routine)


class AtOnce(Threads):
    """Does all work at once: virtual time knows no threads."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@dataclass
class Machine:
    """Notes how actions went."""

    spec: ExperimentSpec | None
    heard: list[tuple[Action, ActionResult]] = field(default_factory=list)
    fails: bool = False

    def on_action_result(self, action: Action, result: ActionResult, now: float) -> None:
        if self.fails:
            raise ValueError("an error of the machine")
        self.heard.append((action, result))


@dataclass
class SlowRequests:
    """An executor whose requests are answered when a test says so."""

    answer: ActionResult | Exception = DONE
    begun: list[Action] = field(default_factory=list)
    under_way: list[Action] = field(default_factory=list)
    served: list[Experiment] = field(default_factory=list)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def execute(self, experiment: Experiment, action: Action) -> ActionResult:
        self.begun.append(action)
        self.served.append(experiment)
        self.under_way.append(action)
        try:
            await self.may_end.wait()
        finally:
            self.under_way.remove(action)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Scene:
    """A runner, and the experiments that it works for."""

    def __init__(self, *, answer: ActionResult | Exception = DONE, at_once: bool = True) -> None:
        self.queue = WorkQueue(now)
        self.requests = SlowRequests(answer)
        if at_once:
            self.requests.may_end.set()
        self.runner = ActionRunner(self.queue, cast("Executor", self.requests), AtOnce(), 60.0, now)

    def add(self, uid: str = "e-1") -> tuple[ExperimentEntry, Machine]:
        experiment = experiment_record()
        experiment = Experiment("team", "digits", uid, 1, 1, experiment.spec, experiment.status)
        machine = Machine(experiment.spec)
        return ExperimentEntry(experiment, Stalled(Backoff(1.0, 1.0)), cast("ExperimentMachine", machine)), machine

    async def run(self, entry: ExperimentEntry, *actions: Action) -> None:
        self.runner.start(entry, actions)
        await settle()


# How an action went


@in_virtual_time
async def test_the_machine_hears_how_an_action_went_and_is_asked_again() -> None:
    scene = Scene(answer=ActionResult(ActionStatus.REFUSED, "exceeded quota"))
    entry, machine = scene.add()
    with capture_logs() as logs:
        await scene.run(entry, delete_pod())
    assert machine.heard == [(delete_pod(), ActionResult(ActionStatus.REFUSED, "exceeded quota"))]
    assert await scene.queue.get() == "e-1"
    assert [(log["event"], log["message"]) for log in logs] == [("action not done", "exceeded quota")]


@in_virtual_time
async def test_it_hears_of_an_error_of_the_operators_own_too() -> None:
    scene = Scene(answer=KeyError("a bug"))
    entry, machine = scene.add()
    with capture_logs() as logs:
        await scene.run(entry, delete_pod())
    ((_, result),) = machine.heard
    assert (result.status, result.message) == (ActionStatus.FAILED, "internal error; see the operator's log")
    assert "action failed" in [log["event"] for log in logs]


@in_virtual_time
async def test_a_machine_that_fails_on_the_answer_is_dropped_and_made_anew_after_a_while() -> None:
    scene, errors = Scene(), RECONCILE_ERRORS._value.get()
    entry, machine = scene.add()
    machine.fails = True
    with capture_logs():
        await scene.run(entry, delete_pod())
    assert entry.machine is None
    assert (len(scene.queue), RECONCILE_ERRORS._value.get()) == (0, errors + 1)
    begun = now()
    assert await scene.queue.get() == "e-1"
    assert now() > begun


@in_virtual_time
async def test_an_action_goes_by_the_spec_that_the_machine_works_by() -> None:
    scene = Scene()
    entry, machine = scene.add()
    machine.spec = None
    await scene.run(entry, delete_pod())
    assert [experiment.spec for experiment in scene.requests.served] == [None]


@in_virtual_time
async def test_a_searcher_thinks_elsewhere() -> None:
    scene = Scene(at_once=False)
    entry, machine = scene.add()
    await scene.run(entry, PROPOSE)
    ((action, result),) = machine.heard
    assert (action, result.status, len(result.proposals)) == (PROPOSE, ActionStatus.DONE, 2)
    assert scene.requests.begun == []


# Turns


@in_virtual_time
async def test_one_experiment_leaves_room_for_the_requests_of_others() -> None:
    scene = Scene(at_once=False)
    (giant, _), (small, _) = scene.add("giant"), scene.add("small")
    await scene.run(giant, *(delete_pod(number) for number in range(100)))
    assert len(scene.requests.under_way) == MAX_REQUESTS_OF_ONE
    await scene.run(small, *(delete_pod(number) for number in range(100)))
    assert len(scene.requests.under_way) == MAX_REQUESTS


@in_virtual_time
async def test_a_status_that_nothing_waits_for_comes_after_the_others() -> None:
    scene = Scene(at_once=False)
    entry, _ = scene.add()
    await scene.run(entry, *(delete_pod(number) for number in range(MAX_REQUESTS_OF_ONE)))
    await scene.run(entry, write_status(0, routine=True), write_status(1))
    scene.requests.may_end.set()
    await settle()
    assert scene.requests.begun[-2:] == [write_status(1), write_status(0, routine=True)]


@in_virtual_time
async def test_look_ups_that_get_no_answer_are_few_and_hold_up_no_request() -> None:
    scene = Scene(at_once=False)
    entry, _ = scene.add()
    await scene.run(entry, *(find_checkpoint(number) for number in range(20)))
    assert len(scene.requests.under_way) == MAX_LOOK_UPS_OF_ONE
    await scene.run(entry, delete_pod())
    assert scene.requests.under_way[-1] == delete_pod()
    scene.runner.cancel("e-1")
    await settle()
    assert scene.requests.under_way == [delete_pod()], "what is looked up ends with its experiment; requests go on"


@in_virtual_time
async def test_what_is_under_way_ends_with_the_operator() -> None:
    scene = Scene(at_once=False)
    entry, machine = scene.add()
    await scene.run(entry, delete_pod(), find_checkpoint(0))
    await scene.runner.close()
    assert (scene.requests.under_way, machine.heard) == ([], [])
    await scene.run(entry, delete_pod(1))
    assert scene.requests.begun[-1] != delete_pod(1)


# What is counted


@in_virtual_time
async def test_the_end_of_an_attempt_is_counted_when_it_is_written_first() -> None:
    scene, counter = Scene(), ATTEMPTS.labels("user")._value
    entry, _ = scene.add()
    end = AttemptEnd(attempt=1, failure_class="user", reason="Error")
    before = counter.get()
    await scene.run(entry, write_status(state=TrialState.PENDING, last_attempt=end))
    assert counter.get() == before + 1
    spec = TrialSpec(experiment="digits", index=0, parameters={})
    entry.trials["digits-0"] = Trial("digits-0", "t-0", 2, 1, spec, TrialStatus(last_attempt=end))
    await scene.run(entry, write_status(state=TrialState.RUNNING, last_attempt=end), write_status(1))
    assert counter.get() == before + 1
    scene.requests.answer = ActionResult(ActionStatus.FAILED, "conflict")
    other = end.model_copy(update={"attempt": 2})
    await scene.run(entry, write_status(last_attempt=other))
    assert counter.get() == before + 1, "it is not written"


@in_virtual_time
async def test_what_may_be_left_in_a_bucket_is_logged_and_counted() -> None:
    scene, before = Scene(), CHECKPOINTS_LEFT._value.get()
    entry, _ = scene.add()
    reason = ExperimentReason.CHECKPOINTS_LEFT
    with capture_logs() as logs:
        await scene.run(entry, EmitEvent("", reason, "why", warning=True, left_at="e-1/"), EmitEvent("", reason, "no"))
    assert [(log["event"], log["experiment_uid"], log["prefix"]) for log in logs] == [
        ("checkpoints left", "e-1", "e-1/")
    ]
    assert CHECKPOINTS_LEFT._value.get() == before + 1


@in_virtual_time
async def test_the_traceback_of_a_plugin_that_fails_is_logged() -> None:
    scene = Scene()
    entry, _ = scene.add()
    reason = ExperimentReason.PLUGIN_FAILED
    with capture_logs() as logs:
        await scene.run(entry, EmitEvent("", reason, "it failed", warning=True, trace="in line 7"))
    said = [(log["event"], log["experiment"], log["message"], log["exception"]) for log in logs]
    assert said == [("plugin failed", entry.experiment.name, "it failed", "in line 7")]
