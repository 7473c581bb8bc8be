"""The newest configurations under way, however many are paused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podtune.runner.search.proposals import PendingTrials
from podtune.tuning.searchers.base import PendingTrial

NUMBERS = st.lists(st.integers(0, 60), unique=True)


def unfinished(number: int) -> PendingTrial:
    return PendingTrial(number, {"x": number})


@given(
    begun=NUMBERS,
    ended=NUMBERS,
    more=NUMBERS,
    first=st.integers(0, 60),
    hidden=st.integers(0, 5),
    count=st.integers(0, 40),
)
def test_the_newest_are_shown_in_the_order_of_their_numbers(
    *, begun: list[int], ended: list[int], more: list[int], first: int, hidden: int, count: int
) -> None:
    under_way = PendingTrials()
    for number in (*begun, *begun[:3]):
        under_way.begin(unfinished(number))
    for number in ended:
        under_way.end(number)
    left = set(begun) - set(ended)
    assert all((number in under_way) is (number in left) for number in range(61))
    others = (left | set(more)) - set(range(first, first + hidden))
    wanted = [unfinished(number) for number in sorted(others)[-count:]] if count else []
    shown = under_way.list_newest(count, range(first, first + hidden), map(unfinished, more))
    assert list(shown) == wanted


class Untouchable(dict[int, PendingTrial]):
    """Counts how many are looked at."""

    looked_at = 0

    def get(self, number: int, default: object = None) -> PendingTrial:
        self.looked_at += 1
        return self[number]


def test_thousands_of_paused_trials_are_not_gone_through() -> None:
    under_way = PendingTrials()
    for number in range(5000):
        under_way.begin(unfinished(number))
    counting = Untouchable(under_way._by_number)
    under_way._by_number = counting
    assert [trial.number for trial in under_way.list_newest(10, range(4990, 5000))] == list(range(4980, 4990))
    assert counting.looked_at == 10
