"""How long to wait before something is tried again."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with jitter: `initial` doubling to `maximum` seconds, each cut by up to half at random.

    The jitter is drawn from a generator seeded by what is retried and how often, so that a restarted operator waits
    as long as the one before it would have.
    """

    initial: float
    maximum: float

    def compute_delay(self, attempt: int, key: str) -> float:
        """Seconds to wait after the `attempt`-th failure in a row, from 1, of the thing named `key`."""
        whole = min(self.maximum, self.initial * 2.0 ** min(attempt - 1, 30))
        return whole * (0.5 + 0.5 * random.Random(f"{key}/{attempt}").random())
