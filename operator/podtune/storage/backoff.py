"""How long to wait before trying again."""

from __future__ import annotations

from random import Random


class ExponentialBackoff:
    """Doubling waits with equal jitter: each is drawn from the upper half of its step.

    After https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/. Not thread-safe.
    """

    def __init__(self, first: float, longest: float, rng: Random) -> None:
        """Starts at the first step; no step is longer than `longest`. Both are in seconds."""
        self._first = first
        self._longest = longest
        self._rng = rng
        self._step = first

    def draw_wait(self) -> float:
        """The next wait, in seconds."""
        step, self._step = self._step, min(self._longest, self._step * 2)
        return self._rng.uniform(step / 2, step)

    def reset(self) -> None:
        """Starts again at the first step, after a success."""
        self._step = self._first
