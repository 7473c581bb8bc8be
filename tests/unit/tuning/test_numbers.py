from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.tuning.numbers import as_number, shorten, write_briefly


@pytest.mark.parametrize(
    ("value", "number"), [(3, 3.0), (0.5, 0.5), (True, 1.0), ("3", None), (None, None), (10**400, None)]
)
def test_what_is_a_number(value: object, number: float | None) -> None:
    assert as_number(value) == number


@pytest.mark.parametrize(
    ("value", "written"), [(27.0, "27"), (0.1 + 0.2, "0.3"), (1e-9, "1e-09"), (-math.inf, "-inf"), (math.nan, "nan")]
)
def test_numbers_are_brief(value: float, written: str) -> None:
    assert shorten(value) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.98888888, "0.9889"), (31.2449, "31.24"), (12480.4, "12480"), (128.0, "128"), (0.0, "0"), (-0.5, "-0.5"),
        (0.0000123456, "1.235e-5"), (1e-7, "1e-7"), (2.5e9, "2.5e9"), (math.inf, "inf"), (math.nan, "nan"),
    ],
)  # fmt: skip
def test_people_get_four_digits(value: float, written: str) -> None:
    assert write_briefly(value) == written


def test_thousands_may_stand_apart() -> None:
    assert write_briefly(12480.4, ",") == "12,480"


@given(value=st.floats(allow_nan=False), other=st.floats(allow_nan=False))
def test_two_numbers_in_a_sentence_can_be_told_apart(value: float, other: float) -> None:
    assert (shorten(value, other) == shorten(other, value)) == (value == other)
