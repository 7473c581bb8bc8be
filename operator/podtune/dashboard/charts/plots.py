"""What is drawn: a plot with dots for trials by how they went, and a line where there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

from podtune.cli.views.formats import format_duration
from podtune.dashboard.charts.scales import Scale, Tick, fit_scale, fit_to_ranked, loosen_scale
from podtune.dashboard.keeping import keep_by_block, keep_by_trial, keep_chart
from podtune.dashboard.search_axes import SearchAxis
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows, ShownState, TrialRow

SIZE = 1000
"""Width and height of the box that is drawn in; it is stretched to what there is room for."""
MOST_SLICES = 24
SLICE = "slice:"
"""Before a parameter's name, in addresses."""
MANY = 1500
"""With more dots than this, each is drawn smaller."""
_ACROSS = [f"M{x} " for x in range(SIZE + 1)]
_DOWN = [f"{y}h0" for y in range(SIZE + 1)]
"""What dots are made of: a text of a place is not written thousands of times."""
Dot = tuple[ShownState, str]
"""How far a trial is, and its part of a path."""
DotGroups = Mapping[ShownState, tuple[Sequence[str], int]]
"""Of some trials, by how far they are, the dots and how many trials have one."""


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


@keep_chart
def draw_progress(experiment: ExperimentRows, *, by_time: bool) -> Plot | None:
    """Best value so far over trials or time; None as long as no trial has a value.

    A trial counts from its end on, and one that still runs from the latest moment on record.
    """
    rows: Sequence[TrialRow]
    if by_time:
        placed = _place_by_time(experiment)
        rows, at = [row for _, row in placed], [hour for hour, _ in placed]
    else:
        rows = list_leaders(experiment)
        at = [float(row.view.index) for row in rows]
    if not rows:
        return None
    values = [row.values[0] or 0.0 for row in rows]
    high = max(*at, 0.0) or 1.0  # an end may lie before all starts
    x = loosen_scale(Scale(-0.02 * high, 1.02 * high))
    y = fit_objective(experiment)
    steps = find_improvements(rows, at, values, experiment.signs[0])
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
        dots=collect_dots(rows, write_dots(x.place_all(at), y.place_all(values)))
        if by_time
        else _join_numbers(_write_numbers.read_all(experiment, x, y)),
        line=draw_steps([(x.place(at), y.place(value)) for _, at, value in steps]),
        line_label="best so far",
        steps=steps[:-1] if len(steps) > 1 and steps[-1][0] is steps[-2][0] else steps,
    )


def _place_by_time(experiment: ExperimentRows) -> list[tuple[float, TrialRow]]:
    """The trials that have a value by when they ended, in hours since the start; none where no time is on record."""
    start = min((row.started for row in experiment.rows if row.started is not None), default=None)
    if start is None:
        return []
    last, valued = experiment.last_moment or 0.0, [row for row in experiment.rows if row.value is not None]
    hours = [((row.ended or last) - start) / 3600 for row in valued]
    ordered = sorted(zip(hours, range(len(valued)), strict=True))
    return [(hour, valued[place]) for hour, place in ordered]


def fit_objective(experiment: ExperimentRows) -> Scale:
    """The scale of the first objective's values."""
    return loosen_scale(fit_to_ranked(experiment.ranked, lambda row: row.values[0] or 0.0))


def draw_slices(experiment: ExperimentRows) -> Sequence[Plot]:
    """The objective over each parameter, the first ones where there are very many."""
    if not experiment.ranked:
        return []
    return [_draw_slice(experiment, axis) for axis in experiment.axes[:MOST_SLICES]]


def find_slice(experiment: ExperimentRows, key: str) -> Plot | None:
    """One of them by its name in addresses, without the others; None where there is none."""
    axis = next((axis for axis in experiment.axes if f"{SLICE}{axis.name}" == key), None)
    return _draw_slice(experiment, axis) if axis is not None and experiment.ranked else None


@keep_chart
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
        dots=collect_dots(
            [row for row, _, _ in places],
            write_dots(x.place_all(at for _, at, _ in places), y.place_all(to for _, _, to in places)),
        ),
        line=draw_steps([(x.place(at), y.place(to)) for _, at, to in front], is_upright=signs[0] > 0),
        line_label="Pareto front",
        steps=front,
    )


@keep_chart
def draw_sparkline(experiment: ExperimentRows) -> str:
    """The best value so far over the trials as one path; empty with fewer than two values."""
    rows = list_leaders(experiment)
    if len(rows) < 2:
        return ""
    at = [float(row.view.index) for row in rows]
    steps = find_improvements(rows, at, [row.values[0] or 0.0 for row in rows], experiment.signs[0])
    x, y = Scale(at[0], at[-1]), fit_scale(value for _, _, value in steps)
    return draw_steps([(x.place(at), y.place(value)) for _, at, value in steps])


@keep_chart
def _draw_slice(experiment: ExperimentRows, axis: SearchAxis) -> Plot:
    y = fit_objective(experiment)
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
        dots=join_dots(_group_parameters.read_all(experiment, axis, x, y)),
    )


@keep_by_trial
def _draw_number(row: TrialRow, x: Scale, y: Scale) -> Dot | None:
    """A trial's value over its number; None where it has none."""
    return None if row.value is None else _draw_dot(row, x.place(float(row.view.index)), y.place(row.value))


@keep_by_trial
def _draw_parameter(row: TrialRow, axis: SearchAxis, x: Scale, y: Scale) -> Dot | None:
    """A trial's value over a parameter; None where it lacks one of them."""
    at = axis.find_position(row.view.parameters.get(axis.name))
    return None if at is None or row.value is None else _draw_dot(row, x.place(at), y.place(row.value))


def _draw_dot(row: TrialRow, x: float, y: float) -> Dot:
    return row.progress, write_dots([x], [y])[0]


def group_dots(dots: Iterable[Dot | None]) -> DotGroups:
    """Dots by how far their trials are, each place once."""
    found: dict[ShownState, list[str]] = {}
    for each in dots:
        if each is not None:
            found.setdefault(each[0], []).append(each[1])
    return {progress: (tuple(dict.fromkeys(own)), len(own)) for progress, own in found.items()}


@keep_by_block(_draw_number)
def _write_numbers(dots: Sequence[Dot | None]) -> Mapping[ShownState, tuple[str, int]]:
    """Dots over the trials' numbers: those of other blocks lie elsewhere, so each place is there once anyway."""
    return {progress: ("".join(own), count) for progress, (own, count) in group_dots(dots).items()}


def _join_numbers(groups: Sequence[Mapping[ShownState, tuple[str, int]]]) -> list[Dots]:
    joined = []
    for progress, label in STATE_WORDS.items():
        own = [group[progress] for group in groups if progress in group]
        if own:
            joined.append(Dots(progress, label, "".join(path for path, _ in own), sum(count for _, count in own)))
    return joined


_group_parameters = keep_by_block(_draw_parameter)(group_dots)


def join_dots(groups: Sequence[DotGroups]) -> list[Dots]:
    """The same of all blocks of trials."""
    joined = []
    for progress, label in STATE_WORDS.items():
        own = [group[progress] for group in groups if progress in group]
        if own:
            path = "".join(dict.fromkeys(chain.from_iterable(places for places, _ in own)))
            joined.append(Dots(progress, label, path, sum(count for _, count in own)))
    return joined


@keep_by_trial
def _score(row: TrialRow, sign: float) -> tuple[TrialRow, float] | None:
    return None if row.value is None else (row, sign * row.value)


@keep_by_block(_score)
def _pick_leaders(scores: Sequence[tuple[TrialRow, float] | None]) -> Sequence[TrialRow]:
    known = [each for each in scores if each is not None]
    best = list(accumulate((score for _, score in known), max))
    places = [place for place, now in enumerate(best) if place in (0, len(best) - 1) or now != best[place - 1]]
    return [known[place][0] for place in places]


@keep_chart
def list_leaders(experiment: ExperimentRows) -> Sequence[TrialRow]:
    """The trials that may have been better than all before them, and the first and the last one that have a value."""
    return list(chain.from_iterable(_pick_leaders.read_all(experiment, experiment.signs[0])))


def find_improvements(
    rows: Sequence[TrialRow], at: Sequence[float], values: Sequence[float], sign: float
) -> list[tuple[TrialRow, float, float]]:
    """The trials that were better than all before them, and the last point with what was best then.

    Args:
        rows: The trials, in their order.
        at: Where each is.
        values: The value of each.
        sign: 1 where high values are good, otherwise -1.
    """
    best = list(accumulate(values, max if sign > 0 else min))
    improved = [0, *(place for place, (before, now) in enumerate(pairwise(best), start=1) if before != now)]
    steps = [(rows[place], at[place], values[place]) for place in improved]
    return [*steps, (steps[-1][0], at[-1], steps[-1][2])] if at[-1] > steps[-1][1] else steps


def _find_front(
    places: Sequence[tuple[TrialRow, float, float]], signs: tuple[float, float]
) -> Iterable[tuple[TrialRow, float, float]]:
    best: float | None = None
    for row, at, to in sorted(places, key=lambda entry: (-signs[0] * entry[1], -signs[1] * entry[2])):
        if best is None or signs[1] * to > signs[1] * best:
            best = to
            yield row, at, to


def write_dots(x: Iterable[float], y: Iterable[float]) -> list[str]:
    """Dots by their places, to the right and upwards from 0 to 1."""
    return [_ACROSS[round(at * SIZE)] + _DOWN[round((1 - to) * SIZE)] for at, to in zip(x, y, strict=True)]


def collect_dots(rows: Iterable[TrialRow], dots: Iterable[str]) -> list[Dots]:
    """Dots by how far their trials are, each place once: more can't be seen."""
    return join_dots([group_dots((row.progress, dot) for row, dot in zip(rows, dots, strict=True))])


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
