from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.api.tuning.population import PbtSettings, list_mutable_domains
from podtune.api.tuning.search_space import ChoiceDomain, FloatDomain, IntDomain, LogNormalDomain, NormalDomain, Scalar
from podtune.testing.spaces import holds, parameters, search_spaces
from podtune.tuning.schedulers.population.explore import (
    MAX_TRIES,
    Perturbing,
    Space,
    clip_to_domain,
    draw_below,
    draw_value,
    move_choice,
    multiply,
)
from podtune.tuning.searchers.base import Configuration

LR = {"name": "lr", "float": {"min": 0.001, "max": 0.1, "scale": "log"}}
UNITS = {"name": "units", "int": {"min": 8, "max": 256}}
OPTIMIZER = {"name": "optimizer", "choice": {"values": ["adam", "sgd", "rmsprop"]}}
START: Configuration = {"lr": 0.01, "units": 64, "optimizer": "sgd"}


def perturbing(*manifests: dict[str, Any], constraints: Sequence[str] = (), **fields: Any) -> Perturbing:
    models = parameters(*(manifests or (LR, UNITS, OPTIMIZER)))
    given = PbtSettings.model_validate({"interval": 5, **fields})
    return Perturbing(Space(models, constraints), list_mutable_domains(given, models), given)


def explored(explorer: Perturbing, configuration: Configuration = START, *, times: int = 200) -> list[Configuration]:
    draw = random.Random(0)
    return [explorer.explore(0, configuration, [], draw) for _ in range(times)]


class TestPerturbing:
    def test_numbers_are_multiplied_by_one_of_the_factors_and_choices_move_to_a_neighbour(self) -> None:
        found = explored(perturbing(resampleProbability=0))
        assert {configuration["lr"] for configuration in found} == {0.01 * 0.8, 0.01 * 1.2}
        assert {configuration["units"] for configuration in found} == {51, 77}
        assert {configuration["optimizer"] for configuration in found} == {"adam", "rmsprop"}
        assert {tuple(configuration) for configuration in found} == {("lr", "units", "optimizer")}

    def test_with_probability_one_everything_is_drawn_anew(self) -> None:
        found = explored(perturbing(resampleProbability=1))
        assert len({configuration["lr"] for configuration in found}) == 200
        assert {configuration["optimizer"] for configuration in found} == {"adam", "sgd", "rmsprop"}
        assert all(0.001 <= float(configuration["lr"]) <= 0.1 for configuration in found)

    def test_the_probability_is_that_of_each_parameter(self) -> None:
        found = explored(perturbing(resampleProbability=0.25), times=2000)
        anew = sum(configuration["lr"] not in (0.01 * 0.8, 0.01 * 1.2) for configuration in found)
        assert 400 < anew < 600

    def test_values_leave_their_domain_unless_they_are_clipped(self) -> None:
        ends = {**START, "lr": 0.1, "units": 8}
        loose = explored(perturbing(resampleProbability=0), ends)
        assert {configuration["lr"] for configuration in loose} == {0.1 * 0.8, 0.1 * 1.2}
        assert {configuration["units"] for configuration in loose} == {6, 10}
        tight = explored(perturbing(resampleProbability=0, clip=True), ends)
        assert {configuration["lr"] for configuration in tight} == {0.1 * 0.8, 0.1}
        assert {configuration["units"] for configuration in tight} == {8, 10}

    def test_only_mutations_are_changed_where_there_are_some(self) -> None:
        mutations = [{"name": "units", "choice": {"values": [32, 64, 128]}}]
        found = explored(perturbing(resampleProbability=0, mutations=mutations))
        assert Counter(tuple(configuration.values()) for configuration in found).keys() == {
            (0.01, 32, "sgd"),
            (0.01, 128, "sgd"),
        }

    def test_the_donors_configuration_stays_as_it_was(self) -> None:
        donors = dict(START)
        explored(perturbing(), donors)
        assert donors == START

    @given(space=search_spaces(), draw=st.randoms(use_true_random=False))
    @settings(deadline=None, max_examples=100)
    def test_clipped_values_are_of_the_domain_whatever_it_is(self, space: list[Any], draw: random.Random) -> None:
        given_settings = PbtSettings(interval=1, clip=True)
        explorer = Perturbing(Space(space, ()), list_mutable_domains(given_settings, space), given_settings)
        configuration: Configuration = {parameter.name: draw_value(parameter.domain, draw) for parameter in space}
        for _ in range(5):
            configuration = explorer.explore(0, configuration, [], draw)
            assert list(configuration) == [parameter.name for parameter in space]
            assert all(holds(parameter, configuration[parameter.name]) for parameter in space)


class TestSpace:
    def test_a_constraint_holds_of_what_is_explored(self) -> None:
        explorer = perturbing(constraints=["units <= 64"], resampleProbability=0.5)
        assert all(int(configuration["units"]) <= 64 for configuration in explored(explorer))

    def test_where_nothing_else_may_be_it_is_the_donors(self) -> None:
        explorer = perturbing(constraints=["units == 64"], resampleProbability=0)
        assert explorer.explore(0, START, [], random.Random(0)) == START
        assert MAX_TRIES == 1000

    def test_what_is_computed_follows(self) -> None:
        explorer = perturbing(UNITS, {"name": "half", "expression": "units / 2"}, resampleProbability=0)
        for configuration in explored(explorer, {"units": 64, "half": 32.0}):
            assert configuration["half"] == int(configuration["units"]) / 2

    def test_a_parameter_that_begins_to_exist_is_drawn_and_one_that_does_not_is_left_out(self) -> None:
        momentum = {"name": "momentum", "float": {"min": 0.5, "max": 0.9}, "when": {"optimizer": ["sgd"]}}
        beta = {"name": "beta", "float": {"min": 0.9, "max": 0.99}, "when": {"optimizer": ["adam"]}}
        explorer = perturbing(OPTIMIZER, momentum, beta, resampleProbability=0)
        found = explored(explorer, {"optimizer": "sgd", "momentum": 0.6})
        assert {tuple(configuration) for configuration in found} == {("optimizer", "beta"), ("optimizer",)}
        assert all(0.9 <= float(configuration.get("beta", 0.9)) <= 0.99 for configuration in found)


class TestMoved:
    def test_at_an_end_it_may_stay(self) -> None:
        draw = random.Random(0)
        found = {move_choice([1, 2, 3], 3, 0.0, draw) for _ in range(50)}
        assert found == {2, 3}

    def test_what_is_not_in_the_list_becomes_any_of_it(self) -> None:
        draw = random.Random(0)
        assert {move_choice([1, 2, 3], 7, 0.0, draw) for _ in range(50)} == {1, 2, 3}

    def test_values_that_python_holds_to_be_equal_are_told_apart(self) -> None:
        found = {repr(move_choice([1, "a", True], True, 0.0, random.Random(seed))) for seed in range(50)}
        assert found == {"'a'", "True"}


class TestNumbers:
    @pytest.mark.parametrize(("value", "factor", "product"), [(1, 1.2, 1), (2, 1.2, 2), (3, 1.2, 4), (5, 0.5, 2)])
    def test_an_integer_is_rounded(self, value: int, factor: float, product: int) -> None:
        assert multiply(value, factor) == product
        assert type(multiply(value, factor)) is int

    @pytest.mark.parametrize("value", [1.7e308, 10**400])
    def test_what_would_be_infinite_stays(self, value: Scalar) -> None:
        assert multiply(value, 1.2) == value

    @pytest.mark.parametrize(
        ("domain", "value", "nearest"),
        [
            (FloatDomain(min=0.1, max=0.9, step=0.1), 0.34, 0.3),
            (FloatDomain(min=0.1, max=0.9, step=0.1), 1.2, 0.9),
            (IntDomain(min=8, max=30, step=8), 29, 24),
            (IntDomain(min=8, max=30, step=8), -3, 8),
            (IntDomain(min=16, max=512, scale="log"), 600, 512),
            (NormalDomain(mean=0.0, stddev=1.0, step=0.25), 0.3, 0.25),
            (NormalDomain(mean=0.0, stddev=1.0, min=-1.0), -1.2, -1.0),
            (LogNormalDomain(mean=0.0, stddev=1.0), 12.0, 12.0),
        ],
    )
    def test_clipped_is_the_nearest_value(self, domain: Any, value: Scalar, nearest: Scalar) -> None:
        assert clip_to_domain(domain, value) == nearest

    def test_below_draws_every_number_alike(self) -> None:
        draw = random.Random(0)
        counts = Counter(draw_below(6, draw) for _ in range(6000))
        assert counts.keys() == set(range(6))
        assert all(900 < count < 1100 for count in counts.values())

    def test_below_reaches_beyond_a_word(self) -> None:
        draw = random.Random(0)
        found = [draw_below(10**12, draw) for _ in range(1000)]
        assert max(found) > 9 * 10**11
        assert min(found) < 10**11
        assert all(number < 10**12 for number in found)


@given(space=search_spaces(), draw=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=100)
def test_drawn_values_are_of_the_domain(space: list[Any], draw: random.Random) -> None:
    for parameter in space:
        assert holds(parameter, draw_value(parameter.domain, draw))


def test_of_a_stepped_float_the_ends_are_drawn_half_as_often() -> None:
    draw = random.Random(0)
    domain = FloatDomain(min=0.0, max=0.3, step=0.1)
    counts = Counter(draw_value(domain, draw) for _ in range(6000))
    assert counts.keys() == {0.0, 0.1, 0.2, 0.3}
    assert 850 < counts[0.0] < 1150
    assert 1850 < counts[0.1] < 2150


def test_of_a_choice_every_value_is_drawn() -> None:
    draw = random.Random(0)
    assert {draw_value(ChoiceDomain(values=["a", "b", "c"]), draw) for _ in range(50)} == {"a", "b", "c"}
