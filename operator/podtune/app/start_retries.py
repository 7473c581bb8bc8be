"""What an operator needs of the API server before it can work: asked for again while the server is too busy, or away.

While an API server starts, and when many clients come at once, it turns requests away (429, with a time to come back
after). An operator that ended on that would be started again by the kubelet, and ask more often than it was asked to.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from podtune.kube.errors import ApiError, ApiRefusal, Unanswered

log = structlog.get_logger(__name__)

T = TypeVar("T")

START_PATIENCE = 120.0
"""Seconds for which a step of the start is tried; then the process ends, and its pod shows that something is wrong."""
_FIRST_WAIT = 1.0
_LONGEST_WAIT = 10.0


class StartRetries:
    """Tries the steps of a start, each for `START_PATIENCE` seconds at most."""

    def __init__(self, monotonic: Callable[[], float], rng: random.Random) -> None:
        """Makes it; `rng` draws the jitter."""
        self._monotonic = monotonic
        self._rng = rng

    async def carry_out(self, what: str, step: Callable[[], Awaitable[T]]) -> T:
        """Takes a step, as often as it needs; returns what it returns.

        Args:
            what: What the log calls it.
            step: Can be taken again when it has failed halfway.

        Raises:
            ApiError: It can't be taken, or not in time.
        """
        end = self._monotonic() + START_PATIENCE
        longest = _FIRST_WAIT
        while True:
            try:
                return await step()
            except (ApiRefusal, Unanswered) as error:
                left = end - self._monotonic()
                if left <= 0 or not _may_pass(error):
                    raise
                wait = min(self._draw_wait(error, longest), left)
                log.warning("start waits for the API server", task=what, seconds=round(wait, 1), message=str(error))
            await asyncio.sleep(wait)
            longest = min(2 * longest, _LONGEST_WAIT)

    def _draw_wait(self, error: ApiError, longest: float) -> float:
        """Seconds until the next try: no sooner than the server asks for, and not at the same time as all others."""
        asked = error.retry_after or 0.0 if isinstance(error, ApiRefusal) else 0.0
        return max(asked, longest / 2) * (1 + self._rng.random())


def _may_pass(error: ApiError) -> bool:
    """Whether the same request may succeed later."""
    return not isinstance(error, ApiRefusal) or error.is_transient
