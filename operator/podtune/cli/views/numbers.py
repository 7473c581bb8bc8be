"""Numbers for people: four digits that matter, and a column's numbers with one precision. Programs get all digits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from podtune.tuning.numbers import BRIEF_DIGITS, write_briefly

DIGITS = BRIEF_DIGITS
NONE = "–"
"""Stands where there is no value."""
LEAST_HOURS = 0.0001
"""A third of a second. How much less it was is no use to anybody."""
_BEYOND = 1e150
"""A scale needs twice as much."""


def read_finite(text: str | None) -> float | None:
    """A number that can be drawn; None where the text is none, or one beyond all scales."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if abs(value) < _BEYOND else None  # not a number is not less


def format_measure(value: float | None) -> str:
    """A measured number with the digits that matter: 0.9889, 31.24, 1.2e-5, 12,480."""
    if value is None:
        return NONE
    return write_briefly(value, ",")


def format_number(text: str) -> str:
    """A number for a terminal: as `format_measure` has it, but whole numbers have all digits and none has commas."""
    try:
        value = float(text)
    except ValueError:
        return text
    return text if value.is_integer() or not math.isfinite(value) else write_briefly(value)


def format_apart(value: float, other: float = math.nan) -> str:
    """A measured number with as many digits as it takes to tell it from another one: 0.89241 beside 0.89238."""
    text = format_measure(value)
    if value == other or text != format_measure(other):
        return text
    return next(
        (long for digits in range(DIGITS + 1, 17) if (long := f"{value:.{digits}g}") != f"{other:.{digits}g}"), text
    )


def choose_decimals(values: Iterable[float]) -> int | None:
    """With how many decimals numbers of one column stand one below the other; None where no count suits all."""
    sizes = [abs(float(value)) for value in values if value]
    if not sizes:
        return 0
    if max(sizes) >= 1e6 or max(sizes) < 1e-3:
        return None
    if all(size.is_integer() for size in sizes):
        return 0
    decimals = max(0, DIGITS - 1 - _find_exponent(max(sizes)))
    is_lost = min(sizes) < 10.0**-decimals / 2
    return None if is_lost else decimals


def format_aligned(value: float | None, decimals: int | None) -> str:
    """A number of a column."""
    if value is None or decimals is None or not math.isfinite(value):
        return format_measure(value)
    return f"{value:,.{decimals}f}"


def format_hours(hours: float | None) -> str:
    """GPU-hours: 0.0053, 0.42, 7.3, 1,240."""
    if hours is None:
        return NONE
    if 0 < hours < LEAST_HOURS:
        return f"<{LEAST_HOURS}"
    if 0 < hours < 1:
        return f"{hours:.{1 - _find_exponent(hours)}f}"
    return f"{hours:,.1f}" if 1 <= hours < 100 else f"{hours:,.0f}"


def format_hours_column(column: Sequence[float | None]) -> list[str]:
    """GPU-hours that stand one below the other: with one precision, but for those of which it would leave nothing."""
    largest = max((hours or 0.0 for hours in column), default=0.0)
    exponent = _find_exponent(max(largest, LEAST_HOURS)) if largest else 3
    decimals = 1 - exponent if exponent < 0 else max(0, min(2, 3 - exponent))
    least = max(10.0**-decimals / 2, LEAST_HOURS)
    return [format_hours(hours) if hours is None or 0 < hours < least else f"{hours:,.{decimals}f}" for hours in column]


def format_whole(number: int) -> str:
    """A whole number with its thousands apart: 12,480."""
    return f"{number:,}"


def format_count(count: int, word: str) -> str:
    """How many there are of something: 1 trial, 1,204 trials."""
    return f"{format_whole(count)} {word}{'' if count == 1 else 's'}"


def _find_exponent(size: float) -> int:
    return math.floor(math.log10(size))
