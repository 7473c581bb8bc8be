"""Takes in a trial's results: what each one changes in the trial's status."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from podtune.api.resources.trial import TrialStatus
from podtune.api.resources.trial_curve import TrialCurve
from podtune.api.tuning.objective import Objective
from podtune.protocol.messages import MetricValue, Result, read_number
from podtune.trial.layout import TIME_THIS_ITER, TIME_TOTAL
from podtune.tuning.numbers import write_briefly

_MAX_SHOWN = 64
"""Longest value that a status shows, in characters."""


def show(value: MetricValue) -> str:
    """Writes a metric's value for a status; a float so that reading it back gives the same number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)[:_MAX_SHOWN] if isinstance(value, str) else repr(value)


def show_briefly(written: str) -> str:
    """A value of a status with the digits that people compare; whole numbers and texts stay as they are."""
    try:
        value = float(written)
    except ValueError:
        return written
    return written if value.is_integer() else write_briefly(value)


def show_all(metrics: Mapping[str, MetricValue]) -> dict[str, str]:
    """Writes a result's metrics for a status."""
    return {name: show(value) for name, value in metrics.items()}


def find_best_value(status: TrialStatus, metric: str) -> float | None:
    """The best value of a trial so far, a finite number; None where it has none."""
    written = status.best.get(metric)
    value = math.nan if written is None else float(written)
    return value if math.isfinite(value) else None


def make_comparable(metrics: Mapping[str, MetricValue], objective: Objective) -> Mapping[str, MetricValue]:
    """A result as schedulers see it: an infinity that nothing could beat is NaN (see `Criterion.make_comparable`)."""
    value = read_number(metrics, objective.metric)
    if value is None or not math.isinf(value):
        return metrics
    return {**metrics, objective.metric: objective.make_comparable(value)}


def is_new(status: TrialStatus, result: Result, time_attribute: str) -> bool:
    """Whether a result goes beyond what was recorded: a stretch that is run again after a restore does not."""
    time = read_number(result.metrics, time_attribute)
    if time is None or math.isnan(time):
        return True
    return status.progress == "" or time > float(status.progress)


def add_result(
    status: TrialStatus, result: Result, objective: Objective, time_attribute: str, curve_metrics: Sequence[str] = ()
) -> TrialStatus:
    """The status after a result: last and best result, iteration, progress and learning curve.

    Args:
        status: The status before.
        result: The result.
        objective: What is optimised.
        time_attribute: What the scheduler measures time by.
        curve_metrics: What the learning curve shows.
    """
    changes: dict[str, object] = {"iteration": max(status.iteration, result.step)}
    if curve_metrics:
        changes["curve"] = extend_curve(status, result, curve_metrics)
    written = show_all(_select_told(result.metrics, objective, time_attribute))
    if is_new(status, result, time_attribute):
        if not _is_passed_over(status, result, objective):
            changes["last_result"] = written
        time = read_number(result.metrics, time_attribute)
        if time is not None and not math.isnan(time):
            changes["progress"] = repr(time)
    value = read_number(result.metrics, objective.metric)
    if value is not None and objective.is_better(value, find_best_value(status, objective.metric)):
        changes["best"] = written
        changes["best_value"] = show(value)
        changes["best_parameters"] = status.parameters
    return status.model_copy(update=changes)


def extend_curve(status: TrialStatus, result: Result, metrics: Sequence[str]) -> TrialCurve | None:
    """The learning curve after a result.

    A result has a place in it if it has one of the metrics, and goes beyond the results before. After a retry, that
    hides what was told before, as from the scheduler. A clone's curve goes on at its donor's iteration, even backwards.

    The number of a result alone decides whether it is shown. So an operator that takes the curve from the status, and
    adds the results that this doesn't cover, has the same curve, whenever it was written.
    """
    curve = status.curve
    values = [read_number(result.metrics, metric) for metric in metrics]
    if all(value is None for value in values):
        return curve
    if curve is None or curve.width != len(values):
        curve = TrialCurve(len(values))
    elif result.step <= min(status.iteration, curve.last_step):
        return curve
    seconds = read_number(result.metrics, TIME_TOTAL)
    seconds, *numbers = (math.nan if number is None else number for number in (seconds, *values))
    curve = curve.add(result.step, seconds, numbers)
    while curve.is_full:
        curve = curve.halve()
    return curve


def _select_told(
    metrics: Mapping[str, MetricValue], objective: Objective, time_attribute: str
) -> Mapping[str, MetricValue]:
    """What a status tells of a result: how long its iteration took only where something goes by that."""
    if TIME_THIS_ITER in (time_attribute, *(criterion.metric for criterion in objective.criteria)):
        return metrics
    return {name: value for name, value in metrics.items() if name != TIME_THIS_ITER}


def _is_passed_over(status: TrialStatus, result: Result, objective: Objective) -> bool:
    """Whether a result should not represent the trial, because it legitimately lacks what an earlier one has."""
    if objective.missing == "strict":
        return False
    wanted = [criterion.metric for criterion in objective.criteria]
    lacks = any(read_number(result.metrics, metric) is None for metric in wanted)
    return lacks and all(metric in status.last_result for metric in wanted)


def parse_metrics(shown: Mapping[str, str]) -> dict[str, MetricValue]:
    """Reads the metrics of a status back: numbers where they are numbers, whole ones where `show` wrote such."""
    return {name: _parse_metric(value) for name, value in shown.items()}


def _parse_metric(shown: str) -> MetricValue:
    for read in (int, float):
        try:
            return read(shown)
        except ValueError:
            continue
    return shown
