"""Lengths of time for people."""

from __future__ import annotations

import pytest

from podtune.cli.views.formats import format_duration

DAY = 86400.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (45, "45s"),
        (750, "12m30s"),
        (18180, "5h03m"),
        (3 * DAY + 4 * 3600, "3d04h"),
        (10 * DAY - 1, "10d"),
        (27 * DAY + 5 * 3600, "27d"),
        (270.6 * DAY, "271d"),
    ],
)
def test_a_length_of_time_has_no_more_units_than_matter(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
