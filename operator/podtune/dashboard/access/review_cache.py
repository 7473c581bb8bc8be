"""Keeps answers of the API server for a while; who asks the same meanwhile shares one question."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[Answer]):
    """An answer, or the question that is under way."""

    task: asyncio.Future[Answer]
    until: float


class ReviewCache(Generic[Key, Answer]):
    """A bounded number of answers. A question that failed is asked again."""

    def __init__(self, seconds: float, size: int, monotonic: Callable[[], float]) -> None:
        """Is empty.

        Args:
            seconds: How long an answer holds, from when it was asked for.
            size: How many are kept.
            monotonic: Tells the seconds.
        """
        self._seconds = seconds
        self._size = size
        self._monotonic = monotonic
        self._kept: OrderedDict[Key, _Kept[Answer]] = OrderedDict()
        self._next_purge = 0.0

    async def get(self, key: Key, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer to a question; raises what the question raises. One that isn't begun takes no answer's place."""
        self._drop_expired()
        known = self._kept.get(key)
        if known is None or known.until <= self._monotonic():
            known = self._kept[key] = _Kept(asyncio.ensure_future(ask()), self._monotonic() + self._seconds)
            known.task.add_done_callback(lambda task: self._forget_failed(key, task))
        self._kept.move_to_end(key)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
        # Others may wait for it, too: who goes away must not take it along.
        return await asyncio.shield(known.task)

    def _drop_expired(self) -> None:
        """Keeps nothing of who has gone away; a look at all now and then is enough."""
        now = self._monotonic()
        if now >= self._next_purge:
            self._kept = OrderedDict((key, kept) for key, kept in self._kept.items() if kept.until > now)
            self._next_purge = now + self._seconds

    def _forget_failed(self, key: Key, task: asyncio.Future[Answer]) -> None:
        has_failed = task.cancelled() or task.exception() is not None
        if has_failed and key in self._kept and self._kept[key].task is task:
            del self._kept[key]
