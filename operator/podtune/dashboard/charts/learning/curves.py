"""The learning curves of all trials in one chart, and of one trial beside the best."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain, islice
from typing import NamedTuple

from podtune.dashboard.charts.learning.frame import (
    CurveAxes,
    Frame,
    Point,
    draw_line,
    fit_to_ends,
    list_metrics,
    read_points,
)
from podtune.dashboard.charts.scales import spread_evenly
from podtune.dashboard.keeping import (
    BLOCK,
    keep_by_block,
    keep_by_choice,
    keep_by_trial,
    keep_by_trial_from,
    keep_chart,
    keep_summary,
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
_STEPS = 64
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
    """A trial with the points of its curve.

    Attributes:
        known: The points that are there.
        first: Where the curve begins on the x axis.
        last: Where it ends.
    """

    row: TrialRow
    points: Sequence[Point | None]
    known: Sequence[Point]
    first: float
    last: float

    @property
    def end(self) -> Point:
        """Its last point."""
        return self.known[-1]


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
        curves: Those that are drawn, by the trials' numbers.
        listed: The first of them, the best trials first.
        total: How many there are.
        best: Path of the best trial's curve; empty where that has none.
        ends: Where those of failed trials end, in per cent of the box.
    """

    title: str
    axes: CurveAxes
    frame: Frame
    groups: Sequence[CurveGroup]
    curves: Sequence[DrawnCurve]
    listed: Sequence[DrawnCurve]
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
    chosen = _choose(experiment)
    parts = [part for part in _collect_curves.read_all(experiment, chosen, axes) if part is not None]
    if not parts:
        return None
    ends = min(part.first for part in parts), max(part.last for part in parts)
    values = list(chain.from_iterable(part.values for part in parts))
    frame = fit_to_ends(ends, values, axes, metric, sign)
    shown = list(chain.from_iterable(part.curves for part in parts))
    listed = _list_first(experiment, shown, axes)
    best_row = experiment.best
    best = next((curve for curve in chain(listed, shown) if curve.row is best_row), None)
    return CurvePlot(
        title=f"Learning curves: {metric} over {'training time' if axes.by_time else 'iterations'}",
        axes=axes,
        frame=frame,
        groups=_join_lines(_bundle_lines.read_all(experiment, chosen, axes, frame)),
        curves=shown,
        listed=listed,
        total=sum(len(own) for _, own in _add_points.read_all(experiment)),
        best=draw_line(best.points, frame) if best else "",
        ends=[
            frame.place_share((curve.end[0] / frame.unit, curve.end[1]))
            for curve in chain.from_iterable(part.failed for part in parts)
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
        ((curve.row, STATE_WORDS[curve.row.progress], curve.points) for curve in _rank(experiment, plot.curves)),
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


def _choose(experiment: ExperimentRows) -> list[tuple[int, ...]]:
    """What is drawn: all, or those that go on, the best, some that failed, and a sample of the others.

    The sample depends on the trials' numbers, and on how many curves there is room for in steps: curves don't come and
    go while results come in.

    Returns:
        Of each block, the places of its trials in it.
    """
    counts = _add_points.read_all(experiment)
    total = sum(points for points, _ in counts)
    if total <= MOST_POINTS:
        return [own for _, own in counts]
    first, claims = set(_list_best(experiment)), _list_claims.read_all(experiment)
    for claim, most in ((_Claim.GOES_ON, 3 * FIRST), (_Claim.FAILED, FIRST)):
        first.update(islice(_list_places(own[claim] for own in claims), most))
    taken = sum(_count_points.read_some(experiment, list(first)))
    share = math.floor(_STEPS * max(MOST_POINTS - taken, 0) / max(total - taken, 1)) / _STEPS
    chosen = [*_sample(experiment, _order_turns.read_all(experiment), share)]
    added: dict[int, set[int]] = {}
    for place in first:
        added.setdefault(place // BLOCK, set()).add(place % BLOCK)
    for block, own in added.items():
        chosen[block] = tuple(sorted(own.union(chosen[block])))
    return chosen


@keep_chart
def _list_best(experiment: ExperimentRows) -> Sequence[int]:
    """The places of the best trials that have a curve, which are drawn in any case."""
    best = islice((row for row in experiment.ranked if _count_points(row)), FIRST)
    return [experiment.by_name.places[row.name] for row in best]


def _list_first(experiment: ExperimentRows, shown: Sequence[DrawnCurve], axes: CurveAxes) -> Sequence[DrawnCurve]:
    """Those that a table lists, the best trials first: mostly these are among the best of all."""
    best = [curve for curve in _read_curve.read_some(experiment, _list_best(experiment), axes) if curve.known]
    return best[:MOST_LISTED] if len(best) >= MOST_LISTED else list(islice(_rank(experiment, shown), MOST_LISTED))


def _list_places(blocks: Iterable[Sequence[int]]) -> Iterator[int]:
    """Places in an experiment, of places in each block."""
    return (number * BLOCK + at for number, own in enumerate(blocks) for at in own)


def _rank(experiment: ExperimentRows, drawn: Sequence[DrawnCurve]) -> Iterator[DrawnCurve]:
    """The curves, the best trials first; those of trials without a value come last."""
    curves = {id(curve.row): curve for curve in drawn}
    yield from filter(None, map(curves.get, map(id, experiment.ranked)))
    yield from (curve for curve in drawn if curve.row.values[0] is None)


@keep_by_trial
def _read_curve(row: TrialRow, axes: CurveAxes) -> DrawnCurve:
    points = read_points(row, axes)
    known: list[Point] = [*filter(None, points)]
    at = [place for place, _ in known] or [0.0]
    return DrawnCurve(row, points, known, min(at), max(at))


@keep_summary
def _sample(turns: Sequence[Sequence[tuple[float, int]]], share: float) -> Sequence[tuple[int, ...]]:
    """Of each block, the places of the trials whose turns are below a share."""
    return [tuple(sorted(at for _, at in own[: bisect_left(own, (share, 0))])) for own in turns]


class _CurvesPart(NamedTuple):
    """The curves of a block that are drawn.

    Attributes:
        first: Where the first one begins on the x axis.
        last: Where the last one ends.
        values: Of all their points.
        failed: Those of trials that failed.
    """

    curves: Sequence[DrawnCurve]
    first: float
    last: float
    values: Sequence[float]
    failed: Sequence[DrawnCurve]


@keep_by_choice(_read_curve)
def _collect_curves(curves: Sequence[DrawnCurve]) -> _CurvesPart | None:
    known = [curve for curve in curves if curve.known]
    if not known:
        return None
    return _CurvesPart(
        known,
        min(curve.first for curve in known),
        max(curve.last for curve in known),
        [value for curve in known for _, value in curve.known],
        [curve for curve in known if curve.row.progress is ShownState.FAILED],
    )


@keep_by_trial_from(_read_curve, shared=1)
def _draw_curve(curve: DrawnCurve, frame: Frame) -> tuple[ShownState, str]:
    return curve.row.progress, draw_line(curve.points, frame)


_Bundles = Mapping[ShownState, tuple[Sequence[str], int]]
"""Of some curves, by how far their trials are, paths and how many there are."""


@keep_by_choice(_draw_curve)
def _bundle_lines(lines: Sequence[tuple[ShownState, str]]) -> _Bundles:
    own: dict[ShownState, list[str]] = {}
    for progress, line in lines:
        if line:
            own.setdefault(progress, []).append(line)
    return {
        progress: (["".join(each[first : first + _BUNDLE]) for first in range(0, len(each), _BUNDLE)], len(each))
        for progress, each in own.items()
    }


def _join_lines(bundles: Sequence[_Bundles]) -> list[CurveGroup]:
    groups = []
    for progress in _ORDER:
        own = [bundle[progress] for bundle in bundles if progress in bundle]
        if own:
            paths = list(chain.from_iterable(paths for paths, _ in own))
            groups.append(CurveGroup(progress, STATE_WORDS[progress], paths, sum(count for _, count in own)))
    return groups


@keep_by_trial
def _count_points(row: TrialRow) -> int:
    return row.view.status.curve.count if row.view.status.curve is not None else 0


@keep_by_block(_count_points)
def _add_points(counts: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """How many points there are, and where in the block trials have a curve."""
    return sum(counts), tuple(at for at, count in enumerate(counts) if count)


@keep_by_trial
def _find_claim(row: TrialRow) -> _Claim:
    if not _count_points(row):
        return _Claim.NONE
    if row.progress in (ShownState.RUNNING, ShownState.PENDING):
        return _Claim.GOES_ON
    return _Claim.FAILED if row.progress is ShownState.FAILED else _Claim.NONE


@keep_by_block(_find_claim)
def _list_claims(claims: Sequence[_Claim]) -> Mapping[_Claim, Sequence[int]]:
    """Where trials are in their block, by their claims."""
    return {claim: [at for at, own in enumerate(claims) if own is claim] for claim in (_Claim.GOES_ON, _Claim.FAILED)}


@keep_by_trial
def _find_turn(row: TrialRow) -> float | None:
    """From 0 to 1, spread evenly over the trials: curves below a share are an even sample. None without a curve."""
    return spread_evenly(row.view.index) if _count_points(row) else None


@keep_by_block(_find_turn)
def _order_turns(turns: Sequence[float | None]) -> Sequence[tuple[float, int]]:
    """These turns one after the other, and where their trials are in the block."""
    return sorted((turn, at) for at, turn in enumerate(turns) if turn is not None)
