"""Rungs: where trials of successive halving are compared with those that were there before them."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """The linear percentile, to the last bit as `numpy.percentile` computes it.

    Args:
        ordered: Numbers in ascending order, at least one, without NaN.
        fraction: Which percentile, from 0 to 1.

    Returns:
        The percentile; NaN where it lies between two infinities, or at one: NumPy's arithmetic has it so.
    """
    last = len(ordered) - 1
    position = last * fraction
    if position >= last:
        below = above = ordered[-1]
        weight = position + 1.0
    else:
        index = math.floor(position)
        below, above = ordered[index], ordered[index + 1]
        weight = position - index
    step = above - below
    return above - step * (1 - weight) if weight >= 0.5 else below + step * weight


class Rung:
    """The rewards of the trials that have reached a milestone; more is better.

    A result costs a binary search and a shift of memory, however many trials there are.
    """

    def __init__(self, milestone: int) -> None:
        """Makes an empty rung at a value of the time attribute."""
        self.milestone = milestone
        self._rewards: dict[int, float] = {}
        self._ordered: list[float] = []

    def __contains__(self, trial: int) -> bool:
        return trial in self._rewards

    @property
    def rewards(self) -> Mapping[int, float]:
        """Rewards by trial, NaN included."""
        return self._rewards

    @property
    def ranked(self) -> int:
        """How many rewards a newcomer is compared with: NaN isn't among them."""
        return len(self._ordered)

    def enter(self, trial: int, reward: float) -> None:
        """Records a trial's reward. A trial enters a rung once."""
        if trial in self._rewards:
            raise ValueError(f"trial {trial} is recorded at rung {self.milestone} already")
        self._rewards[trial] = reward
        if not math.isnan(reward):
            insort(self._ordered, reward)

    def remove(self, trial: int) -> None:
        """Takes a trial out, if it is there."""
        reward = self._rewards.pop(trial, math.nan)
        if not math.isnan(reward):
            del self._ordered[bisect_left(self._ordered, reward)]

    def cutoff(self, reduction_factor: int) -> float | None:
        """What a newcomer's reward must not be below: about one in `reduction_factor` of the recorded ones is above it.

        None where nothing is recorded that a newcomer could be compared with.
        """
        if not self._ordered:
            return None
        percent = (1 - 1 / reduction_factor) * 100
        return percentile(self._ordered, percent / 100)


class Bracket:
    """A ladder of rungs; the highest comes first, since a result counts at the highest one that it reaches."""

    def __init__(self, grace_period: int, max_time: int, reduction_factor: int, skipped: int) -> None:
        """Makes the empty rungs of bracket number `skipped`, which starts so many rungs above the lowest.

        The number of rungs is Ray's floating-point expression: from 1 to 1000 by factors of 10 there are three, not
        four, because log(1000) / log(10) comes out below 3. A bracket that starts too high has none.
        """
        count = int(math.log(max_time / grace_period) / math.log(reduction_factor) - skipped + 1)
        self.rungs = tuple(Rung(grace_period * reduction_factor ** (k + skipped)) for k in reversed(range(count)))

    def rung_for(self, trial: int, time: float) -> Rung | None:
        """The highest rung that a trial has reached and is not recorded at."""
        return next((rung for rung in self.rungs if time >= rung.milestone and trial not in rung), None)
