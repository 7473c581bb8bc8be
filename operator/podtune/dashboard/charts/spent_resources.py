"""What trials have used so far: money, GPU-hours or training time, by the end of each of them.

Trials that have ended, as have all others of their block, are added up once. What goes on, or lies beside what goes on,
is added to that: as a rule, all but a few trials have ended.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from operator import add, mul, neg, sub
from typing import Any, NamedTuple

from podtune.api.resources.trial import Usage
from podtune.dashboard.keeping import BLOCK, keep_by_block, keep_by_trial, keep_chart, keep_summary
from podtune.dashboard.numbers import format_measure
from podtune.dashboard.pricing import NO_PRICE, GpuPrice
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow

_HOUR = 3600


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


@dataclass(frozen=True, eq=False, slots=True)
class _SpendingCurve:
    """What had been spent when.

    Attributes:
        moments: When what is spent in a second changes, one after the other.
        sums: What had been spent by then.
        rates: What is spent in a second from then on.
    """

    moments: Sequence[float]
    sums: Sequence[float]
    rates: Sequence[float]

    def look_up(self, moment: float) -> float:
        """What had been spent by a moment."""
        place = bisect_right(self.moments, moment) - 1
        return self.sums[place] + self.rates[place] * (moment - self.moments[place]) if place >= 0 else 0.0

    def look_up_all(self, moments: Sequence[float | None]) -> list[float | None]:
        """The same for many, of which most are those of the curve; of several sums at once, the last one counts."""
        known: dict[float | None, float] = dict(zip(self.moments, self.sums, strict=True))
        return [
            known[moment] if moment in known else None if moment is None else self.look_up(moment) for moment in moments
        ]


@dataclass(frozen=True, slots=True)
class _UseBlock:
    """What some trials have used.

    Attributes:
        is_settled: Whether all of them have ended, so that it does not depend on the latest moment.
    """

    rows: Sequence[TrialRow]
    amounts: Sequence[float]
    total: float
    is_settled: bool


@dataclass(frozen=True, eq=False, slots=True)
class SettledUse:
    """What the trials of settled blocks have used, without all others.

    Attributes:
        by_place: What they had used at the end of each; None for all others.
        ordered: Their ends with places and rows, one after the other.
        ends: The ends alone.
    """

    curve: _SpendingCurve
    by_place: Sequence[float | None]
    ordered: Sequence[tuple[float, int, TrialRow]]
    ends: Sequence[float]


@dataclass(frozen=True, eq=False, slots=True)
class SpentSoFar:
    """What had been spent at the end of each trial, or by the latest moment on record.

    Attributes:
        by_place: By the trials' places; None for a trial without any time on record.
        settled: The part of trials that have ended, with all others of their blocks.
        kept: So many of these, the first ones, ended before any of the others has used anything.
        news: The places of all others.
    """

    resource: SpentResource
    by_place: Sequence[float | None]
    total: float
    settled: SettledUse
    kept: int
    news: Sequence[int]


@keep_chart
def add_spending(experiment: ExperimentRows, price: GpuPrice = NO_PRICE) -> SpentSoFar | None:
    """What was spent by the end of each trial; None where no usage is on record.

    A status has a trial's usage and no history of it. So it is spread evenly from the trial's start to its end, or to
    the latest moment on record for one that goes on; then what trials use side by side is counted side by side.
    """
    last = experiment.last_moment
    for resource in _list_resources(experiment.view.spec, price):
        blocks = _collect_uses.read_all(experiment, resource)
        total = sum(block.total for block in blocks)
        if last is not None and total > 0:
            return _add_blocks(experiment, resource, blocks, last, total)
    return None


def _add_blocks(
    experiment: ExperimentRows, resource: SpentResource, blocks: Sequence[_UseBlock], last: float, total: float
) -> SpentSoFar:
    """Adds what goes on, or lies beside what goes on, to what is settled."""
    settled = _add_settled(experiment, [block if block.is_settled else None for block in blocks])
    rest = [
        (number * BLOCK + at, row, amount)
        for number, block in enumerate(blocks)
        if not block.is_settled
        for at, (row, amount) in enumerate(zip(block.rows, block.amounts, strict=True))
    ]
    curve = _add_up([_spread(row, amount, row.ended or last) for _, row, amount in rest if amount])
    ends = [(row.ended or last) if row.started or row.ended else None for _, row, _ in rest]
    first = min([*curve.moments[:1], *(end for end in ends if end is not None)], default=math.inf)
    kept = bisect_left(settled.ends, first)
    by_place = [*settled.by_place[: len(experiment.rows)]]
    for moment, place, _ in settled.ordered[kept:]:
        by_place[place] = (by_place[place] or 0.0) + curve.look_up(moment)
    for (place, _, _), end, spent in zip(rest, ends, curve.look_up_all(ends), strict=True):
        by_place[place] = None if end is None or spent is None else spent + settled.curve.look_up(end)
    news = [*(place for _, place, _ in settled.ordered[kept:]), *(place for place, _, _ in rest)]
    return SpentSoFar(resource, by_place, total, settled, kept, news)


@keep_by_trial
def _find_amount(row: TrialRow, resource: SpentResource) -> tuple[TrialRow, float]:
    usage = row.view.status.usage
    return row, max(resource.measure(usage), 0.0) if usage is not None else 0.0


@keep_by_block(_find_amount)
def _collect_uses(uses: Sequence[tuple[TrialRow, float]]) -> _UseBlock:
    rows, amounts = tuple(row for row, _ in uses), tuple(amount for _, amount in uses)
    is_settled = all(row.ended is not None or (row.started is None and not amount) for row, amount in uses)
    return _UseBlock(rows, amounts, sum(amounts), is_settled)


@keep_summary
def _add_settled(blocks: Sequence[_UseBlock | None]) -> SettledUse:
    """What trials have used that have ended, as have all others of their block."""
    uses = [
        (number * BLOCK + at, row, amount)
        for number, block in enumerate(blocks)
        if block is not None
        for at, (row, amount) in enumerate(zip(block.rows, block.amounts, strict=True))
    ]
    curve = _add_up([_spread(row, amount, row.ended or 0.0) for _, row, amount in uses if amount])
    by_place: list[float | None] = [None] * (BLOCK * len(blocks))
    for (place, _, _), spent in zip(uses, curve.look_up_all([row.ended for _, row, _ in uses]), strict=True):
        by_place[place] = spent
    ordered = sorted((row.ended, place) for place, row, _ in uses if row.ended is not None)
    rows = {place: row for place, row, _ in uses}
    return SettledUse(
        curve, by_place, [(end, place, rows[place]) for end, place in ordered], [end for end, _ in ordered]
    )


def _spread(row: TrialRow, amount: float, end: float) -> _Stretch:
    """What a trial has used, evenly over its time."""
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
        told = " and ".join(f"{format_amount(each, price)} per {unit}" for each, unit in prices if each)
        yield SpentResource(label, "money", gpu=gpu, pod=pod, price=f"{told}, as the manifest has it")
    if price.per_hour is not None:
        told = f"{format_amount(price.per_hour, price)} per GPU-hour, the price that this dashboard was started with"
        yield SpentResource(label, "money", gpu=price.per_hour, price=told)
    yield SpentResource("GPU-hours", "GPU-hours", gpu=1.0)
    yield SpentResource("hours of training", "training time", training=1.0)


def format_amount(amount: float, price: GpuPrice) -> str:
    """Money for people."""
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


def _add_up(stretches: Sequence[_Stretch]) -> _SpendingCurve:
    """What had been spent when. Thousands of trials go through each step of this as one list."""
    if not stretches:
        return _SpendingCurve((), (), ())
    starts, ends, rates, lumps = zip(*stretches, strict=True)
    changes, amounts, at = [*rates, *map(neg, rates)], [*repeat(0.0, len(lumps)), *lumps], [*starts, *ends]
    order = sorted(range(len(at)), key=at.__getitem__)
    moments = [at[place] for place in order]
    # A sum of rates may end a little below 0.
    passed = list(map(max, accumulate([changes[place] for place in order], initial=0.0), repeat(0.0)))
    spent = map(mul, passed, map(sub, moments, [moments[0], *moments]))
    return _SpendingCurve(moments, list(accumulate(map(add, spent, [amounts[place] for place in order]))), passed[1:])
