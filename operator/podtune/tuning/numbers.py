"""Numbers in results: how they are read, and how they are written into messages."""

from __future__ import annotations

import math


def as_number(value: object) -> float | None:
    """Reads a metric's value: booleans are 0 and 1; None for text, and for an integer too large for a float."""
    if not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def shorten(value: float, apart_from: float = math.nan) -> str:
    """Writes a number briefly, but with enough digits to distinguish it from another one."""
    for digits in range(6, 17):
        written = f"{value:.{digits}g}"
        if value == apart_from or written != f"{apart_from:.{digits}g}":
            return written
    return repr(value)
