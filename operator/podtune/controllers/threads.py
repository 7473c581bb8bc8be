"""Work that takes long, away from the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Has work done in a thread of its own, which does not keep the process from ending, as a pool's would."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(settled: Callable[[], None]) -> None:
        if not result.done():
            settled()

    def run() -> None:
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 - handed over to whoever waits
            failure = error
            _call(loop, lambda: settle(lambda: result.set_exception(failure)))
        else:
            _call(loop, lambda: settle(lambda: result.set_result(value)))

    threading.Thread(target=run, name="thinker", daemon=True).start()
    return await result


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Has the event loop call something, unless it has ended meanwhile."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback)
