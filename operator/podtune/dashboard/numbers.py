"""Numbers and times as pages show them; those that terminals show, too, are written in `cli.views.numbers`."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from podtune.cli.views.numbers import (
    DIGITS,
    NONE,
    choose_decimals,
    format_aligned,
    format_apart,
    format_count,
    format_hours,
    format_hours_column,
    format_measure,
    format_whole,
    read_finite,
)

__all__ = [
    "DIGITS",
    "NONE",
    "choose_decimals",
    "format_aligned",
    "format_apart",
    "format_bytes",
    "format_clock",
    "format_count",
    "format_hours",
    "format_hours_column",
    "format_measure",
    "format_minute",
    "format_moment",
    "format_text",
    "format_whole",
    "read_finite",
    "round_in_text",
]
_COUNT_OF_TRIALS = re.compile(r"(?<![\w.,-])\d{4,}(?= (?:of \d+ )?trials\b)")
_LONG_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d{6,}(?:e[-+]?\d+)?(?!\w|\.\d)")


def format_text(text: str) -> str:
    """A parameter's or a metric's value: a number as `format_measure` has it, anything else as it is."""
    value = read_finite(text)
    return text if value is None else format_measure(value)


def round_in_text(text: str) -> str:
    """A sentence whose numbers have six digits that matter at most, as those of decisions have: 11 of 12,480 trials."""
    rounded = _LONG_NUMBER.sub(lambda match: f"{float(match[0]):.6g}", text)
    return _COUNT_OF_TRIALS.sub(lambda match: format_whole(int(match[0])), rounded)


def format_moment(moment: float) -> str:
    """A time in seconds since 1970 to the second, without its year: 21 Nov 05:09:30."""
    return f"{datetime.fromtimestamp(round(moment), UTC):%-d %b %H:%M:%S}"


def format_minute(moment: float) -> str:
    """The same to the minute: 21 Nov 05:09."""
    return f"{datetime.fromtimestamp(moment, UTC):%-d %b %H:%M}"


def format_clock(moment: float) -> str:
    """The time of day alone, in UTC: 05:09:41."""
    return f"{datetime.fromtimestamp(moment, UTC):%H:%M:%S}"


def format_bytes(size: int) -> str:
    """A size with the digits that matter: 512 B, 1.5 KiB, 10.25 GiB."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{format_measure(value)} {unit}"
