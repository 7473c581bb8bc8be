"""How long a pod is given to end by a deletion of ours."""

from __future__ import annotations

import pytest

from podtune.protocol.messages import Unstored
from podtune.runner.attempts.grace_periods import choose_for_deletion

WAITS = Unstored(since=7, seq=7, step=7, waits=True)
GIVEN_UP = Unstored(since=7, seq=7, step=7, waits=False)


@pytest.mark.parametrize("unstored", [None, GIVEN_UP])
def test_where_nothing_waits_to_be_stored_the_program_has_its_own_time(unstored: Unstored | None) -> None:
    assert choose_for_deletion(30, program_runs=True, heard=True, unstored=unstored) == 30


def test_where_something_does_or_that_is_not_known_the_pod_has_all_of_its_time() -> None:
    assert choose_for_deletion(30, program_runs=True, heard=True, unstored=WAITS) is None
    assert choose_for_deletion(30, program_runs=True, heard=False, unstored=None) is None


def test_an_agent_whose_program_has_ended_has_all_of_the_pods_time() -> None:
    assert choose_for_deletion(30, program_runs=False, heard=True, unstored=None) is None


def test_a_program_that_is_given_no_time_has_a_second() -> None:
    """0 would take the object away while the program runs."""
    assert choose_for_deletion(0, program_runs=True, heard=True, unstored=None) == 1
