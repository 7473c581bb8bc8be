"""Curves in braille dots."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.cli.views.plot import PlottedCurve, plot_curves


def write(curves: list[PlottedCurve], width: int = 24, height: int = 4) -> list[str]:
    return [f"{line.label}{line.text}" for line in plot_curves(curves, width, height)]


def test_a_straight_line_goes_from_corner_to_corner() -> None:
    lines = write([PlottedCurve([0, 1], [0, 1])])
    assert lines[0] == "1.000 ┤             ⣀⠤⠒⠉"
    assert lines[3].rstrip() == "0.000 ┤⣀⠤⠒⠉"
    assert lines[4] == "      └─────────────────"
    assert lines[5].split() == ["0", "1"]


def test_what_is_not_finite_has_no_dot() -> None:
    assert write([PlottedCurve([0, 1, 2, 3], [0, math.nan, math.inf, 1])]) == write([PlottedCurve([0, 3], [0, 1])])


def test_a_single_value_is_a_dot_in_the_middle() -> None:
    lines = write([PlottedCurve([5], [0.25])])
    assert sum(not character.isspace() for line in lines[:4] for character in line.split("│")[-1].split("┤")[-1]) == 1
    assert any(line.startswith("0.25") for line in lines)


numbers = st.floats(width=32)


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20), min_size=1, max_size=5),
    st.integers(40, 120),
    st.integers(8, 20),
)
def test_a_picture_has_the_size_that_is_asked_for(
    given_points: list[list[tuple[float, float]]], width: int, height: int
) -> None:
    curves = [PlottedCurve([x for x, _ in points], [y for _, y in points]) for points in given_points]
    if not any(any(curve.list_points()) for curve in curves):
        return
    lines = plot_curves(curves, width, height)
    assert len(lines) == height + 2
    assert all(len(line.label) + len(line.text) + (2 if line.end is not None else 0) <= width for line in lines)
    drawn = {index for index, curve in enumerate(curves) if any(curve.list_points())}
    assert {line.end for line in lines} - {None} == (drawn if len(curves) > 1 else set())
