"""What results have cost: the best value so far over the money, the GPU-hours or the training time spent."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

from podtune.api.resources.trial import Usage
from podtune.dashboard.charts.plots import KEPT, Plot, collect_dots, draw_steps, find_improvements
from podtune.dashboard.charts.scales import Scale, fit_to_most
from podtune.dashboard.numbers import format_hours, format_measure
from podtune.dashboard.pricing import NO_PRICE, GpuPrice
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow

LAST_SHARE = 0.1
"""What this last part of the resources has bought is said in a sentence."""
_HOUR = 3600
_LEAST_GAIN = 1e-6
"""Smaller differences are shown as powers of ten."""


@dataclass(frozen=True, slots=True)
class SpentResource:
    """What is spent.

    Attributes:
        label: What stands below the axis.
        name: What a sentence calls it.
        measure: How much of it a trial has used.
        price: At which price, where it is money.
    """

    label: str
    name: str
    measure: Callable[[Usage], float]
    price: str = ""


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


@dataclass(frozen=True, slots=True)
class SpentSoFar:
    """What had been spent at the end of each trial, or by the latest moment on record.

    Attributes:
        by_trial: By name; a trial without any time on record is not in it.
    """

    resource: SpentResource
    by_trial: Mapping[str, float]
    total: float


@lru_cache(maxsize=KEPT)
def draw_spending(experiment: ExperimentRows, price: GpuPrice = NO_PRICE) -> Spending | None:
    """Best value so far over what was spent; None where no trial has a value, or no usage is on record."""
    spent = add_spending(experiment, price)
    if spent is None:
        return None
    placed = [(spent.by_trial[row.name], row) for row in experiment.ranked if row.name in spent.by_trial]
    if not placed:
        return None
    points = sorted(placed, key=lambda pair: (pair[0], pair[1].view.index))
    sign, metric, total = experiment.signs[0], experiment.metrics[0], spent.total
    x = Scale(-0.02 * total, 1.02 * total)
    y = fit_to_most([row.value or 0.0 for _, row in points], sign)
    steps = find_improvements(points, sign)
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
        dots=collect_dots(((row, x.place(at), y.place(row.value or 0.0)) for at, row in points)),
        line=line,
        line_label="best so far",
        steps=improved,
        band=(x.place((1 - LAST_SHARE) * total), x.place(total)),
        band_label=f"last {_format_share(LAST_SHARE)} of the {spent.resource.name}",
    )
    text = _format_amount(total, price) if spent.resource.price else f"{format_hours(total)} {spent.resource.label}"
    return Spending(plot, spent.resource, total, text, _sum_up(plot, spent), list(_list_purchases(improved)))


@lru_cache(maxsize=KEPT)
def add_spending(experiment: ExperimentRows, price: GpuPrice = NO_PRICE) -> SpentSoFar | None:
    """What was spent by the end of each trial; None where no usage is on record.

    A status has a trial's usage and no history of it. So it is spread evenly from the trial's start to its end, or to
    the latest moment on record for one that goes on; then what trials use side by side is counted side by side.
    """
    last = experiment.last_moment
    used = [(row, row.view.status.usage) for row in experiment.rows if row.view.status.usage is not None]
    for resource in _list_resources(experiment.view.spec, price):
        amounts = [(row, amount) for row, usage in used if usage and (amount := resource.measure(usage)) > 0]
        if amounts and last is not None:
            by_moment = _add_up(amounts, last)
            ends = {row.name: row.ended or last for row in experiment.rows if row.started or row.ended}
            return SpentSoFar(resource, _look_up(by_moment, ends), sum(amount for _, amount in amounts))
    return None


def _list_resources(spec: Mapping[str, Any], price: GpuPrice) -> Iterator[SpentResource]:
    """What may have been spent, what says most first: money where the manifest has a price, or somebody has set one."""
    label = f"money spent ({price.currency})" if price.currency else "money spent"
    for given in _find_prices((spec.get("stop") or {}).get("experiment") or ()):
        gpu, pod = (_read_price(given, name) for name in ("perGpuHour", "perPodHour"))
        prices = [(gpu, "GPU-hour"), (pod, "pod-hour")]
        told = " and ".join(f"{_format_amount(each, price)} per {unit}" for each, unit in prices if each)
        yield SpentResource(label, "money", partial(_measure_money, gpu, pod), f"{told}, as the manifest has it")
    if price.per_hour is not None:
        told = f"{_format_amount(price.per_hour, price)} per GPU-hour, the price that this dashboard was started with"
        yield SpentResource(label, "money", partial(_measure_money, price.per_hour, 0.0), told)
    yield SpentResource("GPU-hours", "GPU-hours", lambda usage: usage.gpu_seconds / _HOUR)
    yield SpentResource("hours of training", "training time", lambda usage: usage.training_seconds / _HOUR)


def _format_amount(amount: float, price: GpuPrice) -> str:
    return f"{format_measure(amount)}\u00a0{price.currency}" if price.currency else format_measure(amount)


def _measure_money(gpu: float, pod: float, usage: Usage) -> float:
    return (usage.gpu_seconds * gpu + usage.pod_seconds * pod) / _HOUR


def _find_prices(rules: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for rule in rules:
        if rule.get("cost"):
            yield rule["cost"]
        for group in ("all", "any"):
            yield from _find_prices(rule.get(group) or ())


def _read_price(budget: Mapping[str, Any], name: str) -> float:
    price = budget.get(name)
    return float(price) if isinstance(price, int | float) else 0.0


def _add_up(amounts: Sequence[tuple[TrialRow, float]], last: float) -> list[tuple[float, float]]:
    """Moments, and what had been spent until then."""
    changes: list[tuple[float, float, float]] = []  # moment, change of what is spent in a second, what is spent at once
    for row, amount in amounts:
        end = row.ended or last
        if row.started is not None and row.started < end:
            rate = amount / (end - row.started)
            changes += [(row.started, rate, 0.0), (end, -rate, 0.0)]
        else:
            changes.append((end, 0.0, amount))
    spent, rate, at = 0.0, 0.0, 0.0
    found: list[tuple[float, float]] = []
    for moment, change, amount in sorted(changes):
        spent += max(rate, 0.0) * (moment - at) + amount  # a sum of rates may end a little below 0
        rate, at = rate + change, moment
        found.append((moment, spent))
    return found


def _look_up(by_moment: Sequence[tuple[float, float]], ends: Mapping[str, float]) -> dict[str, float]:
    """What had been spent at the end of each trial."""
    moments, sums = [moment for moment, _ in by_moment], [0.0, *(spent for _, spent in by_moment)]
    return {name: sums[bisect_right(moments, end)] for name, end in ends.items()}


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
