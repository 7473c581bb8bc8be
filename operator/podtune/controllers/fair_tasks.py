"""Tasks of many keys, started round-robin by key, however many tasks of one key wait.

This is fair queuing (Nagle, RFC 970), as in the API server's priority and fairness: a key is its flow, a task that is
under way takes a seat. So where all tasks of a key take long, as when an admission webhook of its namespace does not
answer, the others go on all the same. `asyncio.Semaphore` serves whoever came first, be it thousands of one key.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")
Work = Callable[[], Coroutine[None, None, None]]

ROUTINE_AFTER = 3
"""After how many others of its key one is handed out that nothing waits for."""


class _Items(Generic[T]):
    """The items of one key: those that something waits for before the others, each of these first in, first out."""

    def __init__(self) -> None:
        self._urgent: deque[T] = deque()
        self._routine: deque[T] = deque()
        self._passed_over = 0

    def __len__(self) -> int:
        return len(self._urgent) + len(self._routine)

    def add(self, item: T, *, routine: bool) -> None:
        """Puts an item in."""
        (self._routine if routine else self._urgent).append(item)

    def take(self) -> T:
        """Takes the next one out; there must be one."""
        if not self._urgent or (self._routine and self._passed_over >= ROUTINE_AFTER):
            self._passed_over = 0
            return self._routine.popleft()
        self._passed_over += 1
        return self._urgent.popleft()


class FairQueue(Generic[T]):
    """Hands out items round-robin by key, first in, first out within a key, except for routine work, which may wait.

    Only a limited number is processed at a time, and fewer than that for one key.
    """

    def __init__(self, most: int, most_of_one: int) -> None:
        """Makes an empty queue; `most` items are processed at a time, `most_of_one` of one key."""
        self._most = most
        self._most_of_one = most_of_one
        self._waiting: dict[str, _Items[T]] = {}
        self._processing: Counter[str] = Counter()
        self._turns: deque[str] = deque()
        """The keys that an item may be handed out of, each once, in the order of their turns."""

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, key: str, item: T, *, routine: bool = False) -> None:
        """Puts an item in its key's queue; it is `routine` where nothing waits for it."""
        is_new = key not in self._waiting
        self._waiting.setdefault(key, _Items()).add(item, routine=routine)
        if is_new and self._processing[key] < self._most_of_one:
            self._turns.append(key)

    def take(self) -> tuple[str, T] | None:
        """Hands out the next item; who gets it calls `done` with the key after the work.

        Returns:
            The item and its key; None where there is none, or as many are processed as may be.
        """
        if not self._turns or self._processing.total() >= self._most:
            return None
        key = self._turns.popleft()
        items = self._waiting[key]
        item = items.take()
        self._processing[key] += 1
        if not items:
            del self._waiting[key]
        elif self._processing[key] < self._most_of_one:
            self._turns.append(key)
        return key, item

    def forget(self, key: str) -> None:
        """Drops the items of a key that nobody has taken yet."""
        if key in self._waiting:
            del self._waiting[key]
            self._turns = deque(turn for turn in self._turns if turn != key)

    def mark_done(self, key: str) -> None:
        """The work on an item of this key has ended."""
        if self._processing[key] == self._most_of_one and key in self._waiting:
            self._turns.append(key)
        self._processing[key] -= 1
        if not self._processing[key]:
            del self._processing[key]


class FairTasks:
    """Starts tasks in the order of a `FairQueue`."""

    def __init__(self, most: int, most_of_one: int, patience: float | None = None) -> None:
        """Makes it without tasks.

        Args:
            most: How many tasks may be under way at a time.
            most_of_one: How many of one key.
            patience: Seconds after which a task keeps no other from being started, even if it goes on.
        """
        self._queue: FairQueue[Work] = FairQueue(most, most_of_one)
        self._patience = patience
        self._tasks: defaultdict[str, set[asyncio.Task[None]]] = defaultdict(set)
        self._seated: set[asyncio.Task[None]] = set()
        """The tasks that keep others from being started."""
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """How many tasks have not been started."""
        return len(self._queue)

    def add(self, key: str, work: Work, *, routine: bool = False) -> None:
        """Has the coroutine that `work` makes run when it is its turn; it is `routine` where nothing waits for it."""
        self._queue.add(key, work, routine=routine)
        self._start_next()

    def cancel(self, key: str) -> None:
        """Ends all tasks of a key, and drops those that were not started."""
        self._queue.forget(key)
        for task in self._tasks.get(key, ()):
            task.cancel()

    async def close(self) -> None:
        """Ends all tasks; no more are started."""
        self._is_closed = True
        tasks = [task for of_one in self._tasks.values() for task in of_one]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start_next(self) -> None:
        while not self._is_closed and (turn := self._queue.take()) is not None:
            key, work = turn
            task = asyncio.create_task(work())
            self._tasks[key].add(task)
            self._seated.add(task)
            task.add_done_callback(partial(self._end, key))
            if self._patience is not None:
                asyncio.get_running_loop().call_later(self._patience, self._release, key, task)

    def _end(self, key: str, task: asyncio.Task[None]) -> None:
        self._tasks[key].discard(task)
        if not self._tasks[key]:
            del self._tasks[key]
        self._release(key, task)

    def _release(self, key: str, task: asyncio.Task[None]) -> None:
        """Gives a task's seat to the next one, unless that was done before."""
        if task in self._seated:
            self._seated.discard(task)
            self._queue.mark_done(key)
            self._start_next()
