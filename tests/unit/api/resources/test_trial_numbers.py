"""Numbers of proposals and of trials that people add never meet."""

from __future__ import annotations

import pytest

from podtune.api.resources.trial_numbers import (
    FIRST_ADDED,
    count_repeats,
    find_first_index,
    find_number,
    is_added,
    parse_added_index,
    read_index,
)


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("digits-100000", 100_000),
        ("digits-99999999", 99_999_999),
        ("digits-99999", None),
        ("digits-100000000", None),
        ("digits-0100000", None),
        ("digits-x-100000", None),
        ("other-100000", None),
        ("digits", None),
    ],
)
def test_the_index_of_an_added_trial_is_in_its_name(name: str, index: int | None) -> None:
    assert parse_added_index(name, "digits") == index
    assert read_index({"name": name, "spec": {"experiment": "digits"}}) == (-1 if index is None else index)


def test_an_added_trial_is_a_configuration_of_one() -> None:
    assert not is_added(FIRST_ADDED - 1)
    assert [find_number(index, 3) for index in (7, FIRST_ADDED)] == [2, FIRST_ADDED]
    assert [find_first_index(number, 3) for number in (2, FIRST_ADDED)] == [6, FIRST_ADDED]
    assert [count_repeats(index, 3) for index in (7, FIRST_ADDED)] == [3, 1]
