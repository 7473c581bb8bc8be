"""What results have cost: the best value so far over the money, the GPU-hours or the training time spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from podtune.dashboard.charts.plots import (
    DotGroups,
    Plot,
    draw_steps,
    find_improvements,
    fit_objective,
    group_dots,
    join_dots,
    write_dots,
)
from podtune.dashboard.charts.scales import Scale, loosen_scale
from podtune.dashboard.charts.spent_resources import (
    SettledUse,
    SpentResource,
    SpentSoFar,
    add_spending,
    format_amount,
)
from podtune.dashboard.keeping import keep_chart, keep_summary
from podtune.dashboard.numbers import format_hours, format_measure
from podtune.dashboard.pricing import NO_PRICE, GpuPrice
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow

LAST_SHARE = 0.1
"""What this last part of the resources has bought is said in a sentence."""
_LEAST_GAIN = 1e-6
"""Smaller differences are shown as powers of ten."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """A trial that was better than all before it.

    Attributes:
        spent: What had been spent at its end.
        since: What of this was spent since the one before.
        gain: By how much it is better than that, with a sign; empty for the first.
    """

    row: TrialRow
    spent: float
    since: float
    value: float
    gain: str


@dataclass(frozen=True, slots=True)
class Spending:
    """The chart, what it comes to in a sentence, and its table."""

    plot: Plot
    resource: SpentResource
    total: float
    total_text: str
    sentence: str
    purchases: Sequence[Purchase]


_SpentPoint = tuple[TrialRow, float, float]
"""A trial, what had been spent at its end, and its value."""


class _SettledPart(NamedTuple):
    """What is drawn of settled trials, and those that may have been better than all before them."""

    dots: DotGroups
    records: Sequence[_SpentPoint]


@keep_chart
def draw_spending(experiment: ExperimentRows, price: GpuPrice = NO_PRICE) -> Spending | None:
    """Best value so far over what was spent; None where no trial has a value, or no usage is on record."""
    spent = add_spending(experiment, price)
    if spent is None:
        return None
    sign, metric, total = experiment.signs[0], experiment.metrics[0], spent.total
    x, y = loosen_scale(Scale(-0.02 * total, 1.02 * total)), fit_objective(experiment)
    kept = _draw_settled(experiment, (spent.settled,), spent.kept, x, y, sign)
    news = _list_points(experiment.rows, spent.by_place, spent.news)
    points = [*kept.records, *news]
    if not points:
        return None
    steps = find_improvements(*_split(points), sign)
    improved = steps[:-1] if len(steps) > 1 and steps[-1][0] is steps[-2][0] else steps
    line = draw_steps([(x.place(at), y.place(value)) for _, at, value in [*improved, (None, total, improved[-1][2])]])
    plot = Plot(
        key="spending",
        title=f"Best {metric} for the {spent.resource.name}",
        x_label=spent.resource.label,
        y_label=metric,
        x_column="$",
        y_column=metric,
        x=x,
        y=y,
        x_ticks=[tick for tick in x.list_ticks() if not tick.label.startswith("-")],
        y_ticks=y.list_ticks(5),
        dots=join_dots([kept.dots, _draw_points(news, x, y)]),
        line=line,
        line_label="best so far",
        steps=improved,
        band=(x.place((1 - LAST_SHARE) * total), x.place(total)),
        band_label=f"last {_format_share(LAST_SHARE)} of the {spent.resource.name}",
    )
    text = format_amount(total, price) if spent.resource.price else f"{format_hours(total)} {spent.resource.label}"
    return Spending(plot, spent.resource, total, text, _sum_up(plot, spent), list(_list_purchases(improved)))


@keep_summary
def _draw_settled(settled: Sequence[SettledUse], count: int, x: Scale, y: Scale, sign: float) -> _SettledPart:
    """The first settled trials, before whose ends no other one has used anything."""
    (found,) = settled
    points = [
        (row, found.by_place[place] or 0.0, row.values[0])
        for _, place, row in found.ordered[:count]
        if row.values[0] is not None
    ]
    return _SettledPart(_draw_points(points, x, y), find_improvements(*_split(points), sign) if points else ())


def _list_points(rows: Sequence[TrialRow], spent: Sequence[float | None], places: Sequence[int]) -> list[_SpentPoint]:
    """Trials that have a value, with what had been spent at their ends, in this order."""
    known = [
        (at, place, value)
        for place in places
        if (at := spent[place]) is not None and (value := rows[place].values[0]) is not None
    ]
    return [(rows[place], at, value) for at, place, value in sorted(known)]


def _split(points: Sequence[_SpentPoint]) -> tuple[list[TrialRow], list[float], list[float]]:
    return [row for row, _, _ in points], [at for _, at, _ in points], [value for _, _, value in points]


def _draw_points(points: Sequence[_SpentPoint], x: Scale, y: Scale) -> DotGroups:
    rows, at, values = _split(points)
    return group_dots(
        zip((row.progress for row in rows), write_dots(x.place_all(at), y.place_all(values)), strict=True)
    )


def _list_purchases(improved: Sequence[tuple[TrialRow, float, float]]) -> Iterator[Purchase]:
    before: tuple[float, float] | None = None
    for row, spent, value in improved:
        since, gain = (spent - before[0], _format_gain(before[1], value)) if before else (spent, "")
        yield Purchase(row, spent, since, value, gain)
        before = spent, value


def _sum_up(plot: Plot, spent: SpentSoFar) -> str:
    """What the last resources have bought, and when the best came."""
    part = f"{_format_share(LAST_SHARE)} of the {spent.resource.name}"
    early = [value for _, at, value in plot.steps if at <= (1 - LAST_SHARE) * spent.total]
    _, best_at, best = plot.steps[-1]
    if not early:
        first_at = plot.steps[0][1]
        return f"The first value came after {_format_share(first_at / spent.total)} of the {spent.resource.name}."
    if early[-1] != best:
        return f"The last {part} bought {_format_gain(early[-1], best)} {plot.y_label}."
    came = _format_share(best_at / spent.total)
    return f"The last {part} bought no better {plot.y_label}: the best value came after {came}."


def _format_share(share: float) -> str:
    return f"{100 * min(share, 1.0):.0f}\u00a0%"  # a line never breaks before the sign


def _format_gain(before: float, after: float) -> str:
    """A difference with its sign, and with the two digits that matter: +0.0004."""
    size = abs(after - before)
    text = f"{Decimal(f'{size:.2g}'):f}" if _LEAST_GAIN <= size < 1 else format_measure(size)
    return f"{'+' if after > before else '−'}{text}"
