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

    def delay(self, attempt: int, key: str) -> float:
        """Seconds to wait after the `attempt`-th failure in a row, from 1, of the thing named `key`."""
        whole = min(self.maximum, self.initial * 2.0 ** min(attempt - 1, 30))
        return whole * (0.5 + 0.5 * random.Random(f"{key}/{attempt}").random())


class InFlight:
    """The actions that were asked for and not heard of, and those that failed and wait for their next try."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._started: set[tuple[str, str]] = set()
        self._failed: dict[tuple[str, str], tuple[int, float]] = {}

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._started

    def ready_at(self, key: tuple[str, str]) -> float:
        """When an action of this key may be asked for: 0 for at once, infinity while one is under way."""
        if key in self._started:
            return float("inf")
        return self._failed[key][1] if key in self._failed else 0.0

    def start(self, key: tuple[str, str]) -> None:
        """An action of this key was asked for."""
        self._started.add(key)

    def cancel(self, key: tuple[str, str]) -> None:
        """The action of this key that was asked for will not be carried out."""
        self._started.discard(key)

    def finish(self, key: tuple[str, str], *, failed: bool, now: float) -> None:
        """An action of this key was heard of."""
        self._started.discard(key)
        if not failed:
            self._failed.pop(key, None)
            return
        count = self._failed.get(key, (0, 0.0))[0] + 1
        self._failed[key] = (count, now + self._backoff.delay(count, "/".join(key)))

    def failures(self, key: tuple[str, str]) -> int:
        """How often in a row an action of this key has failed."""
        return self._failed.get(key, (0, 0.0))[0]

    def forget(self, name: str) -> None:
        """Nothing of this name matters any more."""
        for key in [key for key in self._failed if key[1] == name]:
            del self._failed[key]
