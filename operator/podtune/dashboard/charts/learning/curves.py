"""The learning curves of all trials in one chart, and of one trial beside the best."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain, islice

from podtune.dashboard.charts.learning.frame import (
    CurveAxes,
    Frame,
    Point,
    draw_line,
    fit_to_ends,
    list_metrics,
    read_points,
)
from podtune.dashboard.keeping import keep_by_trial, keep_chart
from podtune.dashboard.numbers import format_measure
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows, ShownState, TrialRow

MOST_POINTS = 24_000
"""So many points of curves are drawn: a page must not take megabytes."""
FIRST = 100
"""Of the best trials, and of those that failed, so many are drawn in any case."""
MOST_LISTED = 50
DENSE_CURVES = 120
"""With more curves than this, each is drawn thinner."""
_GOLDEN = 0.6180339887498949
_STEPS = 256
"""The share of the curves that is drawn changes in so many steps."""
_BUNDLE = 40
"""Strokes of one path don't add up, so many curves are drawn in several."""
_ORDER = (
    ShownState.STOPPED,
    ShownState.DONE,
    ShownState.PAUSED,
    ShownState.FAILED,
    ShownState.PENDING,
    ShownState.RUNNING,
)
"""What is drawn later lies on top."""


class _Claim(Enum):
    """Why a trial's curve is drawn even where there are very many."""

    NONE = auto()
    GOES_ON = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class DrawnCurve:
    """A trial with the points of its curve."""

    row: TrialRow
    points: Sequence[Point | None]

    @property
    def end(self) -> Point:
        """Its last point."""
        return next(point for point in reversed(self.points) if point is not None)


@dataclass(frozen=True, slots=True)
class CurveGroup:
    """Curves of trials that went the same way, as paths."""

    progress: ShownState
    label: str
    paths: Sequence[str]
    count: int


@dataclass(frozen=True, slots=True)
class CurvePlot:
    """Learning curves.

    Attributes:
        curves: Those that are drawn, the best trials first.
        total: How many there are.
        best: Path of the best trial's curve; empty where that has none.
        ends: Where those of failed trials end, in per cent of the box.
    """

    title: str
    axes: CurveAxes
    frame: Frame
    groups: Sequence[CurveGroup]
    curves: Sequence[DrawnCurve]
    total: int
    best: str
    ends: Sequence[Point]

    @property
    def is_dense(self) -> bool:
        """Whether its curves would hide each other."""
        return len(self.curves) > DENSE_CURVES


@keep_chart
def draw_curves(experiment: ExperimentRows, axes: CurveAxes) -> CurvePlot | None:
    """All trials' curves, or as many as a page can hold; None where no trial has one that can be drawn."""
    metric, sign = list_metrics(experiment)[axes.objective]
    counts = _count_points.read_all(experiment)
    chosen = _choose(experiment, counts)
    read = zip(chosen, _read_curve.read_some(experiment, chosen, axes), strict=True)
    drawn = {place: curve for place, curve in read if curve.points}
    if not drawn:
        return None
    extents = _measure.read_some(experiment, list(drawn), axes)
    ends, values = (list(chain.from_iterable(extent[part] for extent in extents)) for part in (0, 1))
    frame = fit_to_ends(ends, values, axes, metric, sign)
    shown = _rank(experiment, drawn.values())
    lines: defaultdict[ShownState, list[str]] = defaultdict(list)
    for place, line in zip(drawn, _draw_curve.read_some(experiment, list(drawn), axes, frame), strict=True):
        lines[experiment.rows[place].progress].append(line)
    best = next((curve for curve in shown if curve.row is experiment.best), None)
    return CurvePlot(
        title=f"Learning curves: {metric} over {'training time' if axes.by_time else 'iterations'}",
        axes=axes,
        frame=frame,
        groups=[_group(progress, lines[progress]) for progress in _ORDER if lines[progress]],
        curves=shown,
        total=len(counts) - counts.count(0),
        best=draw_line(best.points, frame) if best else "",
        ends=[
            frame.place_share((curve.end[0] / frame.unit, curve.end[1]))
            for curve in shown
            if curve.row.progress is ShownState.FAILED
        ],
    )


@keep_chart
def write_curve_points(experiment: ExperimentRows, axes: CurveAxes) -> str:
    """The curves of `draw_curves` as JSON, to name them under the pointer: see `write_items`."""
    plot = draw_curves(experiment, axes)
    if plot is None:
        return write_items((), ())
    return write_items(
        (plot.frame.x_label, plot.frame.y_label),
        ((curve.row, STATE_WORDS[curve.row.progress], curve.points) for curve in plot.curves),
        plot.frame,
    )


def write_items(
    labels: Sequence[str], curves: Iterable[tuple[TrialRow, str, Sequence[Point | None]]], frame: Frame | None = None
) -> str:
    """What a pointer can find in a chart.

    Each of `items` is a trial: its name, what became of it, the places of its points in the box, one array for each
    axis, and what they stand for, likewise. `labels` says what those numbers are.
    """
    items = []
    for row, word, points in curves:
        known = [(point[0] / (frame.unit if frame else 1.0), point[1]) for point in points if point is not None]
        places = [frame.place(point) for point in known] if frame else []
        numbers = [tuple(map(format_measure, point)) for point in known]
        items.append([row.name, word, *zip(*places, strict=True), *zip(*numbers, strict=True)])
    return json.dumps({"labels": labels, "items": items}, ensure_ascii=False, separators=(",", ":"))


def _choose(experiment: ExperimentRows, counts: Sequence[int]) -> list[int]:
    """The places of what is drawn: all, or those that go on, the best, some that failed, and a sample of the others.

    The sample depends on the trials' numbers, and on how many curves there is room for in steps: curves don't come and
    go while results come in.
    """
    known = [place for place, count in enumerate(counts) if count]
    total = sum(counts)
    if total <= MOST_POINTS:
        return known
    rows, claims = experiment.rows, _find_claim.read_all(experiment)
    best = {id(row) for row in islice((row for row in experiment.ranked if _count_points(row)), FIRST)}
    first = {place for place in known if id(rows[place]) in best}
    for claim, most in ((_Claim.GOES_ON, 3 * FIRST), (_Claim.FAILED, FIRST)):
        first.update([place for place in known if claims[place] is claim][:most])
    taken = sum(counts[place] for place in first)
    share = math.floor(_STEPS * max(MOST_POINTS - taken, 0) / max(total - taken, 1)) / _STEPS
    turns = _find_turn.read_all(experiment)
    return [place for place in known if turns[place] < share or place in first]


def _rank(experiment: ExperimentRows, drawn: Iterable[DrawnCurve]) -> list[DrawnCurve]:
    """The curves, the best trials first; those of trials without a value come last."""
    curves = {id(curve.row): curve for curve in drawn}
    ranked = [curve for row in experiment.ranked if (curve := curves.get(id(row))) is not None]
    return [*ranked, *(curve for curve in curves.values() if curve.row.values[0] is None)]


@keep_by_trial
def _read_curve(row: TrialRow, axes: CurveAxes) -> DrawnCurve:
    return DrawnCurve(row, read_points(row, axes))


@keep_by_trial
def _measure(row: TrialRow, axes: CurveAxes) -> tuple[tuple[float, float], Sequence[float]]:
    """Where a curve begins and ends, and its values."""
    known = [point for point in read_points(row, axes) if point is not None]
    at = [point[0] for point in known]
    return (min(at), max(at)), [point[1] for point in known]


@keep_by_trial
def _find_claim(row: TrialRow) -> _Claim:
    if row.progress in (ShownState.RUNNING, ShownState.PENDING):
        return _Claim.GOES_ON
    return _Claim.FAILED if row.progress is ShownState.FAILED else _Claim.NONE


@keep_by_trial
def _find_turn(row: TrialRow) -> float:
    """From 0 to 1, spread evenly over the trials: those below a share are an even sample."""
    return row.view.index * _GOLDEN % 1.0


@keep_by_trial
def _count_points(row: TrialRow) -> int:
    return row.view.status.curve.count if row.view.status.curve is not None else 0


@keep_by_trial
def _draw_curve(row: TrialRow, axes: CurveAxes, frame: Frame) -> str:
    return draw_line(read_points(row, axes), frame)


def _group(progress: ShownState, lines: Sequence[str]) -> CurveGroup:
    paths = ["".join(lines[first : first + _BUNDLE]) for first in range(0, len(lines), _BUNDLE)]
    return CurveGroup(progress, STATE_WORDS[progress], paths, len(lines))
