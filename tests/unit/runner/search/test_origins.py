"""Which entry of `search.initial`, or which of the searcher's own, a proposal is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.api.resources.trial import ProposalRecord, ProposalSource, TrialSpec
from podtune.runner.search.origins import FreeNumbers, Origin, ProposalOrigins
from tests.unit.tuning.manifests import experiment

INTEGERS = [{"name": "units", "int": {"min": 1, "max": 99}}]


def make_origins(*units: int, known: Iterable[int] = ()) -> ProposalOrigins:
    initial: list[dict[str, Any]] = [
        {"parameters": {"units": value}, **({"results": {"accuracy": 0.5}} if value in known else {})}
        for value in units
    ]
    spec = experiment(parameters=INTEGERS, search={"maxTrials": 200, "initial": initial})
    return ProposalOrigins(spec.parameters, spec.search.initial)


def trial(number: int, units: int, **fields: Any) -> TrialSpec:
    proposal = ProposalRecord(number=number, **fields)
    return TrialSpec(experiment="e", index=number, parameters={"units": str(units)}, proposal=proposal)


def from_initial(place: int) -> Origin:
    return Origin(ProposalSource.INITIAL, place)


def from_searcher(position: int) -> Origin:
    return Origin(ProposalSource.SEARCHER, position)


def test_entries_come_first_and_the_searcher_counts_its_own_from_0() -> None:
    origins = make_origins(7, 8, 9, known=[8])
    assert origins.choose(range(99), range(4)) == (from_initial(0), from_initial(2), from_searcher(0), from_searcher(1))


def test_what_is_appended_comes_next_and_then_the_searcher_goes_on() -> None:
    origins = make_origins(7, 8)
    for number, origin in enumerate([from_initial(0), from_searcher(0), from_searcher(1)]):
        origins.record(number, origin)
    assert origins.open_entries == 1
    assert origins.choose(range(3, 99), range(3, 6)) == (from_initial(1), from_searcher(2), from_searcher(3))


def test_what_was_deleted_is_what_its_number_gets_again() -> None:
    origins = make_origins(7)
    for number, origin in ((0, from_searcher(0)), (2, from_initial(0)), (3, from_searcher(2))):
        origins.record(number, origin)
    unanswered = [1, *range(4, 99)]
    assert origins.choose(unanswered, range(1, 2)) == (from_searcher(1),)
    assert origins.choose(unanswered, range(4, 5)) == (from_searcher(3),)


def test_only_those_before_the_searchers_own_are_left_out() -> None:
    origins = make_origins(5, 6, 7)
    assert origins.list_first(range(99)) == (0, 1, 2)
    for number, origin in enumerate([from_initial(0), from_searcher(0), from_initial(1)]):
        origins.record(number, origin)
    assert origins.list_first(range(3, 99)) == (0,)


@pytest.mark.parametrize("grown", [[], [7]])
def test_trials_of_an_earlier_release_had_the_first_entries_first(grown: list[int]) -> None:
    origins = make_origins(5, 6, *grown)
    for number, units in enumerate([5, 6, 40, 41]):
        origins.record(number, origins.read(number, trial(number, units)))
    assert origins.by_number == {0: from_initial(0), 1: from_initial(1), 2: from_searcher(0), 3: from_searcher(1)}
    assert origins.open_entries == len(grown)


def test_a_trial_says_itself_where_it_comes_from() -> None:
    origins = make_origins(5)
    assert origins.read(3, trial(3, 5, source="Initial", position=0)) == from_initial(0)
    assert origins.read(0, trial(0, 5, source="Searcher", position=0)) == from_searcher(0)


@given(st.permutations(range(12)), st.integers(0, 12))
def test_numbers_are_free_until_they_are_taken(order: list[int], count: int) -> None:
    numbers = FreeNumbers()
    for number in order[:count]:
        numbers.take(number)
    taken = set(order[:count])
    left = [number for number in range(20) if number not in taken]
    assert [number for number, _ in zip(numbers, left, strict=False)] == left
    assert numbers.next == max(taken, default=-1) + 1
    assert list(numbers.left_out) == [number for number in left if number < numbers.next]


@given(
    grown=st.lists(st.integers(0, 9), max_size=5),
    deleted=st.sets(st.integers(0, 20), max_size=6),
    entries=st.integers(0, 3),
)
def test_each_entry_and_each_of_the_searchers_own_is_proposed_once(
    grown: list[int], deleted: set[int], entries: int
) -> None:
    """Whenever entries are appended, and whatever Trials are deleted meanwhile."""
    units = list(range(1, entries + 1))
    made: dict[int, Origin] = {}
    for step in range(25):
        units += range(len(units) + 1, len(units) + 1 + grown.count(step))
        origins, numbers = make_origins(*units), FreeNumbers()
        for number, origin in sorted(made.items()):
            origins.record(number, origin)
            numbers.take(number)
        number = next(iter(numbers))
        (made[number],) = origins.choose(numbers, range(number, number + 1))
        if step in deleted:
            made.pop(step // 2, None)
    origins, numbers = make_origins(*units), FreeNumbers()
    for number, origin in sorted(made.items()):
        origins.record(number, origin)
        numbers.take(number)
    count = len(numbers.left_out)
    while count:
        number = numbers.left_out[0]
        (made[number],) = origins.choose(numbers, range(number, number + 1))
        origins.record(number, made[number])
        numbers.take(number)
        count = len(numbers.left_out)
    assert len(set(made.values())) == len(made), "something is proposed twice"
    own = sorted(origin.position for origin in made.values() if origin.source is ProposalSource.SEARCHER)
    assert own == list(range(len(own))), "something of the searcher's is left out"
