"""The learning curves of a few trials in one chart, each known by its colour, its dashes and its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows, ShownState, TrialRow

HUES, DASHES = 5, 4
"""Having no common divisor, they make 20 pairs, and neighbours differ in both."""
_LINE = 4.6
"""Height of a name at a curve's end, in per cent of the box."""
_LETTER = 0.95
"""Width of a letter there, likewise."""
_LONGEST = 10
_ROUNDS = 40


@dataclass(frozen=True, slots=True)
class LineStyle:
    """How a trial's line looks, wherever it is shown."""

    hue: int
    dash: int


@dataclass(frozen=True, slots=True)
class ComparedCurve:
    """A trial's curve.

    Attributes:
        jumps: Where it went back, to the state of the trial that it cloned.
        end: Where it ends, in per cent of the box.
        label: What stands there: as much of the trial's name as tells it from the others.
        label_y: How far down that is, so that no name hides another.
    """

    row: TrialRow
    style: LineStyle
    points: Sequence[Point | None]
    path: str
    jumps: str
    end: Point
    label: str
    label_y: float

    @property
    def is_led_to(self) -> bool:
        """Whether the name stands so far from the curve's end that a line has to lead to it."""
        return abs(self.label_y - self.end[1]) > _LINE / 3

    @property
    def has_failed(self) -> bool:
        """Whether the trial failed where the curve ends."""
        return self.row.progress is ShownState.FAILED


@dataclass(frozen=True, slots=True)
class ComparedPlot:
    """The curves of the trials that have one, in the order of the comparison."""

    title: str
    axes: CurveAxes
    frame: Frame
    curves: Sequence[ComparedCurve]


def style_line(place: int) -> LineStyle:
    """The line of the trial at a place of a comparison."""
    return LineStyle(place % HUES, place % DASHES)


def draw_compared(
    experiment: ExperimentRows, rows: Sequence[TrialRow], styles: Mapping[str, LineStyle], axes: CurveAxes
) -> ComparedPlot | None:
    """The curves of some trials; None where none has one that can be drawn."""
    metric, sign = list_metrics(experiment)[axes.objective]
    drawn = [(row, points) for row in rows if (points := read_points(row, axes))]
    if not drawn:
        return None
    known = [[point for point in points if point] for _, points in drawn]
    last = [points[-1][1] for points in known]  # the axis may leave out first results, but no trial
    frame = fit_frame((point for points in known for point in points), axes, metric, sign, beside=last)
    ends = [frame.place_share((points[-1][0] / frame.unit, points[-1][1])) for points in known]
    labels = [shorten_name(row.name, experiment.view.name) for row, _ in drawn]
    return ComparedPlot(
        title=f"Learning curves: {metric} over {'training time' if axes.by_time else 'iterations'}",
        axes=axes,
        frame=frame,
        curves=[
            ComparedCurve(
                row=row,
                style=styles[row.name],
                points=points,
                path=draw_line(points, frame),
                jumps=draw_jumps(points, frame),
                end=end,
                label=label,
                label_y=label_y,
            )
            for (row, points), end, label, label_y in zip(drawn, ends, labels, spread_labels(ends, labels), strict=True)
        ],
    )


def write_compared_points(plot: ComparedPlot | None) -> str:
    """The curves as JSON, to name them under the pointer."""
    if plot is None:
        return write_items((), ())
    curves = ((curve.row, STATE_WORDS[curve.row.progress], curve.points) for curve in plot.curves)
    return write_items((plot.frame.x_label, plot.frame.y_label), curves, plot.frame)


def shorten_name(trial: str, experiment: str) -> str:
    """A trial's name without its experiment's, and cut where it is long."""
    short = trial.removeprefix(f"{experiment}-") or trial
    return short if len(short) <= _LONGEST else f"{short[: _LONGEST - 1]}…"


def spread_labels(ends: Sequence[Point], labels: Sequence[str]) -> list[float]:
    """How far down names stand: beside the ends of their curves, or as near as other names leave room.

    Args:
        ends: Where the curves end, in per cent of the box.
        labels: The names, which begin there.
    """
    ordered = sorted(range(len(ends)), key=lambda place: ends[place][1])
    spread = [end[1] for end in ends]

    def is_beside(one: int, other: int) -> bool:
        left, right = sorted((one, other), key=lambda place: ends[place][0])
        return ends[right][0] - ends[left][0] < _LETTER * (len(labels[left]) + 2)

    pairs = [
        (upper, lower) for at, upper in enumerate(ordered) for lower in ordered[at + 1 :] if is_beside(upper, lower)
    ]
    for _ in range(_ROUNDS):  # names in a crowd move apart, up and down alike
        for upper, lower in pairs:
            missing = max(_LINE - (spread[lower] - spread[upper]), 0.0)
            spread[upper] -= missing / 2
            spread[lower] += missing / 2
    for upper, lower in pairs:
        spread[lower] = max(spread[lower], max(spread[upper], 0.0) + _LINE)
    for upper, lower in reversed(pairs):
        spread[upper] = min(spread[upper], min(spread[lower], 100.0) - _LINE)
    return [round(min(max(y, 0.0), 100.0), 2) for y in spread]
