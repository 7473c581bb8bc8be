"""What results have cost: the best value so far over the money, the GPU-hours or the training time spent."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate, repeat
from operator import add, mul, neg, sub
from typing import Any, NamedTuple

from podtune.api.resources.trial import Usage
from podtune.dashboard.charts.plots import Plot, collect_dots, draw_steps, find_improvements, fit_objective, write_dots
from podtune.dashboard.charts.scales import Scale
from podtune.dashboard.keeping import keep_by_trial, keep_chart
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
        gpu: How much of it an hour of a GPU takes.
        pod: The same of a pod's hour.
        training: The same of an hour of training.
        price: At which price, where it is money.
    """

    label: str
    name: str
    gpu: float = 0.0
    pod: float = 0.0
    training: float = 0.0
    price: str = ""

    def measure(self, usage: Usage) -> float:
        """How much of it a trial has used."""
        gpu, pod, training = self.gpu * usage.gpu_seconds, self.pod * usage.pod_seconds, usage.training_seconds
        return (gpu + pod + self.training * training) / _HOUR


class _Stretch(NamedTuple):
    """What a trial has used, from its start to its end.

    Attributes:
        rate: What it used in a second.
        lump: What it used at its end where it took no time.
    """

    start: float
    end: float
    rate: float
    lump: float


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
        by_place: By the trials' places; None for a trial without any time on record.
    """

    resource: SpentResource
    by_place: Sequence[float | None]
    total: float


@keep_chart
def draw_spending(experiment: ExperimentRows, price: GpuPrice = NO_PRICE) -> Spending | None:
    """Best value so far over what was spent; None where no trial has a value, or no usage is on record."""
    spent = add_spending(experiment, price)
    if spent is None:
        return None
    found = zip(experiment.rows, spent.by_place, strict=True)
    amounts = {place: at for place, (row, at) in enumerate(found) if at is not None and row.values[0] is not None}
    if not amounts:
        return None
    sign, metric, total = experiment.signs[0], experiment.metrics[0], spent.total
    x, y = Scale(-0.02 * total, 1.02 * total), fit_objective(experiment)
    placed = sorted(amounts, key=amounts.__getitem__)
    at, rows = [amounts[place] for place in placed], [experiment.rows[place] for place in placed]
    values = [row.values[0] or 0.0 for row in rows]
    steps = find_improvements(rows, at, values, sign)
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
        dots=collect_dots(rows, write_dots(x.place_all(at), y.place_all(values))),
        line=line,
        line_label="best so far",
        steps=improved,
        band=(x.place((1 - LAST_SHARE) * total), x.place(total)),
        band_label=f"last {_format_share(LAST_SHARE)} of the {spent.resource.name}",
    )
    text = _format_amount(total, price) if spent.resource.price else f"{format_hours(total)} {spent.resource.label}"
    return Spending(plot, spent.resource, total, text, _sum_up(plot, spent), list(_list_purchases(improved)))


@keep_chart
def add_spending(experiment: ExperimentRows, price: GpuPrice = NO_PRICE) -> SpentSoFar | None:
    """What was spent by the end of each trial; None where no usage is on record.

    A status has a trial's usage and no history of it. So it is spread evenly from the trial's start to its end, or to
    the latest moment on record for one that goes on; then what trials use side by side is counted side by side.
    """
    last = experiment.last_moment
    for resource in _list_resources(experiment.view.spec, price):
        amounts = _find_amount.read_all(experiment, resource)
        if last is not None and any(amounts):
            known = _spread.read_all(experiment, resource)
            stretches = [
                stretch or _spread_amount(row, amount, last)
                for stretch, row, amount in zip(known, experiment.rows, amounts, strict=True)
                if amount
            ]
            ends = [(row.ended or last) if row.started or row.ended else None for row in experiment.rows]
            return SpentSoFar(resource, _look_up(*_add_up(stretches), ends), sum(amounts))
    return None


@keep_by_trial
def _find_amount(row: TrialRow, resource: SpentResource) -> float:
    usage = row.view.status.usage
    return max(resource.measure(usage), 0.0) if usage is not None else 0.0


@keep_by_trial
def _spread(row: TrialRow, resource: SpentResource) -> _Stretch | None:
    """What a trial has used evenly over its time; None as long as it goes on."""
    return _spread_amount(row, _find_amount(row, resource), row.ended) if row.ended is not None else None


def _spread_amount(row: TrialRow, amount: float, end: float) -> _Stretch:
    start = row.started
    if start is None or start >= end:
        return _Stretch(end, end, 0.0, amount)
    return _Stretch(start, end, amount / (end - start), 0.0)


def _list_resources(spec: Mapping[str, Any], price: GpuPrice) -> Iterator[SpentResource]:
    """What may have been spent, what says most first: money where the manifest has a price, or somebody has set one."""
    label = f"money spent ({price.currency})" if price.currency else "money spent"
    for given in _find_prices((spec.get("stop") or {}).get("experiment") or ()):
        gpu, pod = (_read_price(given, name) for name in ("perGpuHour", "perPodHour"))
        prices = [(gpu, "GPU-hour"), (pod, "pod-hour")]
        told = " and ".join(f"{_format_amount(each, price)} per {unit}" for each, unit in prices if each)
        yield SpentResource(label, "money", gpu=gpu, pod=pod, price=f"{told}, as the manifest has it")
    if price.per_hour is not None:
        told = f"{_format_amount(price.per_hour, price)} per GPU-hour, the price that this dashboard was started with"
        yield SpentResource(label, "money", gpu=price.per_hour, price=told)
    yield SpentResource("GPU-hours", "GPU-hours", gpu=1.0)
    yield SpentResource("hours of training", "training time", training=1.0)


def _format_amount(amount: float, price: GpuPrice) -> str:
    return f"{format_measure(amount)}\u00a0{price.currency}" if price.currency else format_measure(amount)


def _find_prices(rules: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for rule in rules:
        if rule.get("cost"):
            yield rule["cost"]
        for group in ("all", "any"):
            yield from _find_prices(rule.get(group) or ())


def _read_price(budget: Mapping[str, Any], name: str) -> float:
    price = budget.get(name)
    return float(price) if isinstance(price, int | float) else 0.0


def _add_up(stretches: Sequence[_Stretch]) -> tuple[Sequence[float], Sequence[float]]:
    """Moments, and what had been spent by then. Thousands of trials go through each step of this as one list."""
    starts, ends, rates, lumps = zip(*stretches, strict=True)
    changes, amounts, at = [*rates, *map(neg, rates)], [*repeat(0.0, len(lumps)), *lumps], [*starts, *ends]
    order = sorted(range(len(at)), key=at.__getitem__)
    moments = [at[place] for place in order]
    # A sum of rates may end a little below 0.
    passed = map(max, accumulate([changes[place] for place in order], initial=0.0), repeat(0.0))
    spent = map(mul, passed, map(sub, moments, [moments[0], *moments]))
    return moments, list(accumulate(map(add, spent, [amounts[place] for place in order])))


def _look_up(moments: Sequence[float], sums: Sequence[float], ends: Sequence[float | None]) -> list[float | None]:
    """What had been spent at each end."""
    # Most ends are among the moments; of several at once, the last one counts.
    known: dict[float | None, float] = dict(zip(moments, sums, strict=True))
    return [known[end] if end in known else _look_up_between(moments, sums, end) for end in ends]


def _look_up_between(moments: Sequence[float], sums: Sequence[float], end: float | None) -> float | None:
    if end is None:
        return None
    place = bisect_right(moments, end)
    return sums[place - 1] if place else 0.0


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
