from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.testing.spaces import parameters
from podtune.tuning.searchers.base import Configuration
from podtune.tuning.searchers.spaces.active_space import ActiveSpace
from podtune.tuning.searchers.spaces.point_tree import PointTree, TooManyCombinations
from tests.unit.tuning.searchers.whole_spaces import Space, manifest_of, named_values, whole_spaces

OPTIMIZER = {"name": "optimizer", "choice": {"values": ["sgd", "adam", "lion"]}}
MOMENTUM = {"name": "momentum", "float": {"min": 0.5, "max": 0.9, "step": 0.2}, "when": {"optimizer": ["sgd"]}}
BETA = {"name": "beta", "choice": {"values": [0.9, 0.99]}, "when": {"optimizer": ["adam", "lion"]}}


def tree(*manifests: dict[str, Any]) -> PointTree:
    points = ActiveSpace(parameters(*manifests)).find_points()
    assert points is not None
    return points


def all_points(points: PointTree) -> list[dict[str, Any]]:
    return [points.get_point(number) for number in range(points.count)]


def test_a_parameter_that_does_not_exist_multiplies_nothing() -> None:
    assert all_points(tree(OPTIMIZER, MOMENTUM, BETA)) == [
        {"optimizer": "sgd", "momentum": 0.5},
        {"optimizer": "sgd", "momentum": 0.7},
        {"optimizer": "sgd", "momentum": 0.9},
        {"optimizer": "adam", "beta": 0.9},
        {"optimizer": "adam", "beta": 0.99},
        {"optimizer": "lion", "beta": 0.9},
        {"optimizer": "lion", "beta": 0.99},
    ]


def test_parents_change_slowest_whatever_the_manifests_order() -> None:
    points = tree(MOMENTUM, BETA, OPTIMIZER)
    assert [point["optimizer"] for point in all_points(points)] == ["sgd"] * 3 + ["adam"] * 2 + ["lion"] * 2
    assert list(points.get_point(0)) == ["momentum", "optimizer"]


def test_a_condition_on_one_of_a_billion_values() -> None:
    """The others are never looked at one by one."""
    wide = {"name": "n", "int": {"min": 1, "max": 10**9}}
    points = tree(wide, {"name": "x", "int": {"min": 1, "max": 1000}, "when": {"n": [7, 10**6]}})
    assert points.count == 10**9 - 2 + 2 * 1000
    assert points.get_point(5) == {"n": 6}
    assert points.get_point(6) == {"n": 7, "x": 1}
    assert points.get_point(1005) == {"n": 7, "x": 1000}
    assert points.get_point(1006) == {"n": 8}
    assert points.get_point(points.count - 1) == {"n": 10**9}


def test_a_condition_on_a_fixed_value_always_holds() -> None:
    points = tree({"name": "f", "fixed": {"value": "on"}}, {**OPTIMIZER, "when": {"f": ["on"]}})
    assert [point["optimizer"] for point in all_points(points)] == ["sgd", "adam", "lion"]


def test_a_space_of_fixed_values_has_one_point() -> None:
    assert all_points(tree({"name": "f", "fixed": {"value": "on"}})) == [{}]


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_point_comes_once(data: st.DataObject) -> None:
    space = data.draw(whole_spaces(finite=True))
    active = ActiveSpace(space.parameters)  # without constraints, and whatever can't be computed
    points = active.find_points()
    assert points is not None
    found = [tuple(point.items()) for point in all_points(points)]
    assert len(set(map(repr, found))) == len(found)
    assert set(map(repr, found)) == {repr(tuple(point.items())) for point in reached(space, active)}


def reached(space: Space, active: ActiveSpace) -> list[Configuration]:
    """The sampled values that exist, for all combinations of values."""
    sampled = [parameter for parameter in space.parameters if parameter.is_sampled]
    chosen = [parameter for parameter in space.parameters if parameter.expression is None]
    exists = ActiveSpace(chosen)
    return [
        active.extract_sampled_values(
            exists.build_configuration(dict(zip([p.name for p in sampled], values, strict=True)))
        )
        for values in itertools.product(*(named_values(manifest_of(parameter)) for parameter in sampled))
    ]


def entangled(children: int) -> list[dict[str, Any]]:
    """Parents first, then children that each depend on two parents far apart."""
    parents = [{"name": f"p{place}", "choice": {"values": [0, 1]}} for place in range(32)]
    children_ = [
        {"name": f"c{place}", "choice": {"values": [0, 1]}, "when": {f"p{place}": [1], f"p{place * 7 % 32}": [1]}}
        for place in range(children)
    ]
    return [*parents, *children_]


def test_a_space_that_nobody_can_count_is_said_to_be_so_quickly() -> None:
    space = ActiveSpace(parameters(*entangled(32)))
    start = time.process_time()
    with pytest.raises(TooManyCombinations, match=r"conditions \(when\) can meet in too many ways; make them simpler"):
        space.find_points()
    assert space.find_countable_points() is None
    assert time.process_time() - start < 60, "some seconds, on slow machines too; counting them would take years"


def test_thirty_independent_branches_are_easily_counted() -> None:
    manifests = []
    for place in range(30):
        manifests.append({"name": f"p{place}", "choice": {"values": [0, 1]}})
        manifests.append({"name": f"c{place}", "int": {"min": 1, "max": 9}, "when": {f"p{place}": [1]}})
    assert tree(*manifests).count == 10**30
