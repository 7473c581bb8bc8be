"""What schedulers decided at each rung: the values that trials came with, and the cutoffs that they had to reach."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

from podtune.api.names import DecisionKind
from podtune.api.resources.trial import LedgerEntry
from podtune.dashboard.charts.learning.frame import list_metrics
from podtune.dashboard.charts.scales import Scale, Tick, fit_to_most, loosen_scale, spread_evenly
from podtune.dashboard.keeping import keep_by_block, keep_by_trial, keep_by_trial_from, keep_chart
from podtune.dashboard.numbers import format_apart, read_finite
from podtune.dashboard.trial_rows import ExperimentRows, ShownState, TrialRow

WIDTH, HEIGHT = 2000, 1000
DENSE_MARKS = 600
"""With more trials at a rung than this, each is drawn smaller."""
_CUTOFFS = ("cutoff", "least")
"""What the cutoff is called in decisions: of ASHA, and of HyperBand."""


class RungMark(StrEnum):
    """What became of a trial at a rung."""

    CONTINUED = "continued"
    FINISHED = "finished"
    WAITING = "waiting"
    STOPPED = "stopped"


OUTCOME_WORDS = {
    RungMark.CONTINUED: "Continued",
    RungMark.FINISHED: "Finished",
    RungMark.WAITING: "Paused there",
    RungMark.STOPPED: "Stopped",
}


@dataclass(frozen=True, slots=True)
class TrialAtRung:
    """A trial at a rung.

    Attributes:
        cutoff: What it was compared with; None where it was with nothing, or that is no longer in its ledger.
        entry: The latest decision on it there; None where it is no longer in its ledger.
    """

    row: TrialRow
    rung: float
    value: float
    outcome: RungMark
    cutoff: float | None
    entry: LedgerEntry | None


Compared = tuple[str, int, float]
"""The age of a decision, and its cutoff."""


class _DrawnMark(NamedTuple):
    """A trial's mark.

    Attributes:
        compared: The age of that decision and its cutoff; None where it was compared with nothing.
    """

    outcome: RungMark
    path: str
    compared: Compared | None


class _Marks(NamedTuple):
    """The marks of some trials at one rung: their paths and how many there are, by outcome, and what is compared."""

    paths: Mapping[RungMark, str]
    counts: Mapping[RungMark, int]
    latest: Compared | None
    cutoffs: tuple[float, float] | None


class _RungValues(NamedTuple):
    """What some trials had at which rungs."""

    rungs: frozenset[float]
    values: Sequence[float]
    has_cutoff: bool


@dataclass(frozen=True, slots=True)
class RungStrip:
    """A rung.

    Attributes:
        paths: Marks of its trials, by outcome.
        cutoff: The latest one; None where none is on record.
        cutoffs: The least and the greatest one.
        counts: How many trials there are, by outcome.
    """

    rung: float
    paths: Mapping[RungMark, str]
    cutoff: float | None
    cutoffs: tuple[float, float] | None
    counts: Mapping[RungMark, int]

    @property
    def trials(self) -> int:
        """How many trials came there."""
        return sum(self.counts.values())

    def count(self, outcome: RungMark) -> int:
        """How many trials this became of."""
        return self.counts.get(outcome, 0)


@dataclass(frozen=True, slots=True)
class RungPlot:
    """All rungs, the first one first, on one scale."""

    metric: str
    x: Scale
    ticks: Sequence[Tick]
    strips: Sequence[RungStrip]
    is_dense: bool

    def place(self, value: float) -> float:
        """Where a value is, in per cent."""
        return round(100 * self.x.place(value), 2)

    def count(self, outcome: RungMark) -> int:
        """How many marks of a kind there are."""
        return sum(strip.count(outcome) for strip in self.strips)


@keep_chart
def write_rung_points(experiment: ExperimentRows, rung: float) -> str:
    """A rung's marks as JSON, to name them under the pointer; see `write_curve_points`."""
    plot = draw_rungs(experiment)
    _, sign = list_metrics(experiment)[0]
    results = chain.from_iterable(list_rung_results.read_all(experiment)) if plot else ()
    items = [
        [
            result.row.name,
            OUTCOME_WORDS[result.outcome],
            [round(plot.x.place(result.value) * WIDTH)],
            [place_across(result)],
            [describe_result(result, sign)],
        ]
        for result in results
        if plot is not None and result.rung == rung
    ]
    labels = [plot.metric if plot else ""]
    return json.dumps({"labels": labels, "items": items}, ensure_ascii=False, separators=(",", ":"))


@keep_chart
def draw_rungs(experiment: ExperimentRows) -> RungPlot | None:
    """The rungs; None where no decision on record has a cutoff to show."""
    found = _collect_values.read_all(experiment)
    if not any(block.has_cutoff for block in found):
        return None
    metric, sign = list_metrics(experiment)[0]
    x = loosen_scale(fit_to_most(list(chain.from_iterable(block.values for block in found)), sign))
    rungs = sorted(frozenset().union(*(block.rungs for block in found)))
    blocks = _join_marks.read_all(experiment, x)
    strips = [_make_strip(rung, [block[rung] for block in blocks if rung in block]) for rung in rungs]
    return RungPlot(metric, x, x.list_ticks(), strips, is_dense=max(strip.trials for strip in strips) > DENSE_MARKS)


@keep_by_trial
def list_rung_results(row: TrialRow) -> list[TrialAtRung]:
    """What was decided on a trial at rungs, the lowest first.

    The scheduler remembers the values of all rungs in the status; the decisions' other numbers are in the ledger, which
    keeps the latest ones only.
    """
    entries: dict[float, list[LedgerEntry]] = {}
    for entry in row.view.status.ledger:
        if (rung := read_finite(entry.inputs.get("rung"))) is not None:
            entries.setdefault(rung, []).append(entry)
    values = _read_values(row, entries)
    top = max(values, default=0.0)
    return [
        TrialAtRung(
            row=row,
            rung=rung,
            value=values[rung],
            outcome=_find_outcome(row, rung, entries.get(rung, ()), is_top=rung == top),
            cutoff=find_cutoff(entries.get(rung, ())),
            entry=next(reversed(entries.get(rung, ())), None),
        )
        for rung in sorted(values)
    ]


@keep_by_block(list_rung_results)
def _collect_values(results: Sequence[Sequence[TrialAtRung]]) -> _RungValues:
    known = list(chain.from_iterable(results))
    return _RungValues(
        frozenset(result.rung for result in known),
        [result.value for result in known],
        any(result.cutoff is not None for result in known),
    )


def find_cutoff(entries: Iterable[LedgerEntry]) -> float | None:
    """The latest cutoff that decisions name."""
    texts = (entry.inputs.get(name) for entry in entries for name in _CUTOFFS)
    found = [number for text in texts if (number := read_finite(text)) is not None]
    return found[-1] if found else None


def describe_result(result: TrialAtRung, sign: float) -> str:
    """Why it went on or was stopped, with the numbers: 0.6834 < cutoff 0.7333, of 59."""
    if result.cutoff is None:
        return format_apart(result.value)
    return compare_to_limit(result.value, result.cutoff, "cutoff", sign) + _count_peers(result.entry)


def compare_to_limit(value: float, limit: float, word: str, sign: float) -> str:
    """Two numbers and how they lie to each other: 0.8924 < cutoff 0.8927."""
    relation = ("≥" if value >= limit else "<") if sign > 0 else ("≤" if value <= limit else ">")
    return f"{format_apart(value, limit)} {relation} {word} {format_apart(limit, value)}"


def _count_peers(entry: LedgerEntry | None) -> str:
    texts = [entry.inputs.get(name) for name in ("peers", "arrived")] if entry is not None else []
    return next((f", of {text}" for text in texts if text), "")


def place_across(result: TrialAtRung) -> int:
    """How far down its strip a trial's mark is: spread evenly, and always in the same place."""
    return round(HEIGHT * (0.16 + 0.68 * spread_evenly(result.row.view.index)))


def _read_values(row: TrialRow, entries: Mapping[float, Sequence[LedgerEntry]]) -> dict[float, float]:
    told = {rung: read_finite(found[-1].inputs.get("value")) for rung, found in entries.items()}
    remembered = {
        rung: read_finite(text)
        for name, text in row.view.status.scheduler.get("rungs", {}).items()
        if (rung := read_finite(name)) is not None
    }
    return {rung: value for rung, value in (told | remembered).items() if value is not None}


def _find_outcome(row: TrialRow, rung: float, entries: Sequence[LedgerEntry], *, is_top: bool) -> RungMark:
    if is_top and row.progress is ShownState.STOPPED:
        return RungMark.STOPPED
    if is_top and row.progress is ShownState.DONE and (read_finite(row.view.status.progress) or 0.0) <= rung:
        return RungMark.FINISHED
    is_paused = bool(entries) and entries[-1].action == DecisionKind.PAUSE and not row.view.has_ended
    return RungMark.WAITING if is_top and is_paused else RungMark.CONTINUED


def _make_strip(rung: float, marks: Sequence[_Marks]) -> RungStrip:
    latest = [block.latest for block in marks if block.latest is not None]
    cutoffs = [block.cutoffs for block in marks if block.cutoffs is not None]
    paths = {outcome: "".join(block.paths.get(outcome, "") for block in marks) for outcome in RungMark}
    counts = {outcome: sum(block.counts.get(outcome, 0) for block in marks) for outcome in RungMark}
    return RungStrip(
        rung=rung,
        paths={outcome: path for outcome, path in paths.items() if path},
        cutoff=max(latest)[-1] if latest else None,
        cutoffs=(min(low for low, _ in cutoffs), max(high for _, high in cutoffs)) if cutoffs else None,
        counts=counts,
    )


@keep_by_trial_from(list_rung_results)
def _draw_marks(results: Sequence[TrialAtRung], x: Scale) -> Mapping[float, _DrawnMark]:
    """By rung, a dot, or a stroke for what was stopped, as not everybody sees colours."""
    return {result.rung: _draw_mark(result, x) for result in results}


def _draw_mark(result: TrialAtRung, x: Scale) -> _DrawnMark:
    at, across = round(x.place(result.value) * WIDTH), place_across(result)
    path = f"M{at} {across - 70}v140" if result.outcome is RungMark.STOPPED else f"M{at} {across}h0"
    if result.cutoff is None or result.entry is None:
        return _DrawnMark(result.outcome, path, None)
    return _DrawnMark(result.outcome, path, (result.entry.time, result.entry.number, result.cutoff))


@keep_by_block(_draw_marks)
def _join_marks(marks: Sequence[Mapping[float, _DrawnMark]]) -> Mapping[float, _Marks]:
    """Of some trials by rung; without those to which none of the trials came."""
    by_rung: dict[float, list[_DrawnMark]] = {}
    for own in marks:
        for rung, mark in own.items():
            by_rung.setdefault(rung, []).append(mark)
    return {rung: _join_rung(known) for rung, known in by_rung.items()}


def _join_rung(known: Sequence[_DrawnMark]) -> _Marks:
    paths: dict[RungMark, list[str]] = {}
    for mark in known:
        paths.setdefault(mark.outcome, []).append(mark.path)
    compared = [mark.compared for mark in known if mark.compared is not None]
    cutoffs = [cutoff for _, _, cutoff in compared]
    return _Marks(
        {outcome: "".join(own) for outcome, own in paths.items()},
        {outcome: len(own) for outcome, own in paths.items()},
        max(compared, default=None),
        (min(cutoffs), max(cutoffs)) if cutoffs else None,
    )
