"""Limits how many requests are answered in one turn of the event loop, however many come at once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

_Turns = deque[asyncio.Future[None]]


class LoopRateLimiter:
    """Lets some callers through in each turn of the event loop; the others wait for the next turns.

    All requests that have come in by the time of a turn would be answered in it, and a thousand of them take most of a
    second: for so long no decision would be made, no watch read, and no Lease renewed.

    Those who wait are let through by sender: one of each, then the next of each. So a thousand requests of one sender
    cost another sender's next request no more than a turn. One sender's own requests stay in order.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self._waiting: OrderedDict[str, _Turns] = OrderedDict()
        """By sender, the one whose turn is next first; a sender of whom nothing waits is not in it."""
        self._is_next_turn_awaited = False

    async def wait(self, sender: str) -> None:
        """Returns when it is the caller's turn.

        Args:
            sender: Who is to have no more turns than others, such as an address.
        """
        loop = asyncio.get_running_loop()
        self._await_next_turn(loop)
        if self._left > 0:
            self._left -= 1
            return
        turn: asyncio.Future[None] = loop.create_future()
        if (turns := self._waiting.get(sender)) is None:
            turns = self._waiting[sender] = deque()
        turns.append(turn)
        await turn

    def _await_next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_next_turn_awaited:
            self._is_next_turn_awaited = True
            loop.call_soon(self._begin_turn, loop)

    def _begin_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_next_turn_awaited = False
        self._left = self._limit
        while self._left > 0 and self._waiting:
            sender, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[sender] = turns  # behind all others
            if not turn.done():  # its client may have gone away
                turn.set_result(None)
                self._left -= 1
        if self._left < self._limit:
            self._await_next_turn(loop)
