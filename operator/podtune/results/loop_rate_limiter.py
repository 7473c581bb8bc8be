"""Limits how many requests are answered in one turn of the event loop, however many come at once."""

from __future__ import annotations

import asyncio
from collections import deque


class LoopRateLimiter:
    """Lets some callers through in each turn of the event loop; the others wait for the next turns, in order.

    All requests that have come in by the time of a turn would be answered in it, and a thousand of them take most of a
    second: for so long no decision would be made, no watch read, and no Lease renewed.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_next_turn_awaited = False

    async def wait(self) -> None:
        """Returns when it is the caller's turn."""
        loop = asyncio.get_running_loop()
        self._await_next_turn(loop)
        if self._left > 0:
            self._left -= 1
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _await_next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_next_turn_awaited:
            self._is_next_turn_awaited = True
            loop.call_soon(self._begin_turn, loop)

    def _begin_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_next_turn_awaited = False
        self._left = self._limit
        while self._left > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # its client may have gone away
                turn.set_result(None)
                self._left -= 1
        if self._left < self._limit:
            self._await_next_turn(loop)
