"""Whoever has little to do is not kept waiting by whoever has much."""

from __future__ import annotations

import asyncio
from functools import partial

from podtune.controllers.fair_tasks import FairQueue, FairTasks
from tests.unit.cluster.virtual_time import in_virtual_time, now


def taken(queue: FairQueue[int]) -> list[str]:
    """The keys of all items that are handed out now."""
    keys = []
    while (turn := queue.take()) is not None:
        keys.append(turn[0])
    return keys


def test_keys_take_turns_however_much_each_has() -> None:
    queue: FairQueue[int] = FairQueue(100, 100)
    for item in range(10):
        queue.add("giant", item)
    for item in range(3):
        queue.add("small", item)
    assert taken(queue) == ["giant", "small"] * 3 + ["giant"] * 7


def test_of_one_key_what_came_first_is_first() -> None:
    queue: FairQueue[int] = FairQueue(100, 100)
    for item in range(5):
        queue.add("a", item)
    assert [queue.take() for _ in range(5)] == [("a", item) for item in range(5)]


def test_what_something_waits_for_comes_before_routine_which_comes_all_the_same() -> None:
    queue: FairQueue[int] = FairQueue(100, 100)
    for item in range(3):
        queue.add("a", item, routine=True)
    for item in range(10, 15):
        queue.add("a", item)
    handed_out = [turn[1] for turn in iter(queue.take, None)]
    assert handed_out == [10, 11, 12, 0, 13, 14, 1, 2]


def test_no_more_are_worked_on_than_may_be() -> None:
    queue: FairQueue[int] = FairQueue(3, 3)
    for item in range(5):
        queue.add("a", item)
    assert taken(queue) == ["a"] * 3
    queue.mark_done("a")
    assert taken(queue) == ["a"]


def test_one_key_leaves_room_for_others_and_goes_on_when_its_own_are_done() -> None:
    queue: FairQueue[int] = FairQueue(6, 4)
    for item in range(10):
        queue.add("slow", item)
    assert taken(queue) == ["slow"] * 4
    queue.add("other", 0)
    assert taken(queue) == ["other"]
    for _ in range(4):
        queue.mark_done("slow")
    assert taken(queue) == ["slow"] * 4
    for _ in range(2):
        queue.mark_done("slow")
    assert taken(queue) == ["slow"] * 2
    assert queue.take() is None


def test_a_key_that_fills_up_while_it_is_worked_on_waits_for_that() -> None:
    queue: FairQueue[int] = FairQueue(10, 1)
    queue.add("a", 0)
    assert taken(queue) == ["a"]
    queue.add("a", 1)
    assert taken(queue) == []
    queue.mark_done("a")
    assert taken(queue) == ["a"]


# Tasks


class Recorder:
    """Work that takes a while."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.ended = 0

    async def work(self, seconds: float) -> None:
        self.begun.append(now())
        await asyncio.sleep(seconds)
        self.ended += 1


@in_virtual_time
async def test_a_task_is_started_when_another_has_ended() -> None:
    tasks, recorder = FairTasks(2, 2), Recorder()
    begun = now()
    for _ in range(5):
        tasks.add("a", partial(recorder.work, 10.0))
    await asyncio.sleep(60)
    assert [moment - begun for moment in recorder.begun] == [0, 0, 10, 10, 20]
    assert recorder.ended == 5


@in_virtual_time
async def test_one_that_takes_long_keeps_the_next_from_being_started_no_longer() -> None:
    tasks, recorder = FairTasks(1, 1, patience=1.0), Recorder()
    begun = now()
    for _ in range(3):
        tasks.add("a", partial(recorder.work, 10.0))
    await asyncio.sleep(60)
    assert [moment - begun for moment in recorder.begun] == [0, 1, 2]
    assert recorder.ended == 3


@in_virtual_time
async def test_tasks_of_a_key_that_is_gone_end_and_others_are_started_in_their_place() -> None:
    tasks, gone, other = FairTasks(2, 2), Recorder(), Recorder()
    for _ in range(5):
        tasks.add("gone", partial(gone.work, 10.0))
    tasks.add("other", partial(other.work, 10.0))
    await asyncio.sleep(1)
    tasks.cancel("gone")
    await asyncio.sleep(60)
    assert (len(gone.begun), gone.ended, other.ended) == (2, 0, 1)


@in_virtual_time
async def test_none_is_started_after_the_end() -> None:
    tasks, recorder = FairTasks(1, 1), Recorder()
    for _ in range(3):
        tasks.add("a", partial(recorder.work, 10.0))
    await asyncio.sleep(1)
    await tasks.close()
    await asyncio.sleep(60)
    assert (len(recorder.begun), recorder.ended) == (1, 0)


@in_virtual_time
async def test_tasks_that_were_not_started_are_counted() -> None:
    tasks, recorder = FairTasks(1, 1), Recorder()
    for key in ("a", "a", "b"):
        tasks.add(key, partial(recorder.work, 10.0))
    assert tasks.waiting == 2
    await asyncio.sleep(15)
    assert tasks.waiting == 1
