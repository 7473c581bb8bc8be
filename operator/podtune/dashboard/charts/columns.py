"""All trials by columns, for the charts that the browser draws: compact, and in one answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from podtune.dashboard.charts.spending import add_spending
from podtune.dashboard.pricing import NO_PRICE, GpuPrice
from podtune.dashboard.search_axes import SearchAxis
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows

_DIGITS = 6
"""As many as a screen can show, and a person can compare."""


@lru_cache(maxsize=4)
def write_columns(experiment: ExperimentRows, price: GpuPrice = NO_PRICE) -> str:
    """The trials as JSON.

    `index` holds their numbers and `progress` their place in `words`. Each of `columns` has a value for each trial, or
    null: a number, or a place in `choices`. A metric's `sign` is 1 where high values are good, and -1 otherwise.
    """
    order = list(STATE_WORDS)
    started = min((row.started for row in experiment.rows if row.started is not None), default=0.0)
    ends = [row.ended or experiment.last_moment for row in experiment.rows]
    spending = add_spending(experiment, price)
    spent = spending.by_trial if spending is not None else {}
    metrics = [
        _make_metric(metric, sign, [row.values[place] for row in experiment.rows])
        for place, (metric, sign) in enumerate(zip(experiment.metrics, experiment.signs, strict=True))
    ]
    return json.dumps(
        {
            "names": [row.name for row in experiment.rows],
            "index": [row.view.index for row in experiment.rows],
            "hours": [None if end is None else _shorten((end - started) / 3600) for end in ends],
            "spent": [_shorten(spent.get(row.name)) for row in experiment.rows],
            "progress": [order.index(row.progress) for row in experiment.rows],
            "words": [STATE_WORDS[progress] for progress in order],
            "keys": [str(progress) for progress in order],
            "columns": [*(_make_parameter(experiment, axis) for axis in experiment.axes), *metrics],
        },
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
    )


def _make_parameter(experiment: ExperimentRows, axis: SearchAxis) -> dict[str, Any]:
    positions = [axis.find_position(row.view.parameters.get(axis.name)) for row in experiment.rows]
    return {
        "name": axis.name,
        "sentence": axis.sentence,
        "choices": axis.choices,
        "low": axis.low,
        "high": axis.high,
        "log": axis.is_log,
        "sign": 0,
        "values": [_shorten(position) for position in positions],
    }


def _make_metric(name: str, sign: float, values: Sequence[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    return {
        "name": name,
        "sentence": "objective, higher is better" if sign > 0 else "objective, lower is better",
        "choices": (),
        "low": low,
        "high": high if high > low else low + 1,
        "log": False,
        "sign": sign,
        "values": [_shorten(value) for value in values],
    }


def _shorten(value: float | None) -> float | int | None:
    if value is None:
        return None
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
