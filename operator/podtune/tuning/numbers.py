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


BRIEF_DIGITS = 4
"""Of a measured number, as many as people compare."""


def write_briefly(value: float, separator: str = "") -> str:
    """Writes a measured number with the digits that people compare: 0.9889, 31.24, 12480, 1.2e-5.

    Args:
        value: The number.
        separator: Between thousands.
    """
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if value == 0 or 1e-3 <= size < 1e6:
        decimals = 0 if value == int(value) else max(0, BRIEF_DIGITS - 1 - math.floor(math.log10(size)))
        text = f"{value:,.{min(decimals, 6)}f}".replace(",", separator)
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = f"{value:.{BRIEF_DIGITS - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def shorten(value: float, apart_from: float = math.nan) -> str:
    """Writes a number briefly, but with enough digits to distinguish it from another one."""
    for digits in range(6, 17):
        written = f"{value:.{digits}g}"
        if value == apart_from or written != f"{apart_from:.{digits}g}":
            return written
    return repr(value)
