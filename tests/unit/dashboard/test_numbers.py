"""Numbers and axes: what people read beside a chart."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.dashboard.charts.scales import Scale, fit_scale
from podtune.dashboard.numbers import (
    choose_decimals,
    format_aligned,
    format_bytes,
    format_hours,
    format_hours_column,
    format_measure,
    read_finite,
    round_in_text,
)
from podtune.dashboard.search_axes import MOST_CHOICES, OTHERS, make_axes


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.9888888888888889, "0.9889"),
        (31.24159, "31.24"),
        (12480.4, "12,480"),
        (1234.5, "1,234"),
        (64.0, "64"),
        (0.1, "0.1"),
        (0.0001, "1e-4"),
        (0.000123456, "1.235e-4"),
        (0.0, "0"),
        (-0.5, "-0.5"),
        (1.5e9, "1.5e9"),
        (None, "–"),
        (float("inf"), "inf"),
    ],
)
def test_a_measure_has_the_digits_that_matter(value: float | None, text: str) -> None:
    assert format_measure(value) == text


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("best accuracy 0.9375705437668115", "best accuracy 0.937571"),
        ("lr 5.203723538419113e-06 → 0.015231794448924843.", "lr 5.20372e-06 → 0.0152318."),
        (
            "11 of 12480 trials, 1200 of 12480 trials: seed 123456",
            "11 of 12,480 trials, 1,200 of 12,480 trials: seed 123456",
        ),
        ("all 10000 trials are done, sweep-10000 trials", "all 10,000 trials are done, sweep-10000 trials"),
        ("image 1.2.34567890 of v1.23456789, cutoff 0.61", "image 1.2.34567890 of v1.23456789, cutoff 0.61"),
    ],
)
def test_numbers_within_a_sentence_are_rounded(text: str, short: str) -> None:
    assert round_in_text(text) == short


def test_numbers_of_a_column_stand_one_below_the_other() -> None:
    values = [0.5, 0.98888, 0.0712]
    decimals = choose_decimals(values)
    assert [format_aligned(value, decimals) for value in values] == ["0.5000", "0.9889", "0.0712"]
    assert choose_decimals([16, 256]) == 0
    assert choose_decimals([1e-5, 2e-5]) is None


def test_no_number_of_a_column_is_rounded_to_nothing() -> None:
    values = [12.04, 0.0004]
    decimals = choose_decimals(values)
    assert [format_aligned(value, decimals) for value in values] == ["12.04", "4e-4"]


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (0, "0"),
        (0.00002, "<0.0001"),
        (0.00028, "0.00028"),
        (0.005, "0.0050"),
        (0.034, "0.034"),
        (0.42, "0.42"),
        (7.26, "7.3"),
        (1240.4, "1,240"),
        (None, "–"),
    ],
)
def test_hours_have_sensible_digits(hours: float | None, text: str) -> None:
    assert format_hours(hours) == text


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        ([0.5, 12.04, 0, None], ["0.50", "12.04", "0.00", "–"]),
        ([0.005, 0.0044, 0.0121], ["0.005", "0.004", "0.012"]),
        ([1240.4, 3.2, 0.0044], ["1,240", "3", "0.0044"]),
        ([0.00002, 0.0003], ["<0.0001", "0.00030"]),
        ([0, 0], ["0", "0"]),
    ],
)
def test_no_hours_of_a_column_are_rounded_to_nothing(column: list[float | None], texts: list[str]) -> None:
    assert format_hours_column(column) == texts


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e300", "", "fast", None])
def test_what_can_not_be_drawn_is_no_number(text: str | None) -> None:
    assert read_finite(text) is None


@pytest.mark.parametrize(
    ("scale", "labels"),
    [
        (Scale(0, 10), ["0", "2", "4", "6", "8", "10"]),
        (Scale(0.0, 0.02), ["0", "0.005", "0.01", "0.015", "0.02"]),
        (Scale(1e-5, 0.1, is_log=True), ["1e-5", "1e-4", "0.001", "0.01", "0.1"]),
        (Scale(2.0, 3.0, is_log=True), ["2", "2.2", "2.4", "2.6", "2.8", "3"]),
        (Scale(3.0, 180.0, is_log=True), ["5", "10", "20", "50", "100"]),
    ],
)
def test_ticks_are_round_numbers_within_the_scale(scale: Scale, labels: list[str]) -> None:
    ticks = scale.list_ticks()
    assert [tick.label for tick in ticks] == labels
    assert all(0 <= tick.place <= 1 for tick in ticks)


@pytest.mark.parametrize("values", [[], [0.0], [5.0, 5.0], [1e-300, 1e149], [-1e149, 1e149], [-3.0, 4.0]])
@pytest.mark.parametrize("is_log", [False, True])
def test_any_values_fit_their_scale(values: list[float], is_log: bool) -> None:
    scale = fit_scale(values, is_log=is_log)
    assert scale.high > scale.low
    assert all(0 <= scale.place(value) <= 1 for value in values)
    assert scale.list_ticks()


def axis(parameter: dict[str, Any], *values: str) -> Any:
    (made,) = make_axes([parameter], [{"x": value} for value in values])
    return made


def test_an_axis_reaches_beyond_its_domain_where_trials_do() -> None:
    made = axis({"name": "x", "float": {"min": 0.1, "max": 1, "scale": "log"}}, "0.5", "3")
    assert (made.low, made.high, made.is_log) == (0.1, 3.0, True)


def test_a_normal_parameter_has_the_ends_that_trials_have() -> None:
    made = axis({"name": "x", "normal": {"mean": 0, "stddev": 1}}, "-0.5", "1.5")
    assert (made.low, made.high, made.choices) == (-0.5, 1.5, ())


def test_choices_have_places_and_very_many_share_the_last() -> None:
    made = axis({"name": "x", "choice": {"values": [32, "big", True, [1, 2]]}}, "big", "unknown")
    assert made.choices == ("32", "big", "true", "[1,2]", "unknown")
    assert made.find_position("true") == 2
    many = axis({"name": "x", "choice": {"values": [f"v{number}" for number in range(500)]}}, "v499")
    assert len(many.choices) == MOST_CHOICES
    assert many.choices[-1] == OTHERS
    assert many.find_position("v499") == MOST_CHOICES - 1


def test_a_parameter_that_never_changes_has_no_axis() -> None:
    assert make_axes([{"name": "x", "fixed": {"value": 3}}], [{"x": "3"}]) == ()


def test_a_kind_of_a_newer_operator_has_an_axis_all_the_same() -> None:
    made = axis({"name": "x", "beta": {"a": 2, "b": 3}}, "0.25", "0.75")
    assert (made.low, made.high) == (0.25, 0.75)


@pytest.mark.parametrize(
    ("size", "written"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1536, "1.5 KiB"),
        (10 << 20, "10 MiB"),
        ((10 << 30) + (1 << 28), "10.25 GiB"),
        (5000 << 40, "5,000 TiB"),
    ],
)
def test_sizes_have_the_digits_that_matter(size: int, written: str) -> None:
    assert format_bytes(size) == written
