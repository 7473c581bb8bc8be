"""Threads for searchers to compute in, away from the event loop.

A `concurrent.futures.ThreadPoolExecutor` waits for its threads when the process ends, and a searcher may think for
ever. These are daemons, and there are as many of them as there is work at the same time: whoever hands work over limits
that (`fair_tasks`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

THREAD_IDLE_SECONDS = 10.0
"""A thread waits so long for more work: to start one takes longer than most searchers think."""


class SearcherThreads(Executor):
    """Starts a thread whenever none is idle."""

    def __init__(self, idle_seconds: float = THREAD_IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._idle = threading.Semaphore(0)
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Has a function called in a thread."""
        future: Future[T] = Future()
        self._work.put((future, partial(fn, *args, **kwargs)))
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._run, name="searcher", daemon=True).start()
        return future

    def _run(self) -> None:
        """Does one piece of work after the other."""
        while True:
            try:
                future, call = self._work.get(timeout=self._idle_seconds)
            except Empty:
                if self._idle.acquire(blocking=False):
                    return
                continue  # `submit` counts on this thread
            if future.set_running_or_notify_cancel():
                _resolve(future, call)
            del future, call  # with all that they hold
            self._idle.release()


def _resolve(future: Future[T], call: Callable[[], T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - handed over to whoever waits
        future.set_exception(error)
