"""Times, curves and best values in a few characters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from podtune.api.resources.experiment import BestTrial
from podtune.api.resources.trial_curve import TrialCurve
from podtune.cli.views.numbers import format_number

SPARKLINE_WIDTH = 12
_BARS = "▁▂▃▄▅▆▇"
"""None is as high as its line: the curves of two lines would touch."""


def read_moment(text: str | None) -> float | None:
    """A time of the API in seconds since 1970; None where it is none."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def format_age(since: str, now: datetime) -> str:
    """How long ago something was, as kubectl writes it: 45s, 12m, 5h, 3d."""
    if not since:
        return ""
    elapsed = max(0, int((now - datetime.fromisoformat(since).astimezone(UTC)).total_seconds()))
    if elapsed < 120:
        return f"{elapsed}s"
    for length, unit, limit in ((60, "m", 120), (3600, "h", 48)):
        if elapsed < length * limit:
            return f"{elapsed // length}{unit}"
    return f"{elapsed // 86400}d"


def format_duration(length: float) -> str:
    """A length of time given in seconds, with at most two units: 45s, 12m30s, 5h03m, 3d04h, 27d."""
    whole = round(length)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return _format_pair(whole, 60, "m", "s")
    minutes = round(length / 60)
    if minutes < 48 * 60:
        return _format_pair(minutes, 60, "h", "m")
    hours = round(length / 3600)
    return _format_pair(hours, 24, "d", "h") if hours < 240 else f"{round(length / 86400)}d"


def format_best_value(best: BestTrial) -> str:
    """The best value, and how much it differs between repeats."""
    value = format_number(best.value)
    return f"{value} ± {format_number(best.spread)}" if best.repeats else value


def format_best_holder(best: BestTrial) -> str:
    """Whose value it is."""
    return f"{best.trial} and {best.repeats - 1} more repeats" if best.repeats else best.trial


def format_curve(curve: TrialCurve | None) -> str:
    """A learning curve as a sparkline of its first objective; empty where there is none."""
    return format_sparkline([values[0] for _, _, *values in curve.list_points()] if curve is not None else [])


def format_sparkline(values: Sequence[float]) -> str:
    """Values as bars from the lowest to the highest, the last one included; a blank where one is not finite."""
    count = min(len(values), SPARKLINE_WIDTH)
    shown = [values[round(place * (len(values) - 1) / max(count - 1, 1))] for place in range(count)]
    finite = [value for value in shown if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    return "".join(_choose_bar(value, low, high) for value in shown)


def _choose_bar(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return " "
    span = high / 2 - low / 2  # halved, since the difference of the largest numbers is infinite
    share = (value / 2 - low / 2) / span if span else 0.5
    return _BARS[min(int(share * len(_BARS)), len(_BARS) - 1)]


def _format_pair(count: int, size: int, large: str, small: str) -> str:
    whole, rest = divmod(count, size)
    return f"{whole}{large}" + (f"{rest:02}{small}" if rest else "")
