"""What the criteria of trials remember: all of it, in one place, so that it can be recorded and restored."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from podtune.tuning.numbers import as_number
from podtune.tuning.schedulers.base import Metrics, Record, RecordError
from podtune.tuning.stoppers.base import Window

WINDOW, COUNT, LAST = "window", "count", "last"


@dataclass(slots=True)
class _Trial:
    windows: dict[str, deque[float]]
    counts: dict[str, int]
    last: dict[str, float | int | str | bool] = field(default_factory=dict)


class TrialMemory:
    """The last values of metrics, by trial.

    A trial's record is {"window": {"loss": "0.5 0.25"}, "count": {"loss": "9"}, "last": {"accuracy": "0.1"}}. It goes
    by metrics, not by rules, so that it stays of use when a user changes these.
    """

    def __init__(self, windows: Mapping[str, int], last: Collection[str]) -> None:
        """Starts with nothing.

        Args:
            windows: How many of its last values are wanted of a metric.
            last: Metrics whose value in the last result is wanted until the next one.
        """
        self._windows = dict(windows)
        self._last = frozenset(last)
        self._trials: dict[int, _Trial] = {}

    def add(self, trial: int, metrics: Metrics) -> None:
        """Takes in a trial's next result; of what is no number there is no value."""
        if not self._windows and not self._last:
            return
        known = self._get_trial(trial)
        for metric, values in known.windows.items():
            value = as_number(metrics.get(metric))
            if value is not None:
                values.append(value)
                known.counts[metric] += 1
        known.last = {name: metrics[name] for name in metrics if name in self._last}

    def get_windows(self, trial: int) -> Mapping[str, Window]:
        """The last values of a trial."""
        known = self._trials.get(trial)
        if known is None:
            return {}
        return {metric: Window(tuple(values), known.counts[metric]) for metric, values in known.windows.items()}

    def get_last(self, trial: int) -> Metrics:
        """What is wanted of a trial's last result."""
        known = self._trials.get(trial)
        return known.last if known is not None else {}

    def forget(self, trial: int) -> None:
        """Forgets a trial."""
        self._trials.pop(trial, None)

    def record(self, trial: int) -> Record:
        """What has to be known of a trial after a restart, written so that reading it gives the same values."""
        known = self._trials.get(trial)
        if known is None:
            return {}
        parts = {
            WINDOW: {metric: " ".join(map(repr, values)) for metric, values in known.windows.items() if values},
            COUNT: {metric: str(count) for metric, count in known.counts.items() if count},
            LAST: {name: json.dumps(value) for name, value in known.last.items()},
        }
        return {name: part for name, part in parts.items() if part}

    def restore(self, trial: int, record: Record) -> None:
        """Restores a trial's record; metrics that are no longer used are left out.

        Raises:
            RecordError: A value is not what is written there.
        """
        if not record:
            return
        known = self._get_trial(trial)
        for metric in known.windows:
            values = record.get(WINDOW, {}).get(metric, "")
            known.windows[metric].extend(_parse_number(trial, WINDOW, metric, text) for text in values.split())
            known.counts[metric] = int(_parse_number(trial, COUNT, metric, record.get(COUNT, {}).get(metric, "0")))
        for name, text in record.get(LAST, {}).items():
            if name in self._last:
                known.last[name] = _parse_scalar(trial, name, text)

    def _get_trial(self, trial: int) -> _Trial:
        if trial not in self._trials:
            windows = {metric: deque[float](maxlen=length) for metric, length in self._windows.items()}
            self._trials[trial] = _Trial(windows, dict.fromkeys(windows, 0))
        return self._trials[trial]


def _parse_number(trial: int, part: str, metric: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise _build_error(trial, part, metric, text, "a number") from error


def _parse_scalar(trial: int, metric: str, text: str) -> float | int | str | bool:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise _build_error(trial, LAST, metric, text, "a value in JSON") from error
    if not isinstance(value, bool | int | float | str):
        raise _build_error(trial, LAST, metric, text, "a number, a text, true or false")
    return value


def _build_error(trial: int, part: str, metric: str, text: str, wanted: str) -> RecordError:
    return RecordError(
        f"trial {trial}: status.stopper.{part}[{metric!r}] is {text!r:.80}, which is not {wanted}; correct it or "
        "remove the entry"
    )
