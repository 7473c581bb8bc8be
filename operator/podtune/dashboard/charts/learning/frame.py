"""What lies on the axes of learning curves, and where it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import cast

from podtune.dashboard.charts.scales import Scale, Tick, fit_scale, leave_out_worst, loosen_scale
from podtune.dashboard.keeping import keep_by_trial
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow

WIDTH, HEIGHT = 2000, 1000
"""The box that curves are drawn in; it is stretched to what there is room for."""
_LOWEST, _HIGHEST = -4.0, 5.0
"""Heights of the box; what is farther away is drawn there."""
_WORST = 0.05
"""Share of the values that the axis may leave out at its bad end: first results are often far off."""
_UNITS = ((7200.0, 3600.0, "hours"), (120.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))

_ITERATION = "iteration"
"""What stands below the x axis, unless that is a time."""
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class CurveAxes:
    """What an address asks for.

    Attributes:
        objective: Place of the objective among those that curves have.
        by_time: Whether training time lies along the x axis instead of iterations.
    """

    objective: int = 0
    by_time: bool = False
    is_log_x: bool = False
    is_log_y: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """Two scales with their names and numbers.

    Attributes:
        unit: How many of the x axis's own units its numbers stand for.
    """

    x: Scale
    y: Scale
    x_label: str
    y_label: str
    unit: float

    @property
    def x_ticks(self) -> Sequence[Tick]:
        """What stands below the x axis; there is no half of an iteration."""
        ticks = self.x.list_ticks(9 if self.x.is_log else 6)
        return [tick for tick in ticks if "." not in tick.label] if self.x_label == _ITERATION else ticks

    @property
    def y_ticks(self) -> Sequence[Tick]:
        """What stands beside the y axis."""
        return self.y.list_ticks(5)

    def place(self, point: Point) -> tuple[int, int]:
        """Where a point is in the box; what is beyond the y axis is outside."""
        return round(self.x.place(point[0]) * WIDTH), round((1 - self._place_freely(point[1])) * HEIGHT)

    def place_all(self, points: Sequence[Point]) -> list[tuple[int, int]]:
        """Where many points are."""
        if self.x.is_log or self.y.is_log:
            return [self.place(point) for point in points]
        left, width = self.x.low, self.x.high - self.x.low
        low, height = self.y.low, self.y.high - self.y.low
        placed = []
        for at, value in points:
            x, y = (at - left) / width, (value - low) / height
            # Comparisons, as min and max take as long as all the rest, and this is done for each point of a live page.
            x = 0.0 if x < 0.0 else 1.0 if x > 1.0 else x
            y = _LOWEST if y < _LOWEST else _HIGHEST if y > _HIGHEST else y
            placed.append((round(x * WIDTH), round((1 - y) * HEIGHT)))
        return placed

    def place_share(self, point: Point) -> Point:
        """The same in per cent of the box, for what is not stretched with it; never outside."""
        x, y = self.place(point)
        return round(100 * x / WIDTH, 2), round(min(max(100 * y / HEIGHT, 0.0), 100.0), 2)

    def _place_freely(self, value: float) -> float:
        low, high = self.y.low, self.y.high
        if self.y.is_log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, 1e-300))
        return min(max((value - low) / (high - low), _LOWEST), _HIGHEST)


def list_metrics(experiment: ExperimentRows) -> list[tuple[str, float]]:
    """What curves have values of, in their order: each metric with 1 where high values are good, otherwise -1."""
    training = (experiment.view.spec.get("evaluation") or {}).get("trainingObjective") or {}
    if training.get("metric"):
        return [(str(training["metric"]), 1.0 if training.get("mode") == "max" else -1.0)]
    return list(zip(experiment.metrics, experiment.signs, strict=True))


@keep_by_trial
def read_points(row: TrialRow, axes: CurveAxes) -> list[Point | None]:
    """A trial's curve as the axes show it, None where a value is missing; empty where nothing can be drawn."""
    curve = row.view.status.curve
    if curve is None or axes.objective >= curve.width:
        return []
    columns = curve.list_columns()
    x, y = columns[1 if axes.by_time else 0], columns[2 + axes.objective]
    points: list[Point | None] = list(zip(x, y, strict=True))
    if axes.is_log_x or axes.is_log_y or not all(map(math.isfinite, chain(x, y))):
        points = [point if point is not None and _is_shown(point, axes) else None for point in points]
    return points if any(points) else []


def _is_shown(point: Point, axes: CurveAxes) -> bool:
    x, y = point
    return math.isfinite(x) and math.isfinite(y) and (x > 0 or not axes.is_log_x) and (y > 0 or not axes.is_log_y)


def fit_frame(
    points: Iterable[Point], axes: CurveAxes, metric: str, sign: float, beside: Iterable[float] = ()
) -> Frame:
    """Scales on which points can be seen.

    Args:
        points: What is drawn.
        axes: How it is drawn.
        metric: What the values are.
        sign: 1 where high values are good, otherwise -1.
        beside: Other values that the y axis must hold.
    """
    placed = list(points)
    return fit_to_ends([at for at, _ in placed], [value for _, value in placed], axes, metric, sign, beside=beside)


def fit_to_ends(
    ends: Sequence[float],
    values: Sequence[float],
    axes: CurveAxes,
    metric: str,
    sign: float,
    *,
    beside: Iterable[float] = (),
) -> Frame:
    """The same for curves of which the x axis must hold the ends, and the y axis most values."""
    best = [max(values) if sign > 0 else min(values)] if values else []
    kept = leave_out_worst(values, sign, _WORST)
    longest = max(ends, default=1.0)
    unit, word = 1.0, _ITERATION
    if axes.by_time:
        unit, word = next((unit, f"{name} of training") for least, unit, name in _UNITS if longest >= least)
    low = min(ends, default=1.0) / unit if axes.is_log_x else 0.0
    high = max(longest / unit, low * 1.001, 1e-9)
    x = Scale(low * 0.97, high * 1.03, is_log=True) if axes.is_log_x else Scale(low, high * 1.01)
    y = fit_scale([*best, *kept, *beside], is_log=axes.is_log_y)
    return Frame(loosen_scale(x), loosen_scale(y), word, metric, unit)


def draw_line(points: Sequence[Point | None], frame: Frame) -> str:
    """A path through the points, in steps from one to the next.

    It leaves out what is missing, and begins anew where a trial went back, as those do that clone another one.
    """
    runs = [points] if all(points) else [list(run) for is_known, run in groupby(points, bool) if is_known]
    return "".join(_draw_steps(frame.place_all(_scale_x(run, frame.unit))) for run in runs)


def _scale_x(points: Sequence[Point | None], unit: float) -> Sequence[Point]:
    if unit == 1.0:
        return cast(Sequence[Point], points)
    return [(point[0] / unit, point[1]) for point in points if point is not None]


def _draw_steps(places: Sequence[tuple[int, int]]) -> str:
    """A path from one place to the next."""
    parts: list[str] = []
    before, down = math.inf, 0
    for x, y in places:
        if x < before:
            parts.append(f"M{x} {y}h0")
        elif x != before or y != down:
            parts.append(f"l{x - before} {y - down}")
        before, down = x, y
    return "".join(parts)


def draw_jumps(points: Sequence[Point | None], frame: Frame) -> str:
    """A path along which a trial went back, from what it left to where it went on."""
    known = [frame.place((point[0] / frame.unit, point[1])) for point in points if point is not None]
    return "".join(f"M{a} {b}L{x} {y}" for (a, b), (x, y) in pairwise(known) if x < a)
