"""Limits how many requests are answered in one turn of the event loop, however many come at once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

_Turns = deque[asyncio.Future[None]]
_Senders = OrderedDict[str, _Turns]


class LoopRateLimiter:
    """Lets some callers through in each turn of the event loop; the others wait for the next turns.

    All requests that have come in by the time of a turn would be answered in it, and a thousand of them take most of a
    second: for so long no decision would be made, no watch read, and no Lease renewed.

    Those who wait are let through by group: one of each, then the next of each; and so by sender within a group. So a
    thousand requests of one sender cost another sender's next request no more than a turn, and neither do those of a
    thousand senders cost another group's. One sender's own requests stay in order.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self._waiting: OrderedDict[str, _Senders] = OrderedDict()
        """By group and sender, whose turn is next first; one of whom nothing waits is not in it."""
        self._is_next_turn_awaited = False

    async def wait(self, sender: str, group: str = "") -> None:
        """Returns when it is the caller's turn.

        Args:
            sender: Who is to have no more turns than others of its group, such as an address.
            group: Which senders are to have no more turns together than those of another group, such as a namespace's.
        """
        loop = asyncio.get_running_loop()
        self._await_next_turn(loop)
        if self._left > 0:
            self._left -= 1
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(group, OrderedDict()).setdefault(sender, deque()).append(turn)
        await turn

    def _await_next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_next_turn_awaited:
            self._is_next_turn_awaited = True
            loop.call_soon(self._begin_turn, loop)

    def _begin_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_next_turn_awaited = False
        self._left = self._limit
        while self._left > 0 and self._waiting:
            turn = self._take_next()
            if not turn.done():  # its client may have gone away
                turn.set_result(None)
                self._left -= 1
        if self._left < self._limit:
            self._await_next_turn(loop)

    def _take_next(self) -> asyncio.Future[None]:
        group, senders = self._waiting.popitem(last=False)
        sender, turns = senders.popitem(last=False)
        turn = turns.popleft()
        if turns:
            senders[sender] = turns  # behind all others
        if senders:
            self._waiting[group] = senders
        return turn
