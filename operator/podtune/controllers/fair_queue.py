"""A queue of queues: the next item is of the key whose turn it is, however many items another key has."""

from __future__ import annotations

from collections import Counter, deque
from typing import Generic, TypeVar

T = TypeVar("T")


ROUTINE_AFTER = 3
"""After so many others of its key comes one that nothing waits for."""


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
    """Hands out items key by key in turn, of each key first in, first out, but for routine that may wait.

    Only so many are worked on at a time, of one key fewer than that: so where all of one key take long, as when an
    admission webhook of its namespace does not answer, the others go on all the same.
    """

    def __init__(self, most: int, most_of_one: int) -> None:
        """Makes an empty queue.

        Args:
            most: How many items may be worked on at a time.
            most_of_one: How many of one key.
        """
        self._most = most
        self._most_of_one = most_of_one
        self._waiting: dict[str, _Items[T]] = {}
        self._working: Counter[str] = Counter()
        self._turns: deque[str] = deque()
        """The keys that an item may be handed out of, each once, in the order of their turns."""

    def add(self, key: str, item: T, *, routine: bool = False) -> None:
        """Puts an item in its key's queue.

        Args:
            key: The key.
            item: The item.
            routine: Whether nothing waits for it.
        """
        is_new = key not in self._waiting
        self._waiting.setdefault(key, _Items()).add(item, routine=routine)
        if is_new and self._working[key] < self._most_of_one:
            self._turns.append(key)

    def take(self) -> tuple[str, T] | None:
        """Hands out the next item; who gets it calls `done` with the key after the work.

        Returns:
            The item and its key; None where there is none, or as many are worked on as may be.
        """
        if not self._turns or self._working.total() >= self._most:
            return None
        key = self._turns.popleft()
        items = self._waiting[key]
        item = items.take()
        self._working[key] += 1
        if not items:
            del self._waiting[key]
        elif self._working[key] < self._most_of_one:
            self._turns.append(key)
        return key, item

    def forget(self, key: str) -> None:
        """Drops the items of a key that nobody has taken yet."""
        if key in self._waiting:
            del self._waiting[key]
            self._turns = deque(turn for turn in self._turns if turn != key)

    def done(self, key: str) -> None:
        """The work on an item of this key has ended."""
        if self._working[key] == self._most_of_one and key in self._waiting:
            self._turns.append(key)
        self._working[key] -= 1
        if not self._working[key]:
            del self._working[key]
