"""Threads are kept for more work, but not many of them, and nothing of the work that they have done."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

from e2e.chaos.polling import until
from podtune.controllers.threads import BUSY, IDLE, KEPT, in_thread


def named(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())


async def until_idle() -> None:
    assert await until(lambda: not named(BUSY), 30, interval=0.001)


async def test_one_thread_does_one_piece_of_work_after_the_other() -> None:
    await until_idle()
    threads = set()
    for _ in range(5):
        threads.add(await in_thread(threading.current_thread))
        await until_idle()
    assert len(threads) == 1
    assert threading.current_thread() not in threads


async def test_after_a_rush_only_a_few_threads_are_kept() -> None:
    barrier = threading.Barrier(2 * KEPT)
    await asyncio.gather(*(in_thread(lambda: barrier.wait(30)) for _ in range(2 * KEPT)))
    assert await until(lambda: named(BUSY) + named(IDLE) <= KEPT, 30, interval=0.001)
    assert await asyncio.gather(*(in_thread(lambda: 1) for _ in range(2 * KEPT))) == [1] * 2 * KEPT


async def test_a_failure_is_handed_over_and_its_thread_goes_on() -> None:
    await until_idle()
    thread = await in_thread(threading.current_thread)
    await until_idle()
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 / 0)
    await until_idle()
    assert await in_thread(threading.current_thread) is thread


async def test_an_idle_thread_holds_nothing_of_what_it_has_done() -> None:
    class Searcher:
        pass

    searcher = Searcher()
    gone = weakref.ref(searcher)

    async def think(searcher: Searcher) -> None:
        await in_thread(lambda: searcher.__class__)

    await think(searcher)
    await until_idle()
    del searcher
    gc.collect()
    assert gone() is None
