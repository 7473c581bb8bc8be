"""One trial's learning curve, with what was decided on it and the best trial's curve behind it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from podtune.api.names import DecisionKind
from podtune.api.resources.trial import LedgerEntry
from podtune.dashboard.charts.learning.curves import write_items
from podtune.dashboard.charts.learning.frame import (
    CurveAxes,
    Frame,
    Point,
    draw_jumps,
    draw_line,
    fit_frame,
    list_metrics,
    read_points,
)
from podtune.dashboard.charts.learning.rungs import compare_to_limit, draw_rungs, find_cutoff, list_rung_results
from podtune.dashboard.numbers import read_finite
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows, ShownState, TrialRow

AXES = CurveAxes()
_OF_DECISIONS = (AXES, CurveAxes(is_log_x=True))
MEDIAN = "median"
BEYOND = 2.5
"""The best trial's curve is shown so many times as far as the trial's own has come."""
_DONOR = "donor’s"
_STOP = DecisionKind.STOP
_STARTS = "stopped at "
"""How a decision's sentence begins before its reason."""
_TURNS: Mapping[str, str] = {
    _STOP: "stopped",
    DecisionKind.RETRY: "retried",
    DecisionKind.RESTART: "restarted",
    DecisionKind.EXPLOIT: "cloned another",
    DecisionKind.RESTORE: "restored",
    DecisionKind.RESUME: "resumed",
    DecisionKind.FAIL: "failed",
}
"""Decisions after which a trial goes on otherwise, or not at all."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A decision that compared the trial's value with a limit.

    Attributes:
        at: Where the value is, in per cent of the box.
        limit: How far down the limit is, likewise.
        sentence: The numbers.
    """

    entry: LedgerEntry
    at: Point
    limit: float
    sentence: str

    @property
    def is_end(self) -> bool:
        """Whether it stopped the trial."""
        return self.entry.action == _STOP


@dataclass(frozen=True, slots=True)
class Turn:
    """A decision after which the trial went on from elsewhere, at a place in per cent of the box."""

    entry: LedgerEntry
    x: float
    label: str


@dataclass(frozen=True, slots=True)
class TrialCurvePlot:
    """A trial's curve.

    Attributes:
        jumps: Where it went back, to the state of the trial that it cloned.
        best: Path of the best trial's curve; empty for the best trial, and where there is none.
        verdict: What ended the trial, where no comparison did; empty where nothing did but its program.
        end: Where a failed trial's curve ends, in per cent of the box.
    """

    row: TrialRow
    metrics: Sequence[tuple[str, float]]
    other: TrialRow | None
    frame: Frame
    line: str
    jumps: str
    best: str
    comparisons: Sequence[Comparison]
    turns: Sequence[Turn]
    verdict: str
    end: Point | None


@dataclass(frozen=True, slots=True)
class _Limit:
    """What a decision compared: the value, the limit and what that is, and what there is to add."""

    entry: LedgerEntry
    value: float
    limit: float
    word: str
    more: str = ""


def draw_trial_curve(experiment: ExperimentRows, row: TrialRow) -> TrialCurvePlot | None:
    """A trial's curve over its iterations, as its status has it; None where it has none."""
    own = read_points(row, AXES)
    return draw_given_curve(experiment, row, own, AXES) if own else None


def draw_given_curve(
    experiment: ExperimentRows, row: TrialRow, own: Sequence[Point | None], axes: CurveAxes
) -> TrialCurvePlot:
    """The same of points that are given, on any axes; decisions are there where what they compared can be.

    Args:
        experiment: The experiment.
        row: The trial.
        own: Its points on these axes, one at least.
        axes: How they are drawn.
    """
    metric, sign = list_metrics(experiment)[axes.objective]
    other = experiment.best if experiment.best is not row else None
    ends = [point for point in own if point is not None]
    reach = BEYOND * max(at for at, _ in ends)
    best = [point for point in read_points(other, axes) if point and point[0] <= reach] if other is not None else []
    ledger = row.view.status.ledger if axes in _OF_DECISIONS else ()
    compared = [found for entry in ledger if (found := _find_limit(experiment, row, entry))]
    judged = {found.entry.number for found in compared}
    beside = [*(number for found in compared for number in (found.value, found.limit)), *(value for _, value in ends)]
    frame = fit_frame([*ends, *best], axes, metric, sign, beside=beside)
    return TrialCurvePlot(
        row=row,
        metrics=list_metrics(experiment),
        other=other if best else None,
        frame=frame,
        line=draw_line(own, frame),
        jumps=draw_jumps(own, frame),
        best=draw_line(best, frame),
        comparisons=[_place_limit(found, frame, metric, sign) for found in compared],
        turns=[
            Turn(entry, frame.place_share((float(entry.step), frame.y.low))[0], _TURNS[entry.action])
            for entry in ledger
            if entry.action in _TURNS and (entry.action != _STOP or entry.number not in judged)
        ],
        verdict=_write_verdict(row, judged) if ledger else "",
        end=frame.place_share((ends[-1][0] / frame.unit, ends[-1][1])) if row.progress is ShownState.FAILED else None,
    )


def _place_limit(found: _Limit, frame: Frame, metric: str, sign: float) -> Comparison:
    compared = compare_to_limit(found.value, found.limit, found.word, sign)
    return Comparison(
        found.entry,
        frame.place_share((float(found.entry.step), found.value)),
        frame.place_share((float(found.entry.step), found.limit))[1],
        f"{'best ' if found.word == MEDIAN else ''}{metric} {compared}{found.more}",
    )


def write_trial_points(experiment: ExperimentRows, row: TrialRow) -> str:
    """The curves of `draw_trial_curve` as JSON, to read them under the pointer."""
    plot = draw_trial_curve(experiment, row)
    return write_given_points(plot, read_points(row, AXES), AXES) if plot is not None else write_items((), ())


def write_given_points(plot: TrialCurvePlot, own: Sequence[Point | None], axes: CurveAxes) -> str:
    """The same of `draw_given_curve`."""
    curves = [(plot.row, own)]
    if plot.other is not None:
        curves.append((plot.other, read_points(plot.other, axes)))
    items = ((row, STATE_WORDS[row.progress], points) for row, points in curves)
    return write_items((plot.frame.x_label, plot.frame.y_label), items, plot.frame)


def _find_limit(experiment: ExperimentRows, row: TrialRow, entry: LedgerEntry) -> _Limit | None:
    """What a decision compared; None where it compared nothing."""
    return _read_limit(entry) or _find_line(row, entry) or _find_rung_cutoff(experiment, row, entry)


def _read_limit(entry: LedgerEntry) -> _Limit | None:
    """A comparison whose numbers are all in the decision; the median rule has the best value so far."""
    value = read_finite(entry.inputs.get("value") or entry.inputs.get("best"))
    cutoff, word = find_cutoff((entry,)), "cutoff"
    for name, meaning in ((MEDIAN, MEDIAN), ("donorValue", _DONOR)):
        if cutoff is None:
            cutoff, word = read_finite(entry.inputs.get(name)), meaning
    return None if value is None or cutoff is None else _Limit(entry, value, cutoff, word)


def _find_line(row: TrialRow, entry: LedgerEntry) -> _Limit | None:
    """HyperBand's cutoff for the trial that came to a rung last and was ranked at once: its record has it."""
    line = row.view.status.scheduler.get("lines", {}).get(entry.inputs.get("rung", ""), "")
    value, least = read_finite(entry.inputs.get("value")), read_finite(line.partition(" by trial ")[0])
    if entry.action != _STOP or value is None or least is None:
        return None
    rank, arrived = entry.inputs.get("rank"), entry.inputs.get("arrived")
    return _Limit(entry, value, least, "cutoff", f", number {rank} of {arrived}" if rank and arrived else "")


def _find_rung_cutoff(experiment: ExperimentRows, row: TrialRow, entry: LedgerEntry) -> _Limit | None:
    """The latest cutoff at its rung, for a trial that was paused there and never promoted."""
    if entry.action != _STOP or row.progress is not ShownState.STOPPED or "rung" in entry.inputs:
        return None
    last, plot = next(reversed(list_rung_results(row)), None), draw_rungs(experiment)
    if last is None or plot is None or entry.number != row.view.status.ledger[-1].number:
        return None
    cutoff = next((strip.cutoff for strip in plot.strips if strip.rung == last.rung), None)
    if cutoff is None:
        return None
    inputs = last.entry.inputs if last.entry is not None else {}
    rank, arrived = inputs.get("rank"), inputs.get("arrived")
    return _Limit(
        entry,
        last.value,
        cutoff,
        "latest cutoff",
        f", number {rank} of {arrived} when paused" if rank and arrived else "",
    )


def _write_verdict(row: TrialRow, judged: Collection[int]) -> str:
    """The last decision's reason, if it stopped the trial without a comparison."""
    entry = next(reversed(row.view.status.ledger), None)
    if entry is None or entry.action != _STOP or entry.number in judged:
        return ""
    head, colon, reason = entry.message.partition(": ")
    return reason if colon and head.startswith(_STARTS) else entry.message
