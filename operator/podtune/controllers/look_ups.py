"""Look-ups of what other experiments have come to: a few at a time, of one experiment fewer, of one that is gone none.

What is looked up is named by a user, so how long it takes is not ours to say. Look-ups have places of their own:
however many of them stand still, nothing else waits for them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from functools import partial

from podtune.controllers.fair_queue import FairQueue

MAX_LOOK_UPS = 8
"""Under way at a time, over all experiments."""
MAX_LOOK_UPS_OF_ONE = 2

Work = Callable[[], Coroutine[None, None, None]]


class LookUps:
    """Carries out look-ups, each in a task of its own."""

    def __init__(self) -> None:
        self._waiting: FairQueue[Work] = FairQueue(MAX_LOOK_UPS, MAX_LOOK_UPS_OF_ONE)
        self._tasks: defaultdict[str, set[asyncio.Task[None]]] = defaultdict(set)
        self._is_closed = False

    def add(self, uid: str, work: Work) -> None:
        """Has a look-up made for an experiment when it is its turn."""
        self._waiting.add(uid, work)
        self._start()

    def cancel(self, uid: str) -> None:
        """An experiment is gone: its look-ups end, and those that wait are not begun."""
        self._waiting.forget(uid)
        for task in self._tasks.get(uid, ()):
            task.cancel()

    async def close(self) -> None:
        """Ends all look-ups; none is begun any more."""
        self._is_closed = True
        tasks = [task for of_one in self._tasks.values() for task in of_one]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self) -> None:
        while not self._is_closed and (turn := self._waiting.take()) is not None:
            uid, work = turn
            task = asyncio.create_task(work())
            self._tasks[uid].add(task)
            task.add_done_callback(partial(self._ended, uid))

    def _ended(self, uid: str, task: asyncio.Task[None]) -> None:
        self._tasks[uid].discard(task)
        if not self._tasks[uid]:
            del self._tasks[uid]
        self._waiting.done(uid)
        self._start()
