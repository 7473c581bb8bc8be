from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from podtune.api.tuning.objective import Criterion
from podtune.tuning.pareto import ParetoFront, ParetoPoint

MODES = ("max", "min", "min")
CRITERIA = [Criterion(metric=f"m{place}", mode=mode) for place, mode in enumerate(MODES)]
VALUES = st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 3.0, math.inf, -math.inf, math.nan])] * 3), max_size=12)


def front(values: Sequence[Sequence[float]], order: Sequence[int] | None = None) -> ParetoFront:
    made = ParetoFront(CRITERIA)
    for trial in order or range(len(values)):
        made.add(ParetoPoint(trial, tuple(values[trial])))
    return made


def beats(one: Sequence[float], other: Sequence[float]) -> bool:
    """The definition: nowhere worse, and somewhere better."""
    better = [a > b if mode == "max" else a < b for mode, a, b in zip(MODES, one, other, strict=True)]
    worse = [a < b if mode == "max" else a > b for mode, a, b in zip(MODES, one, other, strict=True)]
    return any(better) and not any(worse)


@given(values=VALUES, data=st.data())
def test_in_whatever_order_it_is_what_no_other_trial_beats(
    values: list[tuple[float, float, float]], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(values))))
    numbers = [trial for trial, value in enumerate(values) if all(map(math.isfinite, value))]
    expected = {
        trial
        for trial in numbers
        if not any(beats(values[other], values[trial]) for other in numbers)
        and not any(values[other] == values[trial] for other in numbers if other < trial)
    }
    assert {point.trial for point in front(values, order).spread(100)} == expected


def test_it_says_whether_the_front_has_changed() -> None:
    made = ParetoFront(CRITERIA)
    assert made.add(ParetoPoint(0, (1, 1, 1)))
    assert not made.add(ParetoPoint(1, (1, 1, 1)))
    assert not made.add(ParetoPoint(2, (1, 2, 1)))
    assert not made.add(ParetoPoint(3, (math.nan, 0, 0)))
    assert made.add(ParetoPoint(4, (2, 1, 1)))
    assert [point.trial for point in made.spread(9)] == [4]


def test_of_many_the_ends_and_the_most_distant_ones_are_shown_best_first() -> None:
    line = [(place, place, 0.0) for place in (0.0, 1.0, 1.1, 1.2, 5.0, 5.1, 9.0)]
    shown = front(line).spread(4)
    assert [point.values[0] for point in shown] == [9.0, 5.1, 1.2, 0.0]


@given(values=VALUES, limit=st.integers(1, 12))
def test_what_is_shown_does_not_depend_on_the_order(values: list[tuple[float, float, float]], limit: int) -> None:
    backwards = front(values, range(len(values))[::-1])
    assert backwards.spread(limit) == front(values).spread(limit)
    assert len(backwards.spread(limit)) <= limit
