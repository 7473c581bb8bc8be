"""Scales: where a number is on an axis, and which numbers stand beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from podtune.dashboard.numbers import format_measure

Ranked = TypeVar("Ranked")
_DECADES = 3
"""Over fewer powers of ten than this, numbers between them stand beside an axis, too."""
_LEAST = 3
_STEPS = 50
"""A scale that is loosened ends at one of so many round numbers."""
_MANY = 2_000
_WORST = 1 / 20
"""Share of an objective's values that may lie beyond its scale."""
_GOLDEN_SHARE = 0.6180339887498949
_MARGIN = 0.04
"""Share of the axis that is left free at each end."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A number beside an axis.

    Attributes:
        place: Its place, from 0 to 1.
        is_minor: Whether it goes where there is little room.
    """

    place: float
    label: str
    is_minor: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from `low` to `high`."""

    low: float
    high: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """Where a number is, from 0 to 1; what lies outside is at the end."""
        low, high, at = self.low, self.high, value
        if self.is_log:
            low, high, at = math.log(low), math.log(high), math.log(max(value, self.low))
        return min(max((at - low) / (high - low), 0.0), 1.0)

    def place_all(self, values: Iterable[float]) -> list[float]:
        """Where many numbers are."""
        if self.is_log:
            return [self.place(value) for value in values]
        low, width = self.low, self.high - self.low
        places = [(value - low) / width for value in values]
        return [0.0 if place < 0.0 else 1.0 if place > 1.0 else place for place in places]

    def list_ticks(self, most: int = 6) -> list[Tick]:
        """Round numbers along the axis."""
        numbers = _list_powers(self.low, self.high, most) if self.is_log else _list_round(self.low, self.high, most)
        return [
            Tick(self.place(number), format_measure(number), place % 2 == 1) for place, number in enumerate(numbers)
        ]


def spread_evenly(number: int) -> float:
    """A place from 0 to 1 for a whole number, always the same one: however many there are, they spread evenly."""
    return number * _GOLDEN_SHARE % 1.0


def fit_scale(values: Iterable[float], *, is_log: bool = False) -> Scale:
    """A scale that has room for all values, and a margin beside them."""
    given = [value for value in values if value > 0 or not is_log]
    low, high = min(given, default=0.0 if not is_log else 1.0), max(given, default=1.0 if not is_log else 10.0)
    if is_log:
        factor = math.exp((math.log(high) - math.log(low)) * _MARGIN) if high > low else 2.0
        return Scale(low / factor, high * factor, is_log=True)
    margin = (high - low) * _MARGIN or abs(high) * _MARGIN or 0.5
    return Scale(low - margin, high + margin)


def fit_to_most(values: Sequence[float], sign: float) -> Scale:
    """A scale for an objective: it begins where all but the worst twentieth lie, so that a few don't flatten the rest.

    Args:
        values: What is drawn; what is beyond the scale is drawn at its end.
        sign: 1 where high values are good, otherwise -1.
    """
    best = [max(values) if sign > 0 else min(values)] if values else []
    return fit_scale([*best, *leave_out_worst(values, sign, _WORST)])


def fit_to_ranked(ranked: Sequence[Ranked], find_value: Callable[[Ranked], float]) -> Scale:
    """The same for the values of what is in their order, the best first: few are looked at."""
    return fit_scale(find_value(ranked[place]) for place in (0, -1 - int(len(ranked) * _WORST)) if ranked)


def leave_out_worst(values: Sequence[float], sign: float, share: float) -> Sequence[float]:
    """The values without a share of them; of very many, a sample, as it takes no more to know where that share ends."""
    ordered = sorted(values[:: -(-len(values) // _MANY) or 1], reverse=sign < 0)
    return ordered[int(len(ordered) * share) :]


def loosen_scale(scale: Scale) -> Scale:
    """The scale with rounder ends: as results come in it mostly stays as it is, and so does what is drawn on it."""
    low, high = (math.log10(scale.low), math.log10(scale.high)) if scale.is_log else (scale.low, scale.high)
    step = _find_round_step(low, high, _STEPS)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    return Scale(10.0**low, 10.0**high, is_log=True) if scale.is_log else Scale(low, high)


def _list_round(low: float, high: float, most: int) -> list[float]:
    if not high > low:
        return [low]
    step = _find_round_step(low, high, most)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _find_round_step(low: float, high: float, most: int) -> float:
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    return next((power * factor for factor in (1, 2, 2.5, 5) if power * factor >= raw), power * 10)


def _list_powers(low: float, high: float, most: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    finer = [
        factor * 10.0**power
        for power in range(first - 1, last + 1)
        for factor in (1, 2, 5)
        if low <= factor * 10.0**power <= high
    ]
    if len(finer) <= most and last - first < _DECADES:
        return finer if len(finer) >= _LEAST else _list_round(low, high, most)
    step = max(1, -(-(last - first) // most))
    return [10.0**power for power in range(first, last + 1, step)]
