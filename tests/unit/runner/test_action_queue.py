"""An action is asked for once, and again after a while where it failed; what has to wait is looked at in time."""

from __future__ import annotations

import math

import pytest

from podtune.protocol.storage_job import StoragePurpose
from podtune.runner.action_queue import EXPERIMENT, ActionQueue, Timers
from podtune.runner.actions import (
    DONE,
    Action,
    ActionResult,
    ActionStatus,
    CreateStoragePod,
    DeleteExperiment,
    DeletePod,
    EmitEvent,
)
from podtune.runner.backoff import Backoff

FAILED = ActionResult(ActionStatus.FAILED, "busy")
REFUSED = ActionResult(ActionStatus.REFUSED, "no")
DELETE = DeletePod("e-0", "e-0-1", "u")


def test_an_action_is_asked_for_once_until_it_was_heard_of() -> None:
    queue = ActionQueue(Backoff(8.0, 60.0))
    assert queue.enqueue(DELETE, 0.0)
    assert not queue.enqueue(DELETE, 1.0)
    assert DELETE.key in queue
    assert queue.find_ready_time(DELETE.key) == math.inf
    assert queue.take() == (DELETE,)
    assert queue.take() == ()
    queue.on_action_result(DELETE, DONE, 2.0)
    assert DELETE.key not in queue
    assert queue.enqueue(DELETE, 2.0)


def test_one_that_failed_waits_longer_each_time_and_its_trial_is_looked_at_again() -> None:
    queue = ActionQueue(Backoff(8.0, 60.0))
    waits = []
    now = 0.0
    for failures in (1, 2, 3):
        assert queue.enqueue(DELETE, now, "e-0")
        queue.on_action_result(DELETE, FAILED, now)
        assert queue.count_failures(DELETE.key) == failures
        waits.append(queue.find_ready_time(DELETE.key) - now)
        assert not queue.enqueue(DELETE, now, "e-0")
        assert queue.timers.next == now + waits[-1]
        now += waits[-1]
        assert list(queue.timers.pop_due(now)) == ["e-0"]
    assert 4.0 <= waits[0] <= 8.0 <= waits[1] <= 16.0 <= waits[2] <= 32.0
    assert queue.enqueue(DELETE, now, "e-0")
    queue.on_action_result(DELETE, DONE, now)
    assert (queue.count_failures(DELETE.key), queue.find_ready_time(DELETE.key)) == (0, 0.0)


@pytest.mark.parametrize(
    ("action", "result", "waits"),
    [
        (EmitEvent("e-0", "Reason", "words"), FAILED, False),
        (CreateStoragePod(StoragePurpose.PURGE, 1), REFUSED, False),
        (CreateStoragePod(StoragePurpose.PURGE, 1), FAILED, True),
        (DeleteExperiment(3), REFUSED, True),
    ],
)
def test_what_has_a_backoff_of_its_own_is_not_held_back(action: Action, result: ActionResult, *, waits: bool) -> None:
    queue = ActionQueue(Backoff(8.0, 60.0))
    assert queue.enqueue(action, 0.0)
    queue.on_action_result(action, result, 0.0)
    assert queue.is_ready(action.key, 0.0) is not waits
    assert (queue.timers.next < math.inf) is waits
    assert list(queue.timers.pop_due(100.0)) == ([EXPERIMENT] if waits else [])


def test_half_a_plan_is_dropped_and_may_be_asked_for_again() -> None:
    queue = ActionQueue(Backoff(8.0, 60.0))
    queue.enqueue(DELETE, 0.0)
    queue.drop()
    assert queue.take() == ()
    assert queue.enqueue(DELETE, 0.0)


def test_failures_of_a_name_that_is_gone_are_forgotten() -> None:
    queue = ActionQueue(Backoff(8.0, 60.0))
    queue.on_action_result(DELETE, FAILED, 0.0)
    queue.forget("e-0")
    assert queue.count_failures(DELETE.key) == 1
    queue.forget("e-0-1")
    assert queue.count_failures(DELETE.key) == 0


def timers() -> Timers:
    made = Timers()
    made.set("late", 5.0)
    made.set("early", 2.0)
    return made


def test_the_earliest_of_a_trial_rings_and_once() -> None:
    made = timers()
    made.set("late", 3.0)
    made.set("late", 4.0)
    assert list(made.pop_due(2.5)) == ["early"]
    assert made.next == 3.0
    assert list(made.pop_due(10.0)) == ["late"]
    assert made.next == math.inf


def test_what_was_cancelled_wakes_nobody() -> None:
    made = timers()
    made.cancel("early")
    made.cancel("unknown")
    assert made.next == 5.0
    assert list(made.pop_due(4.0)) == []
    made.set("early", 4.5)
    assert list(made.pop_due(10.0)) == ["early", "late"]
