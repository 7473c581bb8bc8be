"""Curves drawn with braille dots: each character has two by four of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from podtune.cli.views.numbers import choose_decimals, format_aligned

_BLANK = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Of the dots of a character, by row and column."""
_DOTS_ACROSS, _DOTS_DOWN = 2, 4
LETTERS = "abcdefghijkl"
"""What curves are called at their ends, where there are several."""


@dataclass(frozen=True, slots=True)
class PlottedCurve:
    """A curve: places and values in the order of time; what is not finite leaves a gap."""

    xs: Sequence[float]
    ys: Sequence[float]

    def list_points(self) -> Iterator[tuple[float, float]]:
        """Its points that can be drawn."""
        return ((x, y) for x, y in zip(self.xs, self.ys, strict=True) if math.isfinite(x) and math.isfinite(y))


@dataclass(frozen=True, slots=True)
class PlotLine:
    """A line of the picture: an axis' label, characters of which each belongs to a curve or to none, and a curve's end.

    Attributes:
        owners: By character, the number of the curve that it belongs to; None for none.
        end: The number of the curve that ends at this height.
    """

    label: str
    text: str
    owners: Sequence[int | None]
    end: int | None = None


@dataclass(slots=True)
class _Canvas:
    width: int
    height: int
    cells: dict[tuple[int, int], int] = field(default_factory=dict)
    owners: dict[tuple[int, int], int] = field(default_factory=dict)

    def draw(self, x: int, y: int, owner: int) -> None:
        """Sets a dot, counted from the top left."""
        place = (y // _DOTS_DOWN, x // _DOTS_ACROSS)
        self.cells[place] = self.cells.get(place, 0) | _BITS[y % _DOTS_DOWN][x % _DOTS_ACROSS]
        self.owners[place] = owner

    def draw_line(self, start: tuple[int, int], end: tuple[int, int], owner: int) -> None:
        """Sets all dots between two."""
        steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
        for step in range(steps + 1):
            share = step / steps
            self.draw(
                round(start[0] + share * (end[0] - start[0])), round(start[1] + share * (end[1] - start[1])), owner
            )


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float

    def place(self, value: float, last: int) -> int:
        """Which of the dots 0 to `last` stands for a value."""
        span = self.high / 2 - self.low / 2  # halved: the difference of the largest numbers is infinite
        return round((value / 2 - self.low / 2) / span * last) if span else last // 2


def plot_curves(curves: Sequence[PlottedCurve], width: int, height: int) -> list[PlotLine]:
    """Draws curves into one picture on common scales.

    Args:
        curves: At least one, with at least one point that can be drawn among them.
        width: Characters of a line.
        height: Lines, without the axis below.

    Returns:
        The lines from top to bottom, the last of them the axis.
    """
    points = [list(curve.list_points()) for curve in curves]
    x_scale = _span([x for each in points for x, _ in each])
    y_scale = _span([y for each in points for _, y in each])
    labels = _make_labels(y_scale, height)
    margin = max(map(len, labels.values())) + 1
    canvas = _Canvas(width - margin - (2 if len(curves) > 1 else 0) - 1, height)
    last_x, last_y = canvas.width * _DOTS_ACROSS - 1, height * _DOTS_DOWN - 1
    for owner, each in enumerate(points):
        dots = [(x_scale.place(x, last_x), last_y - y_scale.place(y, last_y)) for x, y in each]
        for start, end in pairwise(dots):
            canvas.draw_line(start, end, owner)
        for dot in dots[:1]:
            canvas.draw(*dot, owner)
    heights = [height - 1 - y_scale.place(each[-1][1], height - 1) if each else None for each in points]
    ends = _place_ends(heights, height)
    lines = [_make_line(canvas, row, labels.get(row, "").rjust(margin - 1), ends) for row in range(height)]
    return [*lines, *_make_axis(x_scale, margin, canvas.width)]


def _span(values: Sequence[float]) -> _Scale:
    return _Scale(min(values), max(values))


def _make_labels(scale: _Scale, height: int) -> dict[int, str]:
    """The values at the top, the bottom and between, by line."""
    rows = sorted({0, height // 2, height - 1}) if scale.low != scale.high else [height // 2]
    shares = [1 - row / max(height - 1, 1) for row in rows] if len(rows) > 1 else [0.0]
    values = [scale.low * (1 - share) + scale.high * share for share in shares]
    decimals = choose_decimals(values)
    return {row: format_aligned(value, decimals) for row, value in zip(rows, values, strict=True)}


def _place_ends(wanted: Sequence[int | None], height: int) -> dict[int, int]:
    """Which curve's letter stands in which line: where the curve ends, or as near as there is room."""
    if len(wanted) < 2:
        return {}
    taken: dict[int, int] = {}
    for owner, row in enumerate(wanted):
        free = sorted(set(range(height)) - taken.keys(), key=lambda each: abs(each - (row or 0)))
        if row is not None and free:
            taken[free[0]] = owner
    return taken


def _make_line(canvas: _Canvas, row: int, label: str, ends: dict[int, int]) -> PlotLine:
    places = [(row, column) for column in range(canvas.width)]
    text = "".join(chr(_BLANK + canvas.cells[place]) if place in canvas.cells else " " for place in places)
    return PlotLine(
        f"{label} ┤" if label.strip() else f"{label} │", text, [*map(canvas.owners.get, places)], ends.get(row)
    )


def _make_axis(scale: _Scale, margin: int, width: int) -> list[PlotLine]:
    decimals = choose_decimals([scale.low, scale.high])
    first, last = (format_aligned(value, decimals) for value in (scale.low, scale.high))
    below = f"{first}{last.rjust(width - len(first))}" if scale.low != scale.high else first.center(width)
    rule = PlotLine(f"{' ' * margin}└", "─" * width, [None] * width)
    return [rule, PlotLine(" " * (margin + 1), below, [None] * len(below))]
