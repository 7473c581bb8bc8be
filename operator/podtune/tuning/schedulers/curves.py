"""Learning curves: what a trial has reported, and the means of all trials up to a time."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from podtune.tuning.schedulers.records import decode_words, encode_words, format_shortest

EXACT = 1024
"""A curve of up to so many results is kept as it is."""
MAX_TIMES = 1024
"""How many times the means are kept in order for; beyond it, those of the time that was asked for longest ago go."""
_BLOCK = 128


class Curve:
    """The results of a trial in the order of their times, and the mean of all results up to each one.

    Up to `EXACT` results it is exact. Beyond that neighbours are merged: each point, but for the latest ones, then
    stands for `stride` results, at the time of the last of them, with their mean. The mean up to a time between two
    such points lacks the results since the earlier one, fewer than `stride`; at the time of a point it is that of all.
    """

    __slots__ = ("_known", "_means", "_merged", "_stride", "_times", "_values")

    def __init__(self) -> None:
        self._times = array("d")
        self._values = array("d")
        self._means = array("d")
        self._known = bytearray()
        self._stride = 1
        self._merged = 0

    @property
    def last(self) -> float:
        """The time of the last result; minus infinity where there is none."""
        return self._times[-1] if self._times else -math.inf

    def compute_mean_at(self, time: float) -> float:
        """The mean of the results up to a time, that time included; NaN where there is none."""
        points = bisect_right(self._times, time)
        if points == 0:
            return math.nan
        if not self._known[points - 1]:
            self._means[points - 1] = self._compute_mean(points)
            self._known[points - 1] = True
        return self._means[points - 1]

    def changes_from(self, time: float) -> float:
        """The earliest time up to which the mean may be another one once a result of this time is added."""
        if self._merged == EXACT:
            return self._times[0]
        if self._stride > 1 and len(self._times) - self._merged == self._stride - 1:
            return self._times[self._merged]
        return time

    def add(self, time: float, value: float) -> None:
        """Adds a result whose time is not below the last one's."""
        if self._merged == EXACT:
            self._stride *= 2
            self._set(self._build_pairs())
            self._merged = len(self._times)
        self._append(time, value)
        if len(self._times) - self._merged == self._stride:
            merged = sum_pairwise(self._values[self._merged :]) / self._stride
            self._cut(self._merged)
            self._append(time, merged)
            self._merged += 1

    def record(self) -> dict[str, Mapping[str, str]]:
        """The curve in a record: its points, each as time@value, or the value alone where the time is one more."""
        if not self._times:
            return {}
        words = []
        due = math.nan
        for time, value in zip(self._times, self._values, strict=True):
            words.append(format_shortest(value) if time == due else f"{format_shortest(time)}@{format_shortest(value)}")
            due = time + 1
        record: dict[str, Mapping[str, str]] = {"curve": encode_words(words)}
        if self._stride > 1:
            record["merged"] = {"points": str(self._merged), "stride": str(self._stride)}
        return record

    @classmethod
    def parse(cls, record: Mapping[str, Mapping[str, str]]) -> Curve:
        """Reads what `record` has written.

        Raises:
            ValueError: It can't have been written so; the message says what is wrong.
        """
        curve = cls()
        for word in decode_words(record.get("curve", {})):
            time, at, value = word.rpartition("@")
            if not at and not curve._times:
                raise ValueError(f"the curve begins with {word!r:.80}, which has no time")
            curve._append(float(time) if at else curve.last + 1, float(value))
        merged = record.get("merged", {})
        curve._stride = int(merged.get("stride", "1"))
        curve._merged = int(merged.get("points", str(len(curve._times))))
        if list(curve._times) != sorted(curve._times):
            raise ValueError("the times of the curve fall")
        if not 0 <= len(curve._times) - curve._merged < curve._stride or curve._merged > EXACT:
            raise ValueError(f"of {len(curve._times)} points {curve._merged} can't be merged, {curve._stride} in each")
        return curve

    def _compute_mean(self, points: int) -> float:
        merged = min(points, self._merged)
        values: Sequence[float] = self._values[:points]
        if self._stride > 1:
            values = [value * self._stride for value in values[:merged]] + list(values[merged:])
        return sum_pairwise(values) / (merged * self._stride + points - merged)

    def _build_pairs(self) -> list[tuple[float, float]]:
        halves = zip(self._values[::2], self._values[1::2], strict=True)
        return [(time, (one + other) / 2) for time, (one, other) in zip(self._times[1::2], halves, strict=True)]

    def _set(self, points: Sequence[tuple[float, float]]) -> None:
        self._cut(0)
        for time, value in points:
            self._append(time, value)

    def _append(self, time: float, value: float) -> None:
        self._times.append(time)
        self._values.append(value)
        self._means.append(math.nan)
        self._known.append(False)

    def _cut(self, points: int) -> None:
        for column in (self._times, self._values, self._means, self._known):
            del column[points:]


class RunningMeans:
    """The means of all curves up to each time that is asked for, in order; of the curves that reach that time.

    Where trials report at the same times, as they do after each epoch, a result costs a search in a list and a shift
    of memory. A time that was not asked for before costs a look at every curve.
    """

    def __init__(self) -> None:
        self._curves: dict[int, Curve] = {}
        self._means: OrderedDict[float, array[float]] = OrderedDict()
        self._times: list[float] = []

    def __contains__(self, trial: int) -> bool:
        return trial in self._curves

    def get_curve(self, trial: int) -> Curve:
        """The trial's curve; to be changed by `add` alone."""
        return self._curves[trial]

    def list_means(self, time: float) -> Sequence[float]:
        """The finite means up to a time of the curves that reach it, in ascending order."""
        if time not in self._means:
            reaching = (curve.compute_mean_at(time) for curve in self._curves.values() if curve.last >= time)
            self._means[time] = array("d", sorted(mean for mean in reaching if math.isfinite(mean)))
            insort(self._times, time)
            if len(self._times) > MAX_TIMES:
                oldest, _ = self._means.popitem(last=False)
                del self._times[bisect_left(self._times, oldest)]
        self._means.move_to_end(time)
        return self._means[time]

    def enter(self, trial: int, curve: Curve) -> None:
        """Takes in a trial's curve."""
        self._curves[trial] = curve
        self._insert(curve, self._times[: bisect_right(self._times, curve.last)])

    def remove(self, trial: int) -> None:
        """Takes a trial's curve out, if it is there."""
        curve = self._curves.pop(trial, None)
        if curve is not None:
            self._withdraw(curve, self._times[: bisect_right(self._times, curve.last)])

    def add(self, trial: int, time: float, value: float) -> None:
        """Adds a result to a trial's curve."""
        curve = self._curves[trial]
        reached = bisect_right(self._times, curve.last)
        changes = min(bisect_left(self._times, curve.changes_from(time)), reached)
        self._withdraw(curve, self._times[changes:reached])
        curve.add(time, value)
        self._insert(curve, self._times[changes : bisect_right(self._times, curve.last)])

    def _insert(self, curve: Curve, times: Sequence[float]) -> None:
        for time in times:
            mean = curve.compute_mean_at(time)
            if math.isfinite(mean):
                insort(self._means[time], mean)

    def _withdraw(self, curve: Curve, times: Sequence[float]) -> None:
        for time in times:
            mean = curve.compute_mean_at(time)
            if math.isfinite(mean):
                means = self._means[time]
                del means[bisect_left(means, mean)]


def sum_pairwise(values: Sequence[float]) -> float:
    """The sum of numbers, to the last bit as NumPy computes it.

    It adds pairs of partial sums, so the error grows with the logarithm of their count; with blocks of eight partial
    sums each, as wide processors like it.
    """
    count = len(values)
    if count > _BLOCK:
        half = count // 2 - count // 2 % 8
        return sum_pairwise(values[:half]) + sum_pairwise(values[half:])
    whole = count - count % 8
    total = 0.0
    if whole:
        a, b, c, d, e, f, g, h = (_sum(values[start:whole:8]) for start in range(8))
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for value in values[whole:]:
        total += value
    return total


def _sum(values: Sequence[float]) -> float:
    """One number after the other is added; Python's own `sum` makes up for what rounding takes, from 3.12 on."""
    total = values[0]
    for value in values[1:]:
        total += value
    return total
