"""Which parameters mattered as the search went on: their importance from the trials known at each tenth of the run."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from podtune.dashboard.charts.importance.cases import find_all_cells, list_valued_trials
from podtune.dashboard.charts.plots import SIZE
from podtune.dashboard.charts.scales import Scale, Tick
from podtune.dashboard.keeping import keep_chart
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow
from podtune.tuning.importance import LEAST_TRIALS, ParameterCells, estimate_importance

PARTS = 10
MOST_COURSES = 5
"""So many parameters have a line, those that matter most in the end; the table has more."""
MOST_IN_TABLE = 24
_LEAST_POINTS = 2
_LEAST_APART = 0.075
"""Between the names at the ends of two lines, as a part of the height."""
_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True)
class CoursePoint:
    """A part of the run.

    Attributes:
        part: Its end, from 0 to 1.
        trials: How many were known by then.
        shares: The importance of each parameter then; None where too few of the best trials had it.
    """

    part: float
    trials: int
    shares: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class CourseLine:
    """A parameter.

    Attributes:
        style: Number of its colour and dashes.
        end: Where the line ends, in percent from the top.
        label: Where its name stands, in percent from the top.
    """

    name: str
    style: int
    path: str
    end: float
    label: float


@dataclass(frozen=True, slots=True)
class ImportanceCourse:
    """The chart, and its table."""

    metric: str
    points: Sequence[CoursePoint]
    lines: Sequence[CourseLine]
    names: Sequence[str]
    left_out: int
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]

    @property
    def title(self) -> str:
        """What it shows."""
        return f"Importance for {self.metric} as the search went on"

    @property
    def has_gaps(self) -> bool:
        """Whether a line is broken, as too few of the best trials had its parameter then."""
        return any(point.shares[line.name] is None for line in self.lines for point in self.points)


def draw_importance_course(experiment: ExperimentRows, place: int) -> ImportanceCourse | None:
    """The importance at each tenth of the run, by PED-ANOVA; None where it is known at fewer than two of them.

    That takes a third of a second with 10,000 trials, so it is for a thread. It is computed once for each change.

    Args:
        experiment: Whose parameters.
        place: Which of its objectives, from 0.
    """
    with _one_at_a_time:
        return _draw(experiment, place)


@keep_chart
def _draw(experiment: ExperimentRows, place: int) -> ImportanceCourse | None:
    points = _measure_parts(experiment, place)
    if len(points) < _LEAST_POINTS:
        return None
    last = points[-1].shares
    names = sorted(last, key=lambda name: (-(last[name] or 0.0), name))
    top = max(share or 0.0 for name in names[:MOST_COURSES] for point in points if (share := point.shares[name]))
    x, y = Scale(points[0].part, points[-1].part), Scale(0.0, min(1.0, top * 1.08))
    lines = [_make_line(name, style, points, x, y) for style, name in enumerate(names[:MOST_COURSES]) if last[name]]
    return ImportanceCourse(
        metric=experiment.metrics[place],
        points=points,
        lines=_spread_labels(lines),
        names=names[:MOST_IN_TABLE],
        left_out=max(0, len(names) - MOST_IN_TABLE),
        x_ticks=[
            Tick(x.place(point.part), f"{100 * point.part:.0f}\u00a0%", number % 2 == 1)
            for number, point in enumerate(reversed(points))
        ],
        y_ticks=[Tick(y.place(tick), f"{100 * tick:.0f}\u00a0%") for tick in _list_shares(y.high)],
    )


def _measure_parts(experiment: ExperimentRows, place: int) -> list[CoursePoint]:
    """The importance from what was known at each tenth; parts with too few trials have none."""
    ended = [row for row in list_valued_trials(experiment, place) if row.ended is not None]
    starts = [row.started for row in experiment.rows if row.started is not None]
    if len(ended) < LEAST_TRIALS or not starts:
        return []
    # Sorted once as the estimate has it, so that it finds each part sorted.
    sign = experiment.signs[place]
    losses = {row.name: -sign * (row.values[place] or 0.0) for row in ended}
    ended.sort(key=lambda row: losses[row.name])
    cells = find_all_cells(experiment, ended)
    first, last = min(starts), max(row.ended or 0.0 for row in ended)
    points = []
    for number in range(1, PARTS + 1):
        until = first + (last - first) * number / PARTS if number < PARTS else last
        point = _measure_part(
            number / PARTS, [at for at, row in enumerate(ended) if (row.ended or 0.0) <= until], ended, cells, losses
        )
        if point is not None:
            points.append(point)
    return points


def _measure_part(
    part: float,
    known: Sequence[int],
    ended: Sequence[TrialRow],
    cells: Sequence[ParameterCells],
    losses: dict[str, float],
) -> CoursePoint | None:
    own = [ParameterCells(each.name, each.count, each.is_ordered, [each.cells[at] for at in known]) for each in cells]
    found = estimate_importance([losses[ended[at].name] for at in known], own, None)
    if found is None:
        return None
    return CoursePoint(part, found.trials, {each.name: each.share for each in found.importances})


def _make_line(name: str, style: int, points: Sequence[CoursePoint], x: Scale, y: Scale) -> CourseLine:
    """A line that is broken where the share is not known."""
    path, is_open = "", False
    for point in points:
        share = point.shares[name]
        if share is not None:
            place = f"{round(x.place(point.part) * SIZE)} {round((1 - y.place(share)) * SIZE)}"
            path += f"L{place}" if is_open else f"M{place}h0"  # one alone is a dot
        is_open = share is not None
    end = 100 * (1 - y.place(points[-1].shares[name] or 0.0))
    return CourseLine(name, style, path, end, end)


def _spread_labels(lines: Sequence[CourseLine]) -> list[CourseLine]:
    """The lines with names that don't lie on each other: each goes as far down as it must, or all go up together."""
    spread: list[CourseLine] = []
    least = 100 * _LEAST_APART
    for line in sorted(lines, key=lambda line: line.end):
        label = max(line.end, spread[-1].label + least) if spread else line.end
        spread.append(CourseLine(line.name, line.style, line.path, line.end, label))
    limit = 100.0
    for at in range(len(spread) - 1, -1, -1):
        line = spread[at]
        label = min(line.label, limit)
        spread[at] = CourseLine(line.name, line.style, line.path, line.end, label)
        limit = label - least
    return sorted(spread, key=lambda line: line.style)


def _list_shares(high: float) -> list[float]:
    step = next(step for step in (0.05, 0.1, 0.2, 0.25) if high / step <= 5 or step == 0.25)
    return [number * step for number in range(int(high / step + 1e-9) + 1)]
