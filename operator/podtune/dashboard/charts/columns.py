"""All trials by columns, for the charts that the browser draws: compact, and in one answer.

What a trial's own values look like in JSON is kept with it: thousands of numbers are not written anew at each update.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from podtune.dashboard.charts.spent_resources import add_spending
from podtune.dashboard.keeping import keep_by_trial, keep_chart
from podtune.dashboard.pricing import NO_PRICE, GpuPrice
from podtune.dashboard.search_axes import SearchAxis
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows, TrialRow

_DIGITS = 6
"""As many as a screen can show, and a person can compare."""


@keep_chart
def write_columns(experiment: ExperimentRows, price: GpuPrice = NO_PRICE) -> str:
    """The trials as JSON.

    `index` holds their numbers and `progress` their place in `words`. Each of `columns` has a value for each trial, or
    null: a number, or a place in `choices`. A metric's `sign` is 1 where high values are good, and -1 otherwise.
    """
    rows, order = experiment.rows, list(STATE_WORDS)
    started = min((row.started for row in rows if row.started is not None), default=0.0)
    hours = _write_hours.read_all(experiment, started)
    last = _write_number(None if experiment.last_moment is None else (experiment.last_moment - started) / 3600)
    spending = add_spending(experiment, price)
    spent = spending.by_place if spending is not None else [None] * len(rows)
    places = {progress: str(place) for place, progress in enumerate(order)}
    lists = {
        "names": _write_name.read_all(experiment),
        "index": [str(row.view.index) for row in rows],
        "hours": [text or last for text in hours],
        "spent": [_write_number(amount) for amount in spent],
        "progress": [places[row.progress] for row in rows],
        "words": [_write(STATE_WORDS[progress]) for progress in order],
        "keys": [_write(progress) for progress in order],
        "columns": _write_columns(experiment),
    }
    return f"{{{','.join(f'{_write(name)}:{_write_list(texts)}' for name, texts in lists.items())}}}"


def _write_columns(experiment: ExperimentRows) -> list[str]:
    metrics = enumerate(zip(experiment.metrics, experiment.signs, strict=True))
    columns = [
        *(_describe_parameter(axis) for axis in experiment.axes),
        *(_describe_metric(experiment, place, metric, sign) for place, (metric, sign) in metrics),
    ]
    values = list(zip(*_write_values.read_all(experiment, experiment.axes), strict=True))
    return [
        f'{_write(column)[:-1]},"values":{_write_list(values[place] if values else ())}}}'
        for place, column in enumerate(columns)
    ]


@keep_by_trial
def _write_name(row: TrialRow) -> str:
    return _write(row.name)


@keep_by_trial
def _write_hours(row: TrialRow, started: float) -> str:
    """When a trial has ended; empty as long as it goes on."""
    return _write_number((row.ended - started) / 3600) if row.ended else ""


@keep_by_trial
def _write_values(row: TrialRow, axes: tuple[SearchAxis, ...]) -> tuple[str, ...]:
    """What stands in the columns for one trial."""
    parameters = row.view.parameters
    positions = (axis.find_position(parameters.get(axis.name)) for axis in axes)
    return tuple(map(_write_number, (*positions, *row.values)))


def _describe_parameter(axis: SearchAxis) -> dict[str, Any]:
    return {
        "name": axis.name,
        "sentence": axis.sentence,
        "choices": axis.choices,
        "low": axis.low,
        "high": axis.high,
        "log": axis.is_log,
        "sign": 0,
    }


def _describe_metric(experiment: ExperimentRows, place: int, name: str, sign: float) -> dict[str, Any]:
    known = [value for row in experiment.rows if (value := row.values[place]) is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    return {
        "name": name,
        "sentence": "objective, higher is better" if sign > 0 else "objective, lower is better",
        "choices": (),
        "low": low,
        "high": high if high > low else low + 1,
        "log": False,
        "sign": sign,
    }


def _write(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _write_list(texts: Iterable[str]) -> str:
    return f"[{','.join(texts)}]"


def _write_number(value: float | None) -> str:
    return "null" if value is None else f"{value:.{_DIGITS}g}"
