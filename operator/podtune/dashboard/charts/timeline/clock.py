"""Times along an axis, in Coordinated Universal Time."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from podtune.dashboard.charts.scales import Tick

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
MOST_TICKS = 8


def list_time_ticks(begin: float, end: float) -> list[Tick]:
    """Round times from one moment to another; two of three go where there is little room."""
    length = end - begin
    wanted = length / MOST_TICKS
    step = next((step for step in _STEPS if step >= wanted), _DAY * math.ceil(wanted / _DAY))
    first = math.ceil(begin / step)
    moments = [step * number for number in range(first, math.floor(end / step) + 1)]
    return [
        Tick((moment - begin) / length, _format_tick(moment, step), is_minor=number % 3 != 0)
        for number, moment in enumerate(moments)
    ]


def write_moment(moment: float) -> str:
    """A time as addresses and fields of forms have it."""
    return f"{datetime.fromtimestamp(round(moment), UTC):%Y-%m-%dT%H:%M:%S}"


def _format_tick(moment: int, step: int) -> str:
    time = datetime.fromtimestamp(moment, UTC)
    if moment % _DAY == 0:
        return f"{time:%-d %b}"
    return f"{time:%H:%M:%S}" if step < _MINUTE else f"{time:%H:%M}"
