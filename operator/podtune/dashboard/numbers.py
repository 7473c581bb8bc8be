"""Numbers and times as pages show them: four digits that matter, and a column's numbers with one precision."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime

DIGITS = 4
"""Of a measured number, as many as people compare."""
NONE = "–"
"""Stands where there is no value."""
_LONG_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d{6,}(?:e[-+]?\d+)?(?!\w|\.\d)")
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
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if value == 0 or 1e-3 <= size < 1e6:
        decimals = 0 if value.is_integer() else max(0, DIGITS - 1 - _find_exponent(size))
        text = f"{value:,.{min(decimals, 6)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = f"{value:.{DIGITS - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def format_apart(value: float, other: float = math.nan) -> str:
    """A measured number with as many digits as it takes to tell it from another one: 0.89241 beside 0.89238."""
    text = format_measure(value)
    if value == other or text != format_measure(other):
        return text
    return next(
        (long for digits in range(DIGITS + 1, 17) if (long := f"{value:.{digits}g}") != f"{other:.{digits}g}"), text
    )


def format_text(text: str) -> str:
    """A parameter's or a metric's value: a number as `format_measure` has it, anything else as it is."""
    value = read_finite(text)
    return text if value is None else format_measure(value)


def round_in_text(text: str) -> str:
    """A sentence whose numbers have six digits that matter at most, as those of decisions have."""
    return _LONG_NUMBER.sub(lambda match: f"{float(match[0]):.6g}", text)


def choose_decimals(values: Iterable[float]) -> int | None:
    """With how many decimals numbers of one column stand one below the other; None where no count suits all."""
    sizes = [abs(float(value)) for value in values if value]
    if not sizes:
        return 0
    if max(sizes) >= 1e6 or max(sizes) < 1e-3:
        return None
    if all(size.is_integer() for size in sizes):
        return 0
    return max(0, DIGITS - 1 - _find_exponent(max(sizes)))


def format_aligned(value: float | None, decimals: int | None) -> str:
    """A number of a column."""
    if value is None or decimals is None or not math.isfinite(value):
        return format_measure(value)
    return f"{value:,.{decimals}f}"


def format_hours(hours: float | None) -> str:
    """GPU-hours: 0.42, 7.3, 1,240."""
    if hours is None:
        return NONE
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:,.1f}" if hours >= 1 else f"{hours:.2f}"


def format_whole(number: int) -> str:
    """A whole number with its thousands apart: 12,480."""
    return f"{number:,}"


def format_count(count: int, word: str) -> str:
    """How many there are of something: 1 trial, 1,204 trials."""
    return f"{format_whole(count)} {word}{'' if count == 1 else 's'}"


def format_moment(moment: float) -> str:
    """A time in seconds since 1970 to the second, without its year: 21 Nov 05:09:30."""
    return f"{datetime.fromtimestamp(round(moment), UTC):%-d %b %H:%M:%S}"


def format_minute(moment: float) -> str:
    """The same to the minute: 21 Nov 05:09."""
    return f"{datetime.fromtimestamp(moment, UTC):%-d %b %H:%M}"


def format_clock(moment: float) -> str:
    """The time of day alone, in UTC: 05:09:41."""
    return f"{datetime.fromtimestamp(moment, UTC):%H:%M:%S}"


def _find_exponent(size: float) -> int:
    return math.floor(math.log10(size))


def format_bytes(size: int) -> str:
    """A size with the digits that matter: 512 B, 1.5 KiB, 10.25 GiB."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{format_measure(value)} {unit}"
