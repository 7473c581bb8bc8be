"""Each key is in the queue once at most, in the order of its coming, and comes in by itself when its time has come."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from podtune.controllers.work_queue import WorkQueue
from tests.unit.cluster.virtual_time import in_virtual_time, now, settle


async def drain(queue: WorkQueue) -> list[str]:
    return [await queue.get() for _ in range(len(queue))]


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcd")))
def test_keys_come_out_once_in_the_order_in_which_they_first_came_in(keys: list[str]) -> None:
    async def test() -> None:
        queue = WorkQueue(now)
        for key in keys:
            queue.add(key)
        assert await drain(queue) == list(dict.fromkeys(keys))

    in_virtual_time(test)()


@in_virtual_time
async def test_a_key_that_is_added_while_it_is_worked_on_comes_again() -> None:
    queue = WorkQueue(now)
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    assert await queue.get() == "a"


@in_virtual_time
async def test_who_waits_is_woken() -> None:
    queue = WorkQueue(now)
    waiting = asyncio.create_task(queue.get())
    await settle()
    assert not waiting.done()
    queue.add("a")
    assert await waiting == "a"


@in_virtual_time
async def test_a_key_comes_in_at_its_time() -> None:
    queue = WorkQueue(now)
    queue.add_at("a", now() + 60)
    assert await queue.get() == "a"
    assert now() == 1060


@in_virtual_time
async def test_a_time_in_the_past_is_now() -> None:
    queue = WorkQueue(now)
    queue.add_at("a", now() - 60)
    assert await queue.get() == "a"
    assert now() == 1000


@in_virtual_time
async def test_a_key_that_is_forgotten_comes_no_more() -> None:
    queue = WorkQueue(now)
    queue.add("a")
    queue.add_at("a", now() + 5)
    queue.add("b")
    queue.remove("a")
    await asyncio.sleep(10)
    assert await drain(queue) == ["b"]


MOMENTS = st.sampled_from([0.0, 1.0, 2.0, 5.0, float("inf")])


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.sampled_from("abc"), MOMENTS), max_size=12))
def test_of_a_keys_times_the_one_that_was_set_last_counts(calls: list[tuple[str, float]]) -> None:
    async def test() -> None:
        queue = WorkQueue(now)
        for key, delay in calls:
            queue.add_at(key, now() + delay)
        due = {key: delay for key, delay in calls if delay != float("inf")}
        last = {key: delay for key, delay in dict(calls).items() if delay != float("inf")}
        came: dict[str, float] = {}
        while last.keys() - came.keys():
            key = await queue.get()
            assert key not in came
            came[key] = now() - 1000
        assert came == last
        await asyncio.sleep(10)
        assert len(queue) == 0, due

    in_virtual_time(test)()


@in_virtual_time
async def test_a_key_whose_processing_fails_again_and_again_comes_back_later_and_later() -> None:
    queue = WorkQueue(now)
    waits = []
    for _ in range(12):
        begun = now()
        queue.add_rate_limited("a")
        await queue.get()
        waits.append(now() - begun)
    assert all(0.5 * 2**n <= wait <= 2**n for n, wait in enumerate(waits[:8]))
    assert 150 <= waits[-1] <= 300
    queue.forget("a")
    begun = now()
    queue.add_rate_limited("a")
    await queue.get()
    assert now() - begun <= 1


@in_virtual_time
async def test_a_keys_wait_counts_from_when_it_first_came_in() -> None:
    def waited() -> float:
        return REGISTRY.get_sample_value("podtune_decision_wait_seconds_sum") or 0.0

    queue, before = WorkQueue(now), waited()
    queue.add("a")
    await asyncio.sleep(2)
    queue.add("a")
    await asyncio.sleep(3)
    assert await queue.get() == "a"
    assert waited() - before == 5
