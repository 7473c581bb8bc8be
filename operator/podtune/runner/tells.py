"""What the searcher is told: results in the order in which the Trials record their ends."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace

from podtune.tuning.searchers.base import Tell


class Tells:
    """The tells in the order in which the searcher hears them.

    Each Trial records its place in that order with its end. Several ends may be written at once, so one may become
    durable before another with a lower place: the searcher is told only of those below the first gap. Not every place
    brings a tell: of a configuration that is repeated, only the last repeat's does.

    What was known before the experiment began has no place: it comes before all others.
    """

    def __init__(self, recorded: Iterable[tuple[int, Tell | None]] = (), known: Sequence[Tell] = ()) -> None:
        """Takes in what the Trials have recorded.

        Args:
            recorded: The places that are taken, each with what it tells; gaps among them stay for ever.
            known: What was known beforehand.
        """
        taken = sorted(recorded, key=lambda pair: pair[0])
        told = [(place, tell) for place, tell in taken if tell is not None]
        self.in_order = [*known, *(tell for _, tell in told)]
        """All tells; the list grows, and is never changed otherwise."""
        self.known = len(known)
        """How many of them were known beforehand."""
        self._places = [place for place, _ in told]
        self._next_place = taken[-1][0] + 1 if taken else 0
        self._early: dict[int, Tell | None] = {}
        self.end = self._next_place
        """All below this place are told."""

    def learn(self, known: Sequence[Tell]) -> None:
        """Takes in what was known beforehand, as long as nobody has been told anything."""
        self.in_order[:0] = known
        self.known += len(known)

    @property
    def reserved(self) -> int:
        """The first place that is not reserved; those from `end` on are not durable yet."""
        return self._next_place

    def reserve(self) -> int:
        """A place for something to tell that is not durable yet."""
        self._next_place += 1
        return self._next_place - 1

    def durable(self, place: int, tell: Tell | None) -> Sequence[Tell]:
        """What holds this place is recorded.

        Returns:
            What the searcher may be told now, since it has been waiting for this.
        """
        if place < self.end or place in self._early:
            return ()
        self._early[place] = tell
        before = len(self.in_order)
        while self.end in self._early:
            tell = self._early.pop(self.end)
            if tell is not None:
                self.in_order.append(tell)
                self._places.append(self.end)
            self.end += 1
        return self.in_order[before:]

    def count(self, end: int) -> int:
        """How many of `in_order` the searcher knows that was told all below the place `end`."""
        return self.known + bisect_left(self._places, end)


def averaged(repeats: Sequence[Tell]) -> Tell:
    """What a configuration came to that ran several times: the mean of those repeats that have a value.

    A repeat that failed is left out, so a configuration has failed only where all repeats have. One that was stopped
    early counts with the value that it had reached, as it would alone. NaN makes the mean NaN.

    Args:
        repeats: One or more; the first gives number, configuration and attributes.
    """
    valued = [tell for tell in repeats if tell.value is not None]
    if not valued:
        return repeats[0]
    return replace(
        repeats[0],
        value=mean([tell.value for tell in valued if tell.value is not None]),
        step=min(tell.step for tell in valued),
        others=tuple(mean(values) for values in zip(*(tell.others for tell in valued), strict=True)),
    )


def mean(values: Sequence[float]) -> float:
    """The mean, exact for equal values; infinities and NaN as in arithmetic."""
    if len(set(values)) == 1:
        return values[0]
    try:
        return math.fsum(values) / len(values)
    except (OverflowError, ValueError):  # infinities of both signs, or a sum beyond the largest float
        return sum(value / len(values) for value in values)


def spread(values: Sequence[float]) -> float:
    """The standard deviation of a sample (n − 1), 0 for a single value; NaN where a value is not finite."""
    if len(values) < 2:
        return 0.0
    if not all(map(math.isfinite, values)):
        return math.nan
    middle = mean(values)
    return math.hypot(*(value - middle for value in values)) / math.sqrt(len(values) - 1)
