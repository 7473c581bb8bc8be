"""The order in which the searcher is told, and what repeats come to."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.runner.search.observation_log import ObservationLog, average, compute_mean, spread
from podtune.tuning.searchers.base import Observation


def observation(number: int, value: float | None = 0.5, step: int = 1, others: tuple[float, ...] = ()) -> Observation:
    return Observation(number, {"lr": 0.1}, value, step, others)


def numbers(observations: ObservationLog) -> list[int]:
    return [observation.number for observation in observations.in_order]


def test_what_becomes_durable_early_waits_for_what_has_a_lower_number() -> None:
    observations = ObservationLog()
    places = [observations.reserve() for _ in range(3)]
    assert list(observations.record(places[2], observation(2))) == []
    assert (numbers(observations), observations.end, observations.reserved) == ([], 0, 3)
    assert list(observations.record(places[0], observation(0))) == [observation(0)]
    assert list(observations.record(places[1], observation(1))) == [observation(1), observation(2)]
    assert (numbers(observations), observations.end) == ([0, 1, 2], 3)


def test_a_place_may_tell_nothing() -> None:
    observations = ObservationLog()
    for place in range(3):
        observations.reserve()
        observations.record(place, observation(place) if place == 1 else None)
    assert (numbers(observations), observations.end) == ([1], 3)
    assert [observations.count(end) for end in range(4)] == [0, 0, 1, 1]


@given(st.lists(st.sampled_from(["told", "silent", "gone"]), max_size=20), st.randoms(use_true_random=False))
def test_recorded_places_tell_the_same_in_any_order(kinds: list[str], rng: random.Random) -> None:
    recorded = [
        (place, observation(place) if kind == "told" else None) for place, kind in enumerate(kinds) if kind != "gone"
    ]
    shuffled = list(recorded)
    rng.shuffle(shuffled)
    observations = ObservationLog(shuffled)
    assert numbers(observations) == [place for place, told in recorded if told is not None]
    assert observations.end == observations.reserved == (recorded[-1][0] + 1 if recorded else 0)
    for end in range(len(kinds) + 1):
        assert observations.count(end) == sum(1 for place, told in recorded if told is not None and place < end)


def test_what_was_known_comes_first_and_counts_for_every_place() -> None:
    observations = ObservationLog([(0, observation(0)), (1, observation(1))])
    observations.prepend([observation(-2), observation(-1)])
    assert numbers(observations) == [-2, -1, 0, 1]
    assert [observations.count(end) for end in range(3)] == [2, 3, 4]
    assert observations.prior == 2


def test_an_end_that_is_seen_twice_is_told_once() -> None:
    observations = ObservationLog()
    place = observations.reserve()
    assert len(observations.record(place, observation(0))) == 1
    assert len(observations.record(place, observation(0))) == 0
    assert numbers(observations) == [0]


def test_repeats_come_to_their_mean() -> None:
    repeats = [observation(3, 0.25, 9, (1.0, 4.0)), observation(3, 0.75, 5, (2.0, 8.0))]
    assert average(repeats) == observation(3, 0.5, 5, (1.5, 6.0))


def test_repeats_that_failed_are_left_out_and_all_of_them_make_a_failure() -> None:
    assert average([observation(3, None, 2), observation(3, 0.75, 5)]) == observation(3, 0.75, 5)
    assert average([observation(3, None, 2), observation(3, None, 5)]).value is None


def test_a_repeat_that_is_not_a_number_makes_the_mean_none() -> None:
    value = average([observation(3, math.nan), observation(3, 0.75)]).value
    assert value is not None
    assert math.isnan(value)


def test_one_alone_stays_as_it_is() -> None:
    assert average([observation(3, 0.1 + 0.2)]) == observation(3, 0.1 + 0.2)


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=9))
def test_mean_and_spread_are_those_of_a_sample(values: list[float]) -> None:
    assert compute_mean(values) == pytest.approx(statistics.fmean(values), abs=1e-3)
    assert spread(values) == pytest.approx(statistics.stdev(values), rel=1e-6, abs=1e-3)


@pytest.mark.parametrize(
    ("values", "middle", "around"),
    [
        ([math.inf, 1.0], math.inf, math.nan),
        ([math.inf, -math.inf], math.nan, math.nan),
        ([1e308, 1.5e308], 1.25e308, 0.5e308 / math.sqrt(2)),
        ([0.1, 0.1, 0.1], 0.1, 0.0),
        ([7.0], 7.0, 0.0),
    ],
)
def test_extremes_are_no_errors(values: list[float], middle: float, around: float) -> None:
    assert compute_mean(values) == pytest.approx(middle, nan_ok=True)
    assert spread(values) == pytest.approx(around, nan_ok=True)
