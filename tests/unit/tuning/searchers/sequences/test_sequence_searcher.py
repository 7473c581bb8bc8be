from __future__ import annotations

import pytest

from podtune.testing.searchers import propose
from podtune.testing.spaces import parameters
from podtune.tuning.searchers.base import Configuration, NoConfiguration, Observation, PendingTrial
from podtune.tuning.searchers.sequences.sequence_searcher import INFINITE_PATIENCE, PointSequence, SequenceSearcher
from podtune.tuning.searchers.spaces.active_space import ActiveSpace

SPACE = parameters({"name": "x", "int": {"min": 0, "max": 10**6}})


class Counting(PointSequence):
    """0, 1, 2, …, or 0, 0, 1, 1, 2, 2, …; remembers which points were looked at."""

    def __init__(self, length: int | None = None, *, doubled: bool = False) -> None:
        self.length = length
        self.is_distinct = not doubled
        self.looked_at: list[int] = []

    def point(self, index: int) -> Configuration:
        self.looked_at.append(index)
        return {"x": index if self.is_distinct else index // 2}


def sequence_searcher(points: PointSequence, *constraints: str) -> SequenceSearcher:
    return SequenceSearcher(ActiveSpace(SPACE, constraints), points)


def test_without_constraints_a_number_is_a_place() -> None:
    points = Counting()
    assert propose(sequence_searcher(points), 10**5) == {"x": 10**5}
    assert points.looked_at == [10**5]


def test_a_number_counts_what_is_of_use() -> None:
    proposed = sequence_searcher(Counting(), "x % 3 == 1").ask(4, [])
    assert (proposed.configuration, proposed.attributes) == ({"x": 13}, {"index": "13"})


def test_repetitions_are_left_out() -> None:
    searcher = sequence_searcher(Counting(10, doubled=True))
    assert [propose(searcher, number)["x"] for number in range(5)] == [0, 1, 2, 3, 4]
    assert searcher.ask(5, []) is None


@pytest.mark.parametrize("is_over", [True, False])
def test_after_a_restart_only_the_rest_of_a_sequence_is_gone_through(is_over: bool) -> None:
    uncut = sequence_searcher(Counting(), "x % 3 == 1")
    last, following = uncut.ask(200, []), uncut.ask(201, [])
    assert last is not None
    points = Counting()
    rebuilt = sequence_searcher(points, "x % 3 == 1")
    if is_over:
        rebuilt.tell(Observation(200, last.configuration, 1.0, 1, attributes=last.attributes))
    under_way = [] if is_over else [PendingTrial(200, last.configuration, last.attributes)]
    assert rebuilt.ask(201, under_way) == following
    assert min(points.looked_at) == 602
    assert rebuilt.ask(3, under_way) == uncut.ask(3, [])


def test_what_is_known_beforehand_is_left_out_of_what_is_finite() -> None:
    searcher = sequence_searcher(Counting(5))
    searcher.skip({"x": 1})
    searcher.skip({"x": 3})
    searcher.skip({"x": 77})
    assert [propose(searcher, number)["x"] for number in range(3)] == [0, 2, 4]
    assert searcher.ask(3, []) is None


def test_a_sequence_that_is_refused_for_too_long_is_given_up() -> None:
    points = Counting()
    with pytest.raises(
        NoConfiguration, match=r"in 1,000 tries: in 1,000 of them the constraint 'x > 5000' does not hold"
    ):
        sequence_searcher(points, "x > 5000").ask(0, [])
    assert len(points.looked_at) == INFINITE_PATIENCE
    assert propose(sequence_searcher(Counting(9000), "x > 5000"), 0) == {"x": 5001}


def test_an_end_without_anything_of_use_is_an_error_and_no_end() -> None:
    with pytest.raises(NoConfiguration, match="in 20 tries: in 20 of them the constraint 'x < 0' does not hold"):
        sequence_searcher(Counting(20), "x < 0").ask(0, [])
    searcher = sequence_searcher(Counting(20), "x < 2")
    assert [searcher.ask(number, []) is None for number in range(4)] == [False, False, True, True]
