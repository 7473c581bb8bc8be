"""The learning curves of all trials in one chart, and of one trial beside the best."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from podtune.dashboard.charts.learning.frame import (
    MOST_PLOTS,
    CurveAxes,
    Frame,
    Point,
    draw_line,
    fit_frame,
    list_metrics,
    read_points,
)
from podtune.dashboard.numbers import format_measure
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows, ShownState, TrialRow

MOST_POINTS = 24_000
"""So many points of curves are drawn: a page must not take megabytes."""
FIRST = 100
"""Of the best trials, and of those that failed, so many are drawn in any case."""
MOST_LISTED = 50
DENSE_CURVES = 120
"""With more curves than this, each is drawn thinner."""
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


@lru_cache(maxsize=MOST_PLOTS)
def draw_curves(experiment: ExperimentRows, axes: CurveAxes) -> CurvePlot | None:
    """All trials' curves, or as many as a page can hold; None where no trial has one that can be drawn."""
    metric, sign = list_metrics(experiment)[axes.objective]
    known = [row for row in experiment.rows if row.view.status.curve is not None]
    shown = [DrawnCurve(row, points) for row in _select(known, experiment) if (points := read_points(row, axes))]
    if not shown:
        return None
    frame = fit_frame((point for curve in shown for point in curve.points if point), axes, metric, sign)
    best = next((curve for curve in shown if curve.row is experiment.best), None)
    return CurvePlot(
        title=f"Learning curves: {metric} over {'training time' if axes.by_time else 'iterations'}",
        axes=axes,
        frame=frame,
        groups=[group for progress in _ORDER if (group := _group(shown, progress, frame)).count],
        curves=shown,
        total=len(known),
        best=draw_line(best.points, frame) if best else "",
        ends=[
            frame.place_share((curve.end[0] / frame.unit, curve.end[1]))
            for curve in shown
            if curve.row.progress is ShownState.FAILED
        ],
    )


@lru_cache(maxsize=MOST_PLOTS)
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


def _select(known: Sequence[TrialRow], experiment: ExperimentRows) -> list[TrialRow]:
    """What is drawn: all, or those that go on, the best, some that failed, and an even sample of the others."""
    rank = {row.view.index: place for place, row in enumerate(experiment.ranked)}
    ordered = sorted(known, key=lambda row: rank.get(row.view.index, len(rank)))
    if _count_points(ordered) <= MOST_POINTS:
        return ordered
    first = [row for row in ordered if row.progress in (ShownState.RUNNING, ShownState.PENDING)][: 3 * FIRST]
    first += ordered[:FIRST]
    first += [row for row in ordered if row.progress is ShownState.FAILED][:FIRST]
    chosen = {row.view.index for row in first}
    others = [row for row in ordered if row.view.index not in chosen]
    room = MOST_POINTS - _count_points(row for row in ordered if row.view.index in chosen)
    share = min(1.0, max(room, 0) / max(_count_points(others), 1))
    chosen |= {row.view.index for place, row in enumerate(others) if int((place + 1) * share) > int(place * share)}
    return [row for row in ordered if row.view.index in chosen]


def _count_points(rows: Iterable[TrialRow]) -> int:
    return sum(row.view.status.curve.count for row in rows if row.view.status.curve is not None)


def _group(curves: Sequence[DrawnCurve], progress: ShownState, frame: Frame) -> CurveGroup:
    lines = [draw_line(curve.points, frame) for curve in curves if curve.row.progress is progress]
    paths = ["".join(lines[first : first + _BUNDLE]) for first in range(0, len(lines), _BUNDLE)]
    return CurveGroup(progress, STATE_WORDS[progress], paths, len(lines))
