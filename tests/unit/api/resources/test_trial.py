from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.api.resources.trial import format_indexes


@pytest.mark.parametrize(
    ("indexes", "written"), [([], ""), ([4], "4"), ([3, 7, 8, 9, 11], "3,7-9,11"), ([1, 0], "0-1")]
)
def test_indexes_are_written_as_ranges(indexes: list[int], written: str) -> None:
    assert format_indexes(indexes) == written


@given(st.sets(st.integers(0, 200)))
def test_ranges_hold_just_the_indexes(indexes: set[int]) -> None:
    held: set[int] = set()
    for part in filter(None, format_indexes(indexes).split(",")):
        first, _, last = part.partition("-")
        held |= set(range(int(first), int(last or first) + 1))
    assert held == indexes
