"""A semaphore for what takes a processor, such as thinking about a proposal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

MAX_AT_ONCE = 4
"""So many begin together; each thread that computes keeps the event loop waiting for its part."""
_PATIENCE = 1.0
"""Seconds after which one that still works keeps the next from beginning no longer."""

T = TypeVar("T")


class PatientSemaphore:
    """Lets a few begin at a time, first come, first served; one that takes long does not delay the others.

    Where hundreds of experiments want proposals at once, and most take some milliseconds, a few threads are enough.
    """

    def __init__(self, at_a_time: int = MAX_AT_ONCE, patience: float = _PATIENCE) -> None:
        """Makes a semaphore that nobody holds.

        Args:
            at_a_time: How many may hold it.
            patience: Seconds after which it is released, even where the work goes on.
        """
        self._free = asyncio.Semaphore(at_a_time)
        self._patience = patience

    async def take(self, work: Callable[[], Awaitable[T]]) -> T:
        """Waits until it may begin, and works."""
        await self._free.acquire()
        is_over = False

        def end() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._free.release()

        ending = asyncio.get_running_loop().call_later(self._patience, end)
        try:
            return await work()
        finally:
            ending.cancel()
            end()
