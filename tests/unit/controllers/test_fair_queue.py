"""Whoever has little to do is not kept waiting by whoever has much."""

from __future__ import annotations

from podtune.controllers.fair_queue import FairQueue


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
    queue.done("a")
    assert taken(queue) == ["a"]


def test_one_key_leaves_room_for_others_and_goes_on_when_its_own_are_done() -> None:
    queue: FairQueue[int] = FairQueue(6, 4)
    for item in range(10):
        queue.add("slow", item)
    assert taken(queue) == ["slow"] * 4
    queue.add("other", 0)
    assert taken(queue) == ["other"]
    for _ in range(4):
        queue.done("slow")
    assert taken(queue) == ["slow"] * 4
    for _ in range(2):
        queue.done("slow")
    assert taken(queue) == ["slow"] * 2
    assert queue.take() is None


def test_a_key_that_fills_up_while_it_is_worked_on_waits_for_that() -> None:
    queue: FairQueue[int] = FairQueue(10, 1)
    queue.add("a", 0)
    assert taken(queue) == ["a"]
    queue.add("a", 1)
    assert taken(queue) == []
    queue.done("a")
    assert taken(queue) == ["a"]
