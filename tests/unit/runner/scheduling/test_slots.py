"""Which trials hold a slot, which wait for one, and what is asked for when one is free."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from podtune.api.names import DecisionAction, DesiredState, TrialReason, TrialState
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import Checkpoint
from podtune.runner.action_queue import EXPERIMENT, SOON, ActionQueue
from podtune.runner.actions import ActionResult, ActionStatus, CreatePod
from podtune.runner.attempts.nodes import Nodes
from podtune.runner.attempts.warm_pool import WarmPool
from podtune.runner.backoff import Backoff
from podtune.runner.records import PodPhase, Trial
from podtune.runner.scheduling.slots import STARTS_AT_A_TIME, Slots
from podtune.runner.settings import RunnerSettings
from podtune.runner.timestamps import format_rfc3339
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.parameters import compute_fingerprint
from podtune.tuning.schedulers.base import StartDecision
from tests.unit.runner.objects import NOW, PREFIX, make_machine, make_pod, make_spec, make_trial, save
from tests.unit.runner.scheduling.parts import Parts

PAUSED = {
    "state": TrialState.PAUSED,
    "reason": TrialReason.PAUSED_BY_SCHEDULER,
    "decision": {"action": "PAUSE", "reason": TrialReason.PAUSED_BY_SCHEDULER, "message": "m", "attempt": 1},
}


class CountedQuota:
    """Allows so many pods in all."""

    def __init__(self, pods: int = 1_000_000) -> None:
        self.left = pods

    def claim(self, pods: int) -> str:
        if pods > self.left:
            return "the namespace has none left"
        self.left -= pods
        return ""

    def wants_back(self) -> bool:
        return False


class SlotsScene:
    """Slots, and the trials that they know."""

    def __init__(self, spec: ExperimentSpec | None = None, *, pods_allowed: int = 1_000_000, replicas: int = 1) -> None:
        self.parts = Parts(spec or make_spec())
        self.scheduler = self.parts.scheduler
        self.actions = ActionQueue(Backoff(1.0, 1.0))
        self.replicas = replicas
        self.slots = Slots(
            self.actions,
            self.parts.processor,
            queue=self.parts.queue,
            nodes=Nodes(self.parts.spec.failures),
            quota=CountedQuota(pods_allowed),
            warm=WarmPool(self.parts.trials, self.actions, RunnerSettings()),
        )

    def add(self, index: int, **status: Any) -> TrialMachine:
        """A trial that is in this state; a new one where nothing is said."""
        return self.add_trial(make_trial(index, **status))

    def add_trial(self, trial: Trial) -> TrialMachine:
        machine = make_machine(trial, self.parts.spec, replicas=self.replicas)
        self.parts.add(machine)
        self.slots.update(machine, NOW)
        return machine

    def fill(self, limit: int, now: float = NOW, max_pending: int | None = None) -> tuple[list[str], list[str]]:
        """Fills slots; returns the trials whose pods are asked for, and those whose start has to be written first."""
        begun = self.slots.fill(limit, now, max_pending=max_pending)
        asked = [action.trial for action in self.actions.take() if isinstance(action, CreatePod)]
        for name in asked:
            self.slots.update(self.parts.trials[name], now)
        return asked, [trial.name for trial in begun]

    def answer(self, trial: TrialMachine, status: ActionStatus = ActionStatus.DONE) -> None:
        """Answers the request for a trial's pod."""
        self.actions.on_action_result(self.slots.build_creation(trial, NOW), ActionResult(status), NOW)
        self.slots.update(trial, NOW)

    def give_pod(self, trial: TrialMachine, **fields: Any) -> None:
        """The pod that was asked for is there."""
        trial.observe_pod(make_pod(trial, **fields))
        self.answer(trial)


# Who gets a slot


def test_free_slots_go_to_the_trials_that_have_waited_longest() -> None:
    scene = SlotsScene()
    scene.add(0, state="PENDING", reason="BackingOff", retry_time=format_rfc3339(NOW - 10))
    scene.add(1, state="PENDING", reason="BackingOff", retry_time=format_rfc3339(NOW - 20))
    scene.add(2)
    assert scene.fill(2) == (["e-2", "e-1"], [])
    assert (list(scene.slots.queue), scene.slots.taken, scene.slots.count_free(2)) == ([0], 2, 0)
    assert scene.fill(2) == ([], [])


def test_the_scheduler_picks_among_those_that_wait() -> None:
    scene = SlotsScene()
    scene.scheduler.in_order, scene.scheduler.start = False, StartDecision(1)
    for index in range(3):
        scene.add(index)
    assert scene.fill(1) == (["e-1"], [])


def test_a_scheduler_that_picks_a_trial_that_does_not_wait_is_told_so() -> None:
    scene = SlotsScene()
    scene.scheduler.in_order, scene.scheduler.start = False, StartDecision(17)
    scene.add(0)
    with pytest.raises(ValueError, match="starts trial 17, which is not waiting"):
        scene.fill(1)


def test_nothing_is_left_to_do_where_the_scheduler_starts_none_of_the_paused() -> None:
    scene = SlotsScene()
    scene.scheduler.in_order = False
    scene.add(0, **PAUSED)
    scene.fill(1)
    assert scene.slots.is_deadlocked(unfinished=1)
    assert not scene.slots.is_deadlocked(unfinished=2), "another one may change its mind"
    scene.fill(0)
    assert not scene.slots.is_deadlocked(unfinished=1), "it was not asked"


def test_slots_are_for_new_trials_where_the_scheduler_wants_none_of_those_that_wait() -> None:
    scene = SlotsScene()
    scene.scheduler.in_order = False
    scene.add(0, **PAUSED)
    scene.add(1, attempt=1, last_attempt={"attempt": 1, "class": "user", "reason": "Error"})
    scene.fill(2)
    assert scene.slots.count_unclaimed(2) == 2, "neither the paused one nor the one that is retried is to run now"
    scene.add(2)
    scene.fill(2)
    assert scene.slots.count_unclaimed(2) == 1, "of new ones that are held back there are no more than slots"


def test_no_more_trials_start_than_may_be_pending() -> None:
    scene = SlotsScene()
    trials = [scene.add(index) for index in range(3)]
    assert scene.fill(3, max_pending=1) == (["e-0"], [])
    scene.give_pod(trials[0], training=False)
    assert scene.fill(3, max_pending=1) == ([], [])
    scene.give_pod(trials[0], version=2)
    assert scene.fill(3, max_pending=1) == (["e-1"], [])


def test_thousands_are_started_in_several_decisions() -> None:
    scene = SlotsScene()
    for index in range(STARTS_AT_A_TIME + 1):
        scene.add(index)
    assert len(scene.fill(1000)[0]) == STARTS_AT_A_TIME
    assert list(scene.actions.timers.pop_due(NOW + SOON)) == [EXPERIMENT]
    assert len(scene.fill(1000)[0]) == 1


# How long it is held


def test_a_slot_is_held_until_the_end_of_the_pod_is_taken_in() -> None:
    scene = SlotsScene()
    trial = scene.add(0)
    scene.fill(1)
    assert scene.slots.taken == 1, "its pod is asked for"
    scene.give_pod(trial)
    assert scene.slots.taken == 1, "its pod is there"
    trial.observe_pod(make_pod(trial, version=2, phase=PodPhase.SUCCEEDED))
    scene.slots.update(trial, NOW)
    assert scene.slots.taken == 1, "what came of it is not known"
    ended = trial.status.model_copy(update={"state": TrialState.TERMINATED})
    other = make_machine(replace(trial.seen, status=ended), scene.parts.spec)
    scene.slots.update(other, NOW)
    assert scene.slots.taken == 0


def test_it_is_held_while_it_is_not_known_whether_the_pod_was_made() -> None:
    scene = SlotsScene()
    trial = scene.add(0)
    scene.fill(1)
    trial.expectations.pod_expected_until = NOW + 30
    scene.answer(trial, ActionStatus.FAILED)
    assert scene.slots.taken == 1
    assert scene.slots.is_creating(trial, NOW + 29)
    assert not scene.slots.is_creating(trial, NOW + 30)
    list(scene.actions.timers.pop_due(NOW + 2))
    scene.slots.update(trial, NOW + 2)
    assert list(scene.actions.timers.pop_due(NOW + 30)) == ["e-0"], "it is looked at again then"


def test_a_slot_that_a_paused_trial_gives_back_goes_to_another_one() -> None:
    scene = SlotsScene()
    trial = scene.add(0, state="RUNNING")
    scene.give_pod(trial)
    scene.add(1)
    assert scene.fill(1) == ([], [])
    scene.scheduler.in_order, scene.scheduler.start = False, StartDecision(1)
    scene.add(0, **PAUSED)
    assert scene.fill(1) == (["e-1"], [])
    assert (scene.slots.queue.paused, scene.slots.count_unclaimed(2)) == (1, 1), "the paused one claims no slot"


def test_slots_that_trials_wait_for_are_not_offered_to_new_proposals() -> None:
    scene = SlotsScene()
    scene.add(0)
    decision = PAUSED["decision"]
    resumed = make_trial(1, state=TrialState.PAUSED, reason=TrialReason.PAUSED_BY_USER, decision=decision)
    trial = make_machine(resumed, scene.parts.spec)
    trial.set(decision=None)
    trial.explain(TrialState.PENDING, TrialReason.QUEUED, "resumed")
    scene.slots.update(trial, NOW)
    assert scene.slots.count_unclaimed(5) == 3, "one waits, and one will as soon as it is on record that it goes on"


# When a trial may start


def test_a_trial_that_backs_off_waits_for_its_time() -> None:
    scene = SlotsScene()
    trial = scene.add(0, state="PENDING", reason="BackingOff", retry_time=format_rfc3339(NOW + 10))
    assert scene.fill(1) == ([], [])
    assert list(scene.actions.timers.pop_due(NOW + 10)) == ["e-0"]
    scene.slots.update(trial, NOW + 10)
    assert scene.fill(1, NOW + 10) == (["e-0"], [])


def test_no_wait_is_longer_than_the_longest_backoff() -> None:
    """It was written down by a clock that has gone back since."""
    scene = SlotsScene(make_spec(failures={"backoff": {"initial": "1s", "max": "60s"}}))
    scene.add(0, state="PENDING", reason="BackingOff", retry_time=format_rfc3339(NOW + 10_000))
    assert scene.fill(1) == (["e-0"], [])


@pytest.mark.parametrize("desired", [DesiredState.PAUSED, DesiredState.STOPPED])
def test_a_trial_that_its_user_does_not_want_to_run_gets_no_slot(desired: DesiredState) -> None:
    scene = SlotsScene()
    scene.add_trial(make_trial(0, desired=desired))
    assert scene.fill(1) == ([], [])


def test_a_start_that_has_a_reason_is_on_record_before_the_pod_is_asked_for() -> None:
    scene = SlotsScene()
    trial = scene.add(0, **PAUSED)
    scene.scheduler.in_order, scene.scheduler.start = False, StartDecision(0, "goes on", recorded=True)
    assert scene.fill(1) == ([], ["e-0"])
    assert scene.slots.taken == 1
    scene.slots.update(trial, NOW)
    assert scene.fill(1) == ([], []), "it is not picked once more"
    save(trial)
    scene.parts.processor.on_status_saved(trial)
    scene.slots.update(trial, NOW)
    assert scene.fill(1) == (["e-0"], [])


def test_a_start_waits_for_the_records_that_it_rests_on() -> None:
    scene = SlotsScene()
    first, second = scene.add(0), scene.add(1)
    barrier = scene.parts.processor.barrier
    scene.scheduler.records[0] = {"bracket": {"0": ""}}
    barrier.write_record(first, NOW)
    second.decision_lsn = barrier.latest
    scene.scheduler.in_order, scene.scheduler.start = False, StartDecision(1, "goes on")
    assert scene.fill(1) == ([], ["e-1"])
    save(second)
    scene.slots.update(second, NOW)
    assert scene.fill(1) == ([], [])
    assert list(barrier.waiting) == ["e-1"]
    save(first)
    scene.parts.processor.on_status_saved(first)
    scene.slots.update(second, NOW)
    assert scene.fill(1) == (["e-1"], [])


def test_a_picked_trial_that_is_not_to_run_any_more_gives_its_slot_back() -> None:
    scene = SlotsScene()
    trial = scene.add(0, **PAUSED)
    scene.scheduler.in_order, scene.scheduler.start = False, StartDecision(0, "goes on", recorded=True)
    scene.fill(1)
    trial.seen = replace(trial.seen, deleting=True)
    scene.slots.update(trial, NOW)
    assert scene.slots.taken == 0


# The pods that a namespace may have


def test_a_trial_that_the_quota_keeps_back_keeps_its_turn() -> None:
    scene = SlotsScene(pods_allowed=1)
    for index in range(2):
        scene.add(index)
    assert scene.fill(2) == (["e-0"], [])
    assert (scene.slots.kept_back, list(scene.slots.queue)) == ("the namespace has none left", [1])


def test_pods_are_promised_until_they_are_seen() -> None:
    scene = SlotsScene(replicas=2)
    trial = scene.add(0)
    scene.fill(1)
    assert scene.slots.promised == 2
    trial.observe_pod(make_pod(trial, gated=True, training=False))
    scene.slots.update(trial, NOW)
    assert scene.slots.promised == 1
    trial.observe_pod(replace(make_pod(trial, gated=True, training=False), uid="pod-0-1-1", name="e-0-1-1", rank=1))
    scene.answer(trial)
    assert (scene.slots.promised, scene.slots.taken) == (0, 1)


# What is asked for


def test_a_pod_gets_what_is_on_record_of_its_trial() -> None:
    store = {"store": {"bucket": "models"}}
    scene = SlotsScene(make_spec(checkpoints=store))
    tuned = {"learning_rate": "0.02"}
    stored = Checkpoint(step=4, uri=f"{PREFIX}e-0/1-pod/4", digest="d", configuration=compute_fingerprint(tuned))
    last = {"attempt": 1, "failure_class": "user", "reason": "Error"}
    trial = scene.add(
        0,
        state="PENDING",
        reason="BackingOff",
        attempt=1,
        last_attempt=last,
        iteration=6,
        checkpoint=stored,
        checkpoints=[stored],
        parameters=tuned,
    )
    action = scene.slots.build_creation(trial, NOW)
    assert (action.trial, action.trial_uid, action.attempt) == ("e-0", "trial-0", 2)
    assert (action.iteration, [point.step for point in action.restore], action.restore_or_fail) == (6, [4], False)
    assert (action.spec.parameters, action.limits, action.avoid) == (tuned, {}, ())
    trial.decide(DecisionAction.STOP, TrialReason.STOPPED_BY_USER, "why", now=NOW)
    assert scene.slots.build_creation(trial, NOW) == action, "what is not on record changes nothing"
