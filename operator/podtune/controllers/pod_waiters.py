"""Warm pods whose agents have asked for the next trial, and wait until there is one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class PodWaiters:
    """Wakes those that are given something; none of the others is looked at."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    async def wait(self, uid: str, seconds: float) -> None:
        """Waits until a pod is given something, or so many seconds."""
        event = self._events.setdefault(uid, asyncio.Event())
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass  # its agent is told that there is nothing yet, and asks again
        finally:
            if self._events.get(uid) is event:
                del self._events[uid]

    def wake(self, uids: Iterable[str]) -> None:
        """These pods have been given something."""
        for uid in uids:
            if event := self._events.pop(uid, None):
                event.set()
