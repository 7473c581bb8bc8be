"""The times of results: how long the program has trained, and how long since the result before."""

from __future__ import annotations

from collections.abc import Mapping

from podtune.protocol.messages import MetricValue
from podtune.trial.layout import TIME_THIS_ITER, TIME_TOTAL

_DECIMALS = 3
"""A result is read some hundredths of a second after it was written."""
MAX_SECONDS = 1e15
"""Values from here on are no times: seconds in whole milliseconds fit into a float up to there only."""


class TrainingTimer:
    """Counts training time over all attempts: a restored checkpoint brings the time that it was trained for.

    As Ray's `time_total_s` and `time_this_iter_s`. Never falls, whatever the clock does. Not thread-safe.
    """

    def __init__(self) -> None:
        """Starts to count with the first result, unless it is told before when the program has begun."""
        self._began: float | None = None
        self._before = 0.0
        self._total = 0.0

    def begin(self, time: float) -> None:
        """The program begins now."""
        self._began = time

    def go_on_from(self, total: float) -> None:
        """The program continues from a checkpoint that this many seconds of training went into."""
        self._before = self._total = total

    def fill_in(self, metrics: Mapping[str, MetricValue], time: float) -> dict[str, MetricValue]:
        """A result that was read at `time`, with its times; what the program has measured itself stays."""
        if self._began is None:
            self._began = time
        total = max(self._total, round(self._before + time - self._began, _DECIMALS))
        own = {TIME_THIS_ITER: round(total - self._total, _DECIMALS), TIME_TOTAL: total}
        self._total = total
        return {**metrics, **{name: value for name, value in own.items() if parse_seconds(metrics.get(name)) is None}}


def read_total(metrics: Mapping[str, MetricValue]) -> float:
    """The training time that a result tells of, its own or the one that was filled in; 0 where it tells of none."""
    return parse_seconds(metrics.get(TIME_TOTAL)) or 0.0


def parse_seconds(value: object) -> float | None:
    """A value as a number of seconds; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MAX_SECONDS:
        return None
    return float(value)
