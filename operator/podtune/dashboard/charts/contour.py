"""Two parameters against each other: the mean of the objective by cells, with the trials as dots."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from podtune.dashboard.charts.importance.cases import ENDED_STATES, find_step
from podtune.dashboard.charts.plots import MANY, SIZE
from podtune.dashboard.charts.scales import Scale, Tick, fit_to_most, spread_evenly
from podtune.dashboard.keeping import keep_by_trial, keep_chart
from podtune.dashboard.numbers import format_measure
from podtune.dashboard.search_axes import SearchAxis
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow
from podtune.tuning.importance import count_cells

FINEST = 12
COARSEST = 4
"""Into so many cells an axis of numbers is divided, at most and at least."""
TRIALS_IN_CELL = 2.5
"""So many trials would be in each cell if they were spread evenly; with fewer, most cells would be empty."""
LEVELS = 6
"""So many colours can be told from each other."""


@dataclass(frozen=True, slots=True)
class ContourCell:
    """A part of the plane that trials lie in.

    Attributes:
        x: Its left edge in the box that is drawn in.
        y: Its upper edge.
        level: How good its mean is, from 0 to 5.
        x_text: Its values, in words.
    """

    x: int
    y: int
    width: int
    height: int
    level: int
    mean: float
    count: int
    x_text: str
    y_text: str


@dataclass(frozen=True, slots=True)
class ContourAxis:
    """One of both parameters, in cells."""

    name: str
    scale: Scale
    ticks: Sequence[Tick]
    texts: Sequence[str]
    axis: SearchAxis

    @property
    def spread(self) -> int:
        """Over how many cells dots are spread beside their middles; 0 for numbers, whose dots lie where they are."""
        return len(self.texts) if self.axis.choices else 0

    def find_cell(self, value: float) -> int:
        """In which cell a value is."""
        return min(int(self.scale.place(value) * len(self.texts)), len(self.texts) - 1)


@dataclass(frozen=True, slots=True)
class Contour:
    """The chart.

    Attributes:
        cells: Those with trials, the best first.
        dots: Path of the trials that are drawn.
        drawn: How many they are.
        trials: How many there are.
        worst: The mean at the scale's worse end.
        best: The mean at its better end.
        most: How many trials are drawn at most.
    """

    metric: str
    x: ContourAxis
    y: ContourAxis
    cells: Sequence[ContourCell]
    dots: str
    drawn: int
    trials: int
    worst: float
    best: float
    most: int = MANY

    @property
    def title(self) -> str:
        """What it shows."""
        return f"{self.metric} over {self.x.name} and {self.y.name}"


@keep_chart
def draw_contour(experiment: ExperimentRows, place: int, x_name: str, y_name: str) -> Contour | None:
    """The mean of an objective over two parameters; None where no ended trial has both and a value.

    Args:
        experiment: Whose trials.
        place: Which of its objectives, from 0.
        x_name: The parameter to the right.
        y_name: The parameter upwards.
    """
    axes = {axis.name: axis for axis in experiment.axes}
    found = _find_places(experiment, place, axes[x_name], axes[y_name])
    if not found:
        return None
    count = min(max(round(math.sqrt(len(found) / TRIALS_IN_CELL)), COARSEST), FINEST)
    x, y = (divide_axis(experiment, axes[name], count) for name in (x_name, y_name))
    values: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    for _, at, to, value in found:
        values[x.find_cell(at), y.find_cell(to)].append(value)
    means = {cell: sum(own) / len(own) for cell, own in values.items()}
    sign = experiment.signs[place]
    colours = _fit_colours(list(means.values()), sign)
    cells = [
        _make_cell(x, y, cell, mean=mean, count=len(values[cell]), goodness=_find_goodness(mean, colours, sign))
        for cell, mean in means.items()
    ]
    shown = sorted(found, key=lambda each: -sign * each[3])[:MANY]
    ends = (colours.low, colours.high) if sign > 0 else (colours.high, colours.low)
    return Contour(
        metric=experiment.metrics[place],
        x=x,
        y=y,
        cells=sorted(cells, key=lambda cell: -sign * cell.mean),
        dots=draw_dots(x, y, [(row, at, to) for row, at, to, _ in shown]),
        drawn=len(shown),
        trials=len(found),
        worst=ends[0],
        best=ends[1],
    )


def _find_places(
    experiment: ExperimentRows, place: int, x: SearchAxis, y: SearchAxis
) -> list[tuple[TrialRow, float, float, float]]:
    """The ended trials that have both parameters and a value, with all three."""
    columns = (_find_position.read_all(experiment, axis) for axis in (x, y))
    return [
        (row, at, to, value)
        for row, at, to in zip(experiment.rows, *columns, strict=True)
        if at is not None
        and to is not None
        and row.progress in ENDED_STATES
        and (value := row.values[place]) is not None
    ]


@keep_by_trial
def _find_position(row: TrialRow, axis: SearchAxis) -> float | None:
    return axis.find_position(row.view.parameters.get(axis.name))


def divide_axis(experiment: ExperimentRows, axis: SearchAxis, most: int) -> ContourAxis:
    """Divides an axis: each choice has a cell, numbers have as many as are asked for, or one for each of a few."""
    if axis.choices:
        count = len(axis.choices)
        scale = Scale(-0.5, count - 0.5)
        ticks = [Tick(scale.place(place), choice, place % 2 == 1) for place, choice in enumerate(axis.choices)]
        return ContourAxis(axis.name, scale, ticks, axis.choices, axis)
    domains = experiment.view.spec.get("parameters") or ()
    step = next((find_step(each) for each in domains if each.get("name") == axis.name), None)
    values = most + 1 if step is None or axis.is_log else count_cells(axis.low, axis.high, step, is_log=False)
    if step is not None and values <= most:
        scale = Scale(axis.low - step / 2, axis.high + step / 2)
        texts = [format_measure(axis.low + place * step) for place in range(values)]
    else:
        scale = Scale(axis.low, axis.high, is_log=axis.is_log)
        edges = [format_measure(_find_edge(scale, place / most)) for place in range(most + 1)]
        texts = [f"{low} to {high}" for low, high in pairwise(edges)]
    return ContourAxis(axis.name, scale, scale.list_ticks(5), texts, axis)


def _find_edge(scale: Scale, at: float) -> float:
    if scale.is_log:
        return float(scale.low * (scale.high / scale.low) ** at)
    return scale.low + (scale.high - scale.low) * at


def _fit_colours(means: Sequence[float], sign: float) -> Scale:
    """The scale of colours: it leaves out the worst twentieth, and has no margin."""
    scale = fit_to_most(means, sign)
    low, high = max(scale.low, min(means)), min(scale.high, max(means))
    return Scale(low, high) if high > low else scale


def _find_goodness(mean: float, colours: Scale, sign: float) -> float:
    return colours.place(mean) if sign > 0 else 1 - colours.place(mean)


def _make_cell(
    x: ContourAxis, y: ContourAxis, cell: tuple[int, int], *, mean: float, count: int, goodness: float
) -> ContourCell:
    columns, rows = len(x.texts), len(y.texts)
    left, right = round(SIZE * cell[0] / columns), round(SIZE * (cell[0] + 1) / columns)
    lower, upper = round(SIZE * (1 - cell[1] / rows)), round(SIZE * (1 - (cell[1] + 1) / rows))
    return ContourCell(
        x=left,
        y=upper,
        width=right - left,
        height=lower - upper,
        level=min(int(goodness * LEVELS), LEVELS - 1),
        mean=mean,
        count=count,
        x_text=x.texts[cell[0]],
        y_text=y.texts[cell[1]],
    )


def draw_dots(x: ContourAxis, y: ContourAxis, places: Sequence[tuple[TrialRow, float, float]]) -> str:
    """A dot for each trial; those of choices stand beside each other, or hundreds would be one dot."""
    cells = dict.fromkeys(
        (place_dot(x, at, row.view.index), place_dot(y, to, row.view.index * 7)) for row, at, to in places
    )
    return "".join(f"M{round(at * SIZE)} {round((1 - to) * SIZE)}h0" for at, to in cells)


def place_dot(axis: ContourAxis, value: float, number: int) -> float:
    """Where a trial's dot is along an axis; its number says how far beside the middle of a choice."""
    place = axis.scale.place(value)
    if not axis.axis.choices:
        return place
    return place + (spread_evenly(number) - 0.5) * 0.6 / len(axis.texts)
