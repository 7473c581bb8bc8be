"""What is drawn: a plot with dots for trials by how they went, and a line where there is one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from weakref import WeakKeyDictionary

from podtune.cli.views.formats import format_duration
from podtune.dashboard.charts.scales import Scale, Tick, fit_scale, fit_to_most
from podtune.dashboard.search_axes import SearchAxis
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows, ShownState, TrialRow

SIZE = 1000
"""Width and height of the box that is drawn in; it is stretched to what there is room for."""
MOST_SLICES = 24
SLICE = "slice:"
"""Before a parameter's name, in addresses."""
KEPT = 32
"""So many charts of a kind are kept."""
MANY = 1500
"""With more dots than this, each is drawn smaller."""
_sparklines: WeakKeyDictionary[ExperimentRows, str] = WeakKeyDictionary()
"""Of each experiment that the list may show, for as long as its rows are kept."""


@dataclass(frozen=True, slots=True)
class Dots:
    """Trials of one kind: a path with a stroke of no length for each."""

    progress: ShownState
    label: str
    path: str
    count: int


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart.

    Attributes:
        key: Its name in addresses.
        x_column: What lies along the x axis, as `columns.json` names it: a metric, a parameter, `#` for the trials'
            numbers, `@` for time or `$` for what was spent.
        x_ticks: What stands below the x axis.
        line: Path of the line; empty where there is none.
        band: Part of the x axis that is shaded, from 0 to 1.
    """

    key: str
    title: str
    x_label: str
    y_label: str
    x_column: str
    y_column: str
    x: Scale
    y: Scale
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    dots: Sequence[Dots]
    line: str = ""
    line_label: str = ""
    steps: Sequence[tuple[TrialRow, float, float]] = ()
    band: tuple[float, float] | None = None
    band_label: str = ""

    @property
    def is_dense(self) -> bool:
        """Whether its dots would hide each other."""
        return sum(dots.count for dots in self.dots) > MANY

    @property
    def step_path(self) -> str:
        """A dot for each trial that the line is about."""
        cells = dict.fromkeys(_to_box(self.x.place(at), self.y.place(to)) for _, at, to in self.steps)
        return "".join(f"M{x} {y}h0" for x, y in cells)


@lru_cache(maxsize=KEPT)
def draw_progress(experiment: ExperimentRows, *, by_time: bool) -> Plot | None:
    """Best value so far over trials or time; None as long as no trial has a value.

    A trial counts from its end on, and one that still runs from the latest moment on record.
    """
    start = min((row.started for row in experiment.rows if row.started is not None), default=None)
    last = experiment.last_moment
    if not experiment.ranked or (by_time and (start is None or last is None)):
        return None
    sign = experiment.signs[0]

    def find_hours(row: TrialRow) -> float:
        return ((row.ended or last or 0.0) - (start or 0.0)) / 3600

    if by_time:
        placed = sorted((find_hours(row), row.view.index, row) for row in experiment.ranked)
        points = [(hours, row) for hours, _, row in placed]
    else:
        points = sorted(((float(row.view.index), row) for row in experiment.ranked), key=lambda pair: pair[0])
    high = max(at for at, _ in points)
    x = Scale(-0.02 * (high or 1.0), (high or 1.0) * 1.02)
    y = fit_to_most([row.value or 0.0 for _, row in points], sign)
    steps = find_improvements(points, sign)
    return Plot(
        key="progress",
        title="Best value so far",
        x_label="hours since the start" if by_time else "number of the trial",
        y_label=experiment.metrics[0],
        x_column="@" if by_time else "#",
        y_column=experiment.metrics[0],
        x=x,
        y=y,
        x_ticks=_list_time_ticks(x) if by_time else [tick for tick in x.list_ticks() if "." not in tick.label],
        y_ticks=y.list_ticks(5),
        dots=collect_dots(((row, x.place(at), y.place(row.value or 0.0)) for at, row in points)),
        line=draw_steps([(x.place(at), y.place(value)) for _, at, value in steps]),
        line_label="best so far",
        steps=steps[:-1] if len(steps) > 1 and steps[-1][0] is steps[-2][0] else steps,
    )


def draw_slices(experiment: ExperimentRows) -> Sequence[Plot]:
    """The objective over each parameter, the first ones where there are very many."""
    if not experiment.ranked:
        return []
    return [_draw_slice(experiment, axis) for axis in experiment.axes[:MOST_SLICES]]


def find_slice(experiment: ExperimentRows, key: str) -> Plot | None:
    """One of them by its name in addresses, without the others; None where there is none."""
    axis = next((axis for axis in experiment.axes if f"{SLICE}{axis.name}" == key), None)
    return _draw_slice(experiment, axis) if axis is not None and experiment.ranked else None


@lru_cache(maxsize=KEPT)
def draw_front(experiment: ExperimentRows, first: int = 0, second: int = 1) -> Plot | None:
    """Two objectives against each other, with the front of the trials that none beats in both; None for just one."""
    if len(experiment.metrics) < 2:
        return None
    valued = [row for row in experiment.rows if row.values[first] is not None and row.values[second] is not None]
    if not valued:
        return None
    places = [(row, row.values[first] or 0.0, row.values[second] or 0.0) for row in valued]
    x, y = fit_scale(at for _, at, _ in places), fit_scale(at for _, _, at in places)
    signs = experiment.signs[first], experiment.signs[second]
    front = sorted(_find_front(places, signs), key=lambda entry: entry[1])
    return Plot(
        key="front",
        title=f"{experiment.metrics[first]} against {experiment.metrics[second]}",
        x_label=experiment.metrics[first],
        y_label=experiment.metrics[second],
        x_column=experiment.metrics[first],
        y_column=experiment.metrics[second],
        x=x,
        y=y,
        x_ticks=x.list_ticks(),
        y_ticks=y.list_ticks(5),
        dots=collect_dots(((row, x.place(at), y.place(to)) for row, at, to in places)),
        line=draw_steps([(x.place(at), y.place(to)) for _, at, to in front], is_upright=signs[0] > 0),
        line_label="Pareto front",
        steps=front,
    )


def draw_sparkline(experiment: ExperimentRows) -> str:
    """The best value so far over the trials as one path; empty with fewer than two values."""
    path = _sparklines.get(experiment)
    if path is None:
        path = _sparklines[experiment] = _draw_sparkline(experiment)
    return path


def _draw_sparkline(experiment: ExperimentRows) -> str:
    rows = sorted(experiment.ranked, key=lambda row: row.view.index)
    if len(rows) < 2:
        return ""
    points = [(float(row.view.index), row) for row in rows]
    steps = find_improvements(points, experiment.signs[0])
    x, y = Scale(points[0][0], points[-1][0]), fit_scale(value for _, _, value in steps)
    return draw_steps([(x.place(at), y.place(value)) for _, at, value in steps])


@lru_cache(maxsize=4)
def _fit_objective(experiment: ExperimentRows) -> Scale:
    return fit_to_most([row.value or 0.0 for row in experiment.ranked], experiment.signs[0])


@lru_cache(maxsize=3 * MOST_SLICES)
def _draw_slice(experiment: ExperimentRows, axis: SearchAxis) -> Plot:
    y = _fit_objective(experiment)
    places = [
        (row, at, row.value or 0.0)
        for row in experiment.ranked
        if (at := axis.find_position(row.view.parameters.get(axis.name))) is not None
    ]
    if axis.choices:
        x = Scale(-0.5, len(axis.choices) - 0.5)
        ticks = [Tick(x.place(place), choice) for place, choice in enumerate(axis.choices)]
    else:
        x = fit_scale((axis.low, axis.high), is_log=axis.is_log)
        ticks = x.list_ticks(4)
    return Plot(
        key=f"{SLICE}{axis.name}",
        title=f"{experiment.metrics[0]} over {axis.name}",
        x_label=axis.name,
        y_label=experiment.metrics[0],
        x_column=axis.name,
        y_column=experiment.metrics[0],
        x=x,
        y=y,
        x_ticks=ticks,
        y_ticks=y.list_ticks(4),
        dots=collect_dots(((row, x.place(at), y.place(to)) for row, at, to in places)),
    )


def find_improvements(points: Iterable[tuple[float, TrialRow]], sign: float) -> list[tuple[TrialRow, float, float]]:
    """The trials that were better than all before them, and the last point with what was best then."""
    steps: list[tuple[TrialRow, float, float]] = []
    last = 0.0
    for at, row in points:
        last = at
        if not steps or sign * (row.value or 0.0) > sign * steps[-1][2]:
            steps.append((row, at, row.value or 0.0))
    return [*steps, (steps[-1][0], last, steps[-1][2])] if steps and last > steps[-1][1] else steps


def _find_front(
    places: Sequence[tuple[TrialRow, float, float]], signs: tuple[float, float]
) -> Iterable[tuple[TrialRow, float, float]]:
    best: float | None = None
    for row, at, to in sorted(places, key=lambda entry: (-signs[0] * entry[1], -signs[1] * entry[2])):
        if best is None or signs[1] * to > signs[1] * best:
            best = to
            yield row, at, to


def collect_dots(places: Iterable[tuple[TrialRow, float, float]]) -> list[Dots]:
    """Dots by how far their trials are, each place once: more can't be seen."""
    found: dict[ShownState, dict[tuple[int, int], None]] = {progress: {} for progress in STATE_WORDS}
    counts = dict.fromkeys(STATE_WORDS, 0)
    for row, x, y in places:
        found[row.progress][_to_box(x, y)] = None
        counts[row.progress] += 1
    return [
        Dots(progress, STATE_WORDS[progress], "".join(f"M{x} {y}h0" for x, y in cells), counts[progress])
        for progress, cells in found.items()
        if cells
    ]


def draw_steps(points: Sequence[tuple[float, float]], *, is_upright: bool = False) -> str:
    """A line that keeps its height until the next point, or, where it is upright, goes to the next height at once."""
    (x, y), *others = [_to_box(*point) for point in points]
    return f"M{x} {y}" + "".join(f"V{y}H{x}" if is_upright else f"H{x}V{y}" for x, y in others)


def _to_box(x: float, y: float) -> tuple[int, int]:
    return round(x * SIZE), round((1 - y) * SIZE)


def _list_time_ticks(x: Scale) -> list[Tick]:
    hours = [tick for tick in x.list_ticks() if tick.place > 0]
    if x.high >= 2:
        return hours
    return [Tick(tick.place, format_duration(float(tick.label) * 3600), tick.is_minor) for tick in hours]
