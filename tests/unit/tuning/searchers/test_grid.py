from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest

from podtune.api.tuning.search import GridSettings
from podtune.api.tuning.search_space import Parameter
from podtune.testing.searchers import SearcherConformance, propose
from podtune.tuning.searchers.base import Configuration, Searcher
from podtune.tuning.searchers.grid import GridSearcher
from podtune.tuning.searchers.spaces.active_space import ActiveSpace
from tests.unit.tuning.manifests import parameters


class TestGridSearcher(SearcherConformance):
    draws = False

    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        return GridSearcher(ActiveSpace(parameters), GridSettings())


def whole_grid(*manifests: dict[str, Any], points: int = 5) -> list[Configuration]:
    searcher = GridSearcher(ActiveSpace(parameters(*manifests)), GridSettings(points=points))
    return [propose(searcher, number) for number in range(searcher.size)]


def values(domain: dict[str, Any], points: int = 5) -> list[Any]:
    return [configuration["x"] for configuration in whole_grid({"name": "x", **domain}, points=points)]


def test_the_last_parameter_changes_fastest() -> None:
    grid = whole_grid(
        {"name": "b", "int": {"min": 1, "max": 2}},
        {"name": "a", "choice": {"values": ["x", "y", "z"]}},
    )
    assert grid == [
        {"b": 1, "a": "x"},
        {"b": 1, "a": "y"},
        {"b": 1, "a": "z"},
        {"b": 2, "a": "x"},
        {"b": 2, "a": "y"},
        {"b": 2, "a": "z"},
    ]
    assert list(grid[0]) == ["b", "a"]


def test_after_the_last_configuration_there_is_none() -> None:
    searcher = GridSearcher(ActiveSpace(parameters({"name": "x", "int": {"min": 1, "max": 3}})), GridSettings())
    assert propose(searcher, 2) == {"x": 3}
    assert searcher.ask(3, []) is None
    assert searcher.ask(1000, []) is None


@pytest.mark.parametrize(
    ("domain", "points", "expected"),
    [
        ({"float": {"min": 0, "max": 1}}, 5, [0.0, 0.25, 0.5, 0.75, 1.0]),
        ({"float": {"min": 0.1, "max": 0.3}}, 3, [0.1, 0.2, 0.3]),
        ({"float": {"min": 0.0001, "max": 0.1, "scale": "log"}}, 4, [0.0001, 0.001, 0.01, 0.1]),
        ({"float": {"min": 0.0001, "max": 0.1, "scale": "log"}}, 2, [0.0001, 0.1]),
        ({"float": {"min": 2, "max": 2}}, 5, [2.0]),
        ({"float": {"min": 1.0, "max": 1.0000000000000004}}, 9, [1.0, 1.0000000000000002, 1.0000000000000004]),
        ({"float": {"min": 0.1, "max": 0.35, "step": 0.1}}, 2, [0.1, 0.2, 0.3]),
        ({"int": {"min": 16, "max": 60, "step": 16}}, 2, [16, 32, 48]),
        ({"int": {"min": 1, "max": 4, "scale": "log"}}, 2, [1, 2, 3, 4]),
        ({"choice": {"values": [True, 1, "1.0"]}}, 2, [True, 1, "1.0"]),
    ],
)
def test_values_on_an_axis(domain: dict[str, Any], points: int, expected: list[Any]) -> None:
    found = values(domain, points)
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


def test_a_grid_of_billions_takes_no_memory() -> None:
    wide = {"int": {"min": 1, "max": 10**9}}
    searcher = GridSearcher(ActiveSpace(parameters({"name": "x", **wide}, {"name": "y", **wide})), GridSettings())
    assert searcher.size == 10**18
    assert propose(searcher, 10**18 - 1) == {"x": 10**9, "y": 10**9}


HALF_DRAWN = (
    {"name": "x", "float": {"min": 0, "max": 1}},
    {"name": "a", "choice": {"values": ["u", "v"]}},
    {"name": "b", "int": {"min": 1, "max": 2}, "when": {"a": ["v"]}},
)


def half_drawn(*, seed: int = 7, constraints: Sequence[str] = ()) -> GridSearcher:
    space = ActiveSpace(parameters(*HALF_DRAWN), constraints)
    return GridSearcher(space, GridSettings(parameters=["a", "b"]), seed)


def test_beside_the_grid_other_parameters_are_drawn_each_time() -> None:
    searcher = half_drawn()
    assert searcher.size == 3
    found = [propose(searcher, number) for number in range(9)]
    on_grid = [{name: configuration[name] for name in configuration if name != "x"} for configuration in found]
    assert on_grid == [{"a": "u"}, {"a": "v", "b": 1}, {"a": "v", "b": 2}] * 3
    assert len({configuration["x"] for configuration in found}) == 9
    again = half_drawn()
    assert propose(again, 8) == found[8], "what comes does not depend on what was asked for before"
    assert propose(half_drawn(seed=8), 0) != found[0]


def test_draws_that_a_constraint_refuses_are_drawn_anew_and_no_point_loses_its_turn() -> None:
    found = [propose(half_drawn(constraints=["x < 0.2"]), number) for number in range(6)]
    assert [configuration["a"] for configuration in found] == ["u", "v", "v"] * 2
    assert all(float(str(configuration["x"])) < 0.2 for configuration in found)


def test_draws_that_come_up_twice_are_two_trials() -> None:
    space = ActiveSpace(
        parameters({"name": "a", "choice": {"values": [1, 2]}}, {"name": "b", "choice": {"values": [3]}})
    )
    searcher = GridSearcher(space, GridSettings(parameters=["a"]))
    assert [propose(searcher, number) for number in range(4)] == [{"a": 1, "b": 3}, {"a": 2, "b": 3}] * 2
