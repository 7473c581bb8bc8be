"""Rungs: where trials of successive halving are compared with those that were there before them."""

from __future__ import annotations

import itertools
import math
import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


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


def draw_index(weights: Sequence[float], random_: random.Random) -> int:
    """Draws an index with a probability proportional to its weight, with one number of the generator.

    The number is used as `numpy.random.choice` uses it: it is looked up in the cumulated probabilities.
    """
    total = sum(weights)
    cumulated = list(itertools.accumulate(weight / total for weight in weights))
    drawn = random_.random() * cumulated[-1]
    return next((index for index, bound in enumerate(cumulated) if drawn < bound), len(weights) - 1)


class Rung:
    """The rewards of the trials that have reached a milestone; more is better.

    A result costs a binary search and a shift of memory, however many trials there are.
    """

    def __init__(self, milestone: int) -> None:
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
            raise ValueError(f"trial {trial} is already recorded at rung {self.milestone}")
        self._rewards[trial] = reward
        if not math.isnan(reward):
            insort(self._ordered, reward)

    def remove(self, trial: int) -> None:
        """Takes a trial out, if it is there."""
        reward = self._rewards.pop(trial, math.nan)
        if not math.isnan(reward):
            del self._ordered[bisect_left(self._ordered, reward)]

    def compute_cutoff(self, reduction_factor: int) -> float | None:
        """What a newcomer's reward must not be below: about one in `reduction_factor` of the recorded ones is above it.

        None where nothing is recorded that a newcomer could be compared with.
        """
        if not self._ordered:
            return None
        percent = (1 - 1 / reduction_factor) * 100
        return percentile(self._ordered, percent / 100)


class Bracket:
    """The rungs of a bracket; the highest comes first, since a result counts at the highest one that it reaches."""

    def __init__(self, grace_period: int, max_time: int, reduction_factor: int, skipped: int) -> None:
        """Makes the empty rungs of bracket number `skipped`, which starts so many rungs above the lowest.

        The number of rungs is Ray's floating-point expression: from 1 to 1000 by factors of 10 there are three, not
        four, because log(1000) / log(10) comes out below 3. A bracket that starts too high has none.
        """
        count = int(math.log(max_time / grace_period) / math.log(reduction_factor) - skipped + 1)
        self.rungs = tuple(Rung(grace_period * reduction_factor ** (k + skipped)) for k in reversed(range(count)))

    def find_rung(self, trial: int, time: float) -> Rung | None:
        """The highest rung that a trial has reached and is not recorded at."""
        return next((rung for rung in self.rungs if time >= rung.milestone and trial not in rung), None)


@dataclass(frozen=True, slots=True)
class PromotionRungEntry:
    """A trial at a promotion rung.

    Attributes:
        reward: Its value there; more is better, NaN is the worst.
        number: How many trials had come to the rung before it.
        promoted: Whether it has gone on to the next rung.
    """

    reward: float
    number: int
    promoted: bool = False


@dataclass(frozen=True, slots=True)
class Promotion:
    """The trial that a rung lets go on, with the numbers behind it.

    Attributes:
        trial: The trial.
        reward: Its value at the rung.
        cutoff: What it had to reach.
        arrived: How many trials had come to the rung.
        paused: How many of those were not promoted before it, itself included.
    """

    trial: int
    reward: float
    cutoff: float
    arrived: int
    paused: int


class PromotionRung:
    """The trials that have reached a milestone, of which the best are promoted, one by one.

    As `Rung` and `PromotionRungSystem` of Syne Tune 0.13 have it. A new entry and a promotion cost a binary search and
    a shift of memory, however many trials there are.
    """

    def __init__(self, milestone: int, share: float, mode: Literal["max", "min"]) -> None:
        """Makes an empty rung.

        Args:
            milestone: Its value of the time attribute.
            share: Which part of its trials is promoted: its milestone divided by that of the next rung.
            mode: Whether the metric behind the rewards is maximised: rounding errors depend on it.
        """
        self.milestone = milestone
        self.share = share
        self._mode = mode
        self._entries: dict[int, PromotionRungEntry] = {}
        self._ordered: list[float] = []
        self._paused: list[tuple[float, int, int]] = []
        self._next = 0

    def __contains__(self, trial: int) -> bool:
        return trial in self._entries

    def __getitem__(self, trial: int) -> PromotionRungEntry:
        return self._entries[trial]

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, trial: int, reward: float) -> None:
        """Takes in a trial. A trial comes to a rung once."""
        self.restore(trial, PromotionRungEntry(reward, self._next))

    def restore(self, trial: int, entry: PromotionRungEntry) -> None:
        """Takes in a trial that had come here before, in any order."""
        if trial in self._entries:
            raise ValueError(f"trial {trial} has already reached rung {self.milestone}")
        self._entries[trial] = entry
        self._next = max(self._next, entry.number + 1)
        insort(self._ordered, _make_comparable(entry.reward))
        if _may_be_promoted(entry):
            insort(self._paused, (-entry.reward, entry.number, trial))

    def promote(self, trial: int) -> None:
        """Has a paused trial go on; it stays among those that others are compared with."""
        entry = self._entries[trial]
        self._take_off(trial, entry)
        self._entries[trial] = PromotionRungEntry(entry.reward, entry.number, promoted=True)

    def give_up(self, trial: int) -> None:
        """A trial will never run again: it stays among those that others are compared with."""
        if trial in self._entries:
            self._take_off(trial, self._entries[trial])

    def remove(self, trial: int) -> None:
        """Takes a trial out, if it is there, as if it had never come."""
        entry = self._entries.pop(trial, None)
        if entry is None:
            return
        self._take_off(trial, entry)
        del self._ordered[bisect_left(self._ordered, _make_comparable(entry.reward))]
        if entry.number == self._next - 1:
            self._next = max((other.number for other in self._entries.values()), default=-1) + 1

    def rank(self, reward: float) -> int:
        """The rank of a reward among those here, the best being 1; equal ones share theirs."""
        return len(self._ordered) - bisect_right(self._ordered, _make_comparable(reward)) + 1

    def find_promotable(self, startable: Container[int]) -> Promotion | None:
        """The best paused trial of those that could start, if it is good enough; of equal ones, the first to come."""
        if len(self._ordered) < 2:
            return None
        cutoff = self._compute_cutoff()
        for passed, (loss, _, trial) in enumerate(self._paused):
            if -loss - cutoff < 0:
                return None
            if trial in startable:
                return Promotion(trial, -loss, cutoff, len(self._entries), len(self._paused) - passed)
        return None

    def _compute_cutoff(self) -> float:
        """The linear quantile, newcomers and promoted ones included, in the arithmetic of Syne Tune."""
        last = len(self._ordered) - 1
        position = last * (1 - self.share if self._mode == "max" else self.share) + 1
        index = int(position)
        weight = position - index
        if self._mode == "max":
            below, above, weight = index - 1, index, 1 - weight
        else:
            below, above = last - index, last - index + 1
        # 0 * infinity is NaN: what has no weight is left out.
        if weight in (0.0, 1.0):
            return self._ordered[below if weight else above]
        return weight * self._ordered[below] + (1 - weight) * self._ordered[above]

    def _take_off(self, trial: int, entry: PromotionRungEntry) -> None:
        key = (-entry.reward, entry.number, trial)
        index = bisect_left(self._paused, key)
        if _may_be_promoted(entry) and self._paused[index : index + 1] == [key]:
            del self._paused[index]


def _may_be_promoted(entry: PromotionRungEntry) -> bool:
    return not entry.promoted and not math.isnan(entry.reward)


def _make_comparable(reward: float) -> float:
    return -math.inf if math.isnan(reward) else reward
