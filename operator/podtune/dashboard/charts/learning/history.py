"""A trial's learning curve from all its results, with no more points than can be seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from podtune.dashboard.charts.learning.frame import CurveAxes, Point
from podtune.dashboard.stores.history import StoredHistory

COLUMNS = 500
MOST_HISTORY_POINTS = 8 * COLUMNS
_FARTHEST = 1e150
"""What is beyond, or no number, has no place on a scale, which needs twice as much."""


def list_history_points(history: StoredHistory, axes: CurveAxes) -> list[Point]:
    """The points that axes can show, thinned out to what can be seen."""
    xs = history.seconds if axes.by_time else history.steps
    shown = [
        (x, y)
        for x, y in zip(xs, history.values[axes.objective], strict=True)
        if abs(x) < _FARTHEST and abs(y) < _FARTHEST and (x > 0 or not axes.is_log_x) and (y > 0 or not axes.is_log_y)
    ]
    return thin_out(shown, is_log=axes.is_log_x)


def thin_out(points: Sequence[Point], *, is_log: bool = False) -> list[Point]:
    """Leaves out points that a line through them does without.

    In each column of the picture the first, the last, the lowest and the highest point stay: a line through those
    covers what a line through all covers, and no spike is lost (M4: Jugel, Jerzak, Hackenbroich, Markl: A
    Visualization-Oriented Time Series Data Aggregation, PVLDB 7(10), 2014). Where a trial went back, its columns begin
    anew.

    Args:
        points: In order of time; x falls where the trial went back.
        is_log: Whether x lies on a logarithmic scale.
    """
    if len(points) <= 4 * COLUMNS:
        return list(points)
    columns = COLUMNS
    while columns:
        kept = [point for group in _group(points, columns, is_log=is_log) for point in _pick(group)]
        if len(kept) <= MOST_HISTORY_POINTS:
            return kept
        columns //= 2
    return list(points[:: -(-len(points) // MOST_HISTORY_POINTS)])  # it went back thousands of times


def _group(points: Sequence[Point], columns: int, *, is_log: bool) -> Iterator[list[Point]]:
    """Points that follow one another in one column."""
    places = [math.log(x) for x, _ in points] if is_log else [x for x, _ in points]
    low = min(places)
    factor = columns / ((max(places) - low) or 1.0)
    group: list[Point] = []
    at = -1
    for place, point in zip(places, points, strict=True):
        column = min(int((place - low) * factor), columns - 1)
        if group and (column != at or point[0] < group[-1][0]):
            yield group
            group = []
        at = column
        group.append(point)
    yield group


def _pick(group: Sequence[Point]) -> Iterator[Point]:
    """The first, the last, the lowest and the highest, in their order."""
    if len(group) <= 4:
        yield from group
        return
    numbers = range(len(group))
    lowest, highest = min(numbers, key=lambda at: group[at][1]), max(numbers, key=lambda at: group[at][1])
    yield from (group[at] for at in sorted({0, lowest, highest, len(group) - 1}))
