"""Waiting for what nobody tells."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


async def until(
    look: Callable[[], bool] | Callable[[], Awaitable[bool]], seconds: float = float("inf"), interval: float = 0.05
) -> bool:
    """Looks again and again until what is looked for is there; whether it came in time."""
    end = time.monotonic() + seconds
    while True:
        found = look()
        if not isinstance(found, bool):
            found = await found
        if found or time.monotonic() > end:
            return found
        await asyncio.sleep(interval)
