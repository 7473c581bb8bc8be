"""What the searcher observes: results in the order in which the Trials record their ends."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace

from podtune.tuning.searchers.base import Observation


class ObservationLog:
    """Keeps the observations in the order in which the searcher is told of them.

    Each Trial records its sequence number with its end. Several ends may be written at once, so one may become
    durable before another with a lower number: the searcher is told only of those below the first gap. Not every number
    brings an observation: of a configuration that is repeated, only the last repeat's does.

    What was known before the experiment began has no number: it comes before all others.
    """

    def __init__(
        self, recorded: Iterable[tuple[int, Observation | None]] = (), prior: Sequence[Observation] = ()
    ) -> None:
        """Takes in what the Trials have recorded.

        Args:
            recorded: The sequence numbers that are taken, each with its observation; gaps among them stay for ever.
            prior: What was known beforehand.
        """
        taken = sorted(recorded, key=lambda pair: pair[0])
        logged = [(seq, observation) for seq, observation in taken if observation is not None]
        self.in_order = [*prior, *(observation for _, observation in logged)]
        """All observations; the list grows, and is never changed otherwise."""
        self.prior = len(prior)
        """How many of them were known beforehand."""
        self._seqs = [seq for seq, _ in logged]
        self._next_seq = taken[-1][0] + 1 if taken else 0
        self._early: dict[int, Observation | None] = {}
        self.end = self._next_seq
        """The searcher may be told of all with a lower sequence number than this."""

    def prepend(self, prior: Sequence[Observation]) -> None:
        """Takes in prior observations, as long as no searcher has observed anything yet."""
        self.in_order[:0] = prior
        self.prior += len(prior)

    @property
    def reserved(self) -> int:
        """The first number that is not reserved; those from `end` on are not durable yet."""
        return self._next_seq

    def reserve(self) -> int:
        """Reserves a sequence number for an observation that is not durable yet."""
        self._next_seq += 1
        return self._next_seq - 1

    def record(self, seq: int, observation: Observation | None) -> Sequence[Observation]:
        """Takes in an observation whose number is durable now.

        Returns:
            What the searcher may be told now, since it has been waiting for this.
        """
        if seq < self.end or seq in self._early:
            return ()
        self._early[seq] = observation
        before = len(self.in_order)
        while self.end in self._early:
            observation = self._early.pop(self.end)
            if observation is not None:
                self.in_order.append(observation)
                self._seqs.append(self.end)
            self.end += 1
        return self.in_order[before:]

    def count(self, end: int) -> int:
        """Counts those of `in_order` that a searcher knows which was told of all numbers below `end`."""
        return self.prior + bisect_left(self._seqs, end)


def average(repeats: Sequence[Observation]) -> Observation:
    """What a configuration came to that ran several times: the mean of those repeats that have a value.

    A repeat that failed is left out, so a configuration has failed only where all repeats have. One that was stopped
    early counts with the value that it had reached, as it would alone. NaN makes the mean NaN.

    Args:
        repeats: One or more; the first gives number, configuration and attributes.
    """
    valued = [observation for observation in repeats if observation.value is not None]
    if not valued:
        return repeats[0]
    return replace(
        repeats[0],
        value=compute_mean([observation.value for observation in valued if observation.value is not None]),
        step=min(observation.step for observation in valued),
        others=tuple(
            compute_mean(values) for values in zip(*(observation.others for observation in valued), strict=True)
        ),
    )


def compute_mean(values: Sequence[float]) -> float:
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
    middle = compute_mean(values)
    return math.hypot(*(value - middle for value in values)) / math.sqrt(len(values) - 1)
