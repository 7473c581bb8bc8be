"""Work that takes long, away from the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import Empty, Full, LifoQueue, SimpleQueue
from typing import TypeVar

T = TypeVar("T")

KEPT = 8
"""So many threads wait for more work, at most: to start one takes longer than most searchers think."""
BUSY, IDLE = "thinker", "idle thinker"
"""Names of threads."""

_waiting: LifoQueue[SimpleQueue[Callable[[], None]]] = LifoQueue(KEPT)
"""Where those that wait get their work from."""


async def in_thread(work: Callable[[], T]) -> T:
    """Has work done in a thread, which does not keep the process from ending, as those of a pool would."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def resolve(complete: Callable[[], None]) -> None:
        if not result.done():
            complete()

    def run() -> None:
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 - handed over to whoever waits
            failure = error
            _call(loop, lambda: resolve(lambda: result.set_exception(failure)))
        else:
            _call(loop, lambda: resolve(lambda: result.set_result(value)))

    _start(run)
    return await result


def _start(run: Callable[[], None]) -> None:
    try:
        _waiting.get_nowait().put(run)
    except Empty:
        threading.Thread(target=_work, args=(run,), daemon=True).start()


def _work(run: Callable[[], None]) -> None:
    """Does one piece of work after the other, unless enough threads wait already."""
    thread, own = threading.current_thread(), SimpleQueue[Callable[[], None]]()
    while True:
        thread.name = BUSY
        run()
        del run  # with all that it holds
        try:
            _waiting.put_nowait(own)
        except Full:
            return
        thread.name = IDLE
        run = own.get()


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Has the event loop call something, unless it has ended meanwhile."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback)
