"""What trials have gained from interval to interval, and how it is written into their records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podtune.tuning.schedulers.records import decode_words, encode_words, format_shortest

_KEPT = 16
"""How many gains of each trial are kept, the latest ones."""
GAINS, SEGMENT = "gains", "segment"
"""Sections of a record: what a trial has gained, and where its present interval has begun."""
_DIGITS = 9
"""Significant digits that are kept of what is learnt from; it bounds the record, and what is read is what was known."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What one configuration has gained in one interval.

    Attributes:
        time: The time attribute at its end.
        rate: By how much the score has grown in a unit of time.
        point: The configuration's numbers, each from 0 to 1 in its domain.
    """

    time: float
    rate: float
    point: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """Where a trial's present interval has begun.

    Attributes:
        time: The time attribute there.
        score: The score there, more is better.
    """

    time: float
    score: float


class GainLog:
    """The gains of one trial, oldest first, and its present interval."""

    def __init__(self, gains: Sequence[Gain] = (), segment: Segment | None = None) -> None:
        self.gains = tuple(gains)
        self.segment = segment

    def reach(self, time: float, score: float, point: Sequence[float]) -> None:
        """The present interval ends, and the next one begins; one that began nowhere or at NaN has no gain."""
        begun = self.segment
        self.segment = Segment(time, score) if math.isfinite(score) else None
        if begun is None or self.segment is None or time <= begun.time:
            return
        rate = (score - begun.score) / (time - begun.time)
        if math.isfinite(rate):
            gain = Gain(time, _round(rate), tuple(map(_round, point)))
            self.gains = (*self.gains, gain)[-_KEPT:]

    def record(self) -> dict[str, Mapping[str, str]]:
        """The sections of the trial's record; of each gain its time and rate, then its point."""
        record: dict[str, Mapping[str, str]] = {}
        if self.gains:
            numbers = (n for gain in self.gains for n in (gain.time, gain.rate, *gain.point))
            record[GAINS] = encode_words(map(format_shortest, numbers))
        if self.segment is not None:
            record[SEGMENT] = {"time": format_shortest(self.segment.time), "score": format_shortest(self.segment.score)}
        return record

    @classmethod
    def parse(cls, record: Mapping[str, Mapping[str, str]], dimensions: int) -> GainLog:
        """Reads what `record` has written.

        Raises:
            ValueError: It can't have been written so.
        """
        numbers = [float(word) for word in decode_words(record.get(GAINS, {}))]
        width = 2 + dimensions
        if len(numbers) % width:
            raise ValueError(f"{GAINS} has {len(numbers)} numbers, which is not a multiple of {width}")
        rows = [numbers[start : start + width] for start in range(0, len(numbers), width)]
        gains = [Gain(time, rate, tuple(point)) for time, rate, *point in rows]
        begun = record.get(SEGMENT)
        segment = None if begun is None else Segment(float(begun.get("time", "")), float(begun.get("score", "")))
        return cls(gains, segment)


def _round(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")
