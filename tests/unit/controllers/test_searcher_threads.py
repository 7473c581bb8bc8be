"""Threads are kept for more work for a while, and nothing of the work that they have done."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable

import pytest

from e2e.chaos.polling import until
from podtune.controllers.searcher_threads import SearcherThreads

LONG = 60.0


def count_running() -> int:
    return sum(thread.name == "searcher" for thread in threading.enumerate())


async def until_idle(threads: SearcherThreads, count: int = 1) -> None:
    assert await until(lambda: threads._idle._value >= count, 60, interval=0.001)


async def test_one_thread_does_one_piece_of_work_after_the_other() -> None:
    threads = SearcherThreads()
    used = set()
    for _ in range(5):
        used.add(threads.submit(threading.current_thread).result(LONG))
        await until_idle(threads)
    assert len(used) == 1
    assert threading.current_thread() not in used


async def test_there_are_as_many_threads_as_there_is_work_and_idle_ones_end() -> None:
    before, many = count_running(), 16
    barrier = threading.Barrier(many)
    threads = SearcherThreads(idle_seconds=0.01)
    for call in [threads.submit(barrier.wait, LONG) for _ in range(many)]:
        call.result(LONG)
    assert await until(lambda: count_running() <= before, 60, interval=0.001)
    assert threads.submit(lambda: 1).result(LONG) == 1


async def test_a_failure_is_handed_over_and_its_thread_goes_on() -> None:
    threads = SearcherThreads()
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 / 0).result(LONG)
    await until_idle(threads)
    assert threads.submit(threading.current_thread).result(LONG).is_alive()


async def test_work_that_was_given_up_before_a_thread_took_it_is_not_done() -> None:
    threads, free = SearcherThreads(), threading.Event()
    done: list[int] = []
    threads._idle.release()  # as if there were an idle thread
    waiting = threads.submit(done.append, 1)
    assert waiting.cancel()
    threads.submit(free.set)
    assert free.wait(LONG)
    assert done == []


async def test_an_idle_thread_holds_nothing_of_what_it_has_done() -> None:
    class Searcher:
        def think(self) -> None: ...

    threads = SearcherThreads()
    searcher = Searcher()
    gone = weakref.ref(searcher)
    think: Callable[[], None] | None = searcher.think
    threads.submit(think).result(LONG)  # type: ignore[arg-type]
    await until_idle(threads)
    del searcher, think
    gc.collect()
    assert gone() is None


def test_a_thread_does_not_keep_the_process_alive() -> None:
    assert SearcherThreads().submit(threading.current_thread).result(LONG).daemon
