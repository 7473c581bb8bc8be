from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from podtune.client import tune
from podtune.client.errors import InvalidArgument
from podtune.client.tune.space import Grid, find_grid, read_param_space


@pytest.mark.parametrize(
    ("domain", "written"),
    [
        (tune.uniform(0.1, 0.5), {"float": {"min": 0.1, "max": 0.5}}),
        (tune.quniform(0.0, 1.0, 0.25), {"float": {"min": 0.0, "max": 1.0, "step": 0.25}}),
        (tune.loguniform(1e-4, 1e-1), {"float": {"min": 1e-4, "max": 1e-1, "scale": "log"}}),
        (tune.randn(1.0, 0.5), {"normal": {"mean": 1.0, "stddev": 0.5}}),
        (tune.qrandn(1.0, 0.5, 0.1), {"normal": {"mean": 1.0, "stddev": 0.5, "step": 0.1}}),
        (tune.randint(1, 10), {"int": {"min": 1, "max": 9}}),  # Ray's upper bound is excluded
        (tune.qrandint(0, 10, 5), {"int": {"min": 0, "max": 10, "step": 5}}),  # and here it is not
        (tune.lograndint(1, 100), {"int": {"min": 1, "max": 99, "scale": "log"}}),
        (tune.choice(["a", (1, 2), np.int64(3)]), {"choice": {"values": ["a", [1, 2], 3]}}),
        (tune.expression("2 * 3"), {"expression": "2 * 3"}),
        (tune.uniform(0, 1).when(opt=["sgd"]), {"float": {"min": 0, "max": 1}, "when": {"opt": ["sgd"]}}),
        ("adam", {"fixed": {"value": "adam"}}),
        ([64, 32], {"fixed": {"value": [64, 32]}}),
        ({"depth": 3}, {"fixed": {"value": {"depth": 3}}}),
    ],
)
def test_domain_is_written_as_a_manifest_has_it(domain: Any, written: dict[str, Any]) -> None:
    assert read_param_space({"x": domain}) == {"x": written}


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        (lambda: 1, r"param_space\['x'\]: .* is or holds a function; a manifest holds no functions: write expression"),
        (tune.choice([max, min]), r"param_space\['x'\]: .* is or holds a function"),
        ({"optimizer": {"lr": tune.uniform(0, 1)}}, r"has a domain inside \(optimizer_lr\).* such as x_optimizer_lr"),
        (tune.uniform(2, 1), r"param_space\['x'\]\.float\.min: min 2 is above max 1; swap them"),
        (tune.loguniform(0, 1), r"param_space\['x'\]\.float\.min: min 0 must be above 0 with scale log"),
        (tune.choice([]), r"param_space\['x'\]\.choice\.values"),
        (tune.choice(["a", None]), r"param_space\['x'\]\.choice\.values\[1\]: a null can't be a value"),
        (None, r"param_space\['x'\]\.fixed\.value: a null can't be a value"),
    ],
)
def test_what_has_no_place_in_a_space_is_refused_by_its_name(domain: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        read_param_space({"x": domain})


@pytest.mark.parametrize("space", [{}, None, ["lr"]])
def test_space_without_parameters_is_refused(space: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"param_space: .* has no parameters"):
        read_param_space(space)


def test_condition_takes_a_list() -> None:
    with pytest.raises(InvalidArgument, match=r"when: optimizer='sgd' is no list; write optimizer=\['sgd'\]"):
        tune.uniform(0, 1).when(optimizer="sgd")


def test_grid_has_as_many_points_as_its_values_have_combinations() -> None:
    space = {"a": tune.grid_search([1, 2, 3]), "b": tune.grid_search(["x", "y"]), "c": 5, "d": tune.expression("a * 2")}
    assert find_grid(space) == Grid(("a", "b"), 6, is_whole=True)
    assert find_grid({**space, "b": tune.grid_search(["x", "y"]).when(a=[1])}) == Grid(("a", "b"), 4, is_whole=True)
    assert find_grid({**space, "e": tune.uniform(0, 1)}) == Grid(("a", "b"), 6, is_whole=False)
    assert find_grid({"a": tune.choice([1, 2, 3])}) is None


def test_grid_that_depends_on_nothing_known_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"param_space: parameters\[0\]\.when\.b: .* is not another parameter"):
        find_grid({"a": tune.grid_search([1, 2]).when(b=[1])})


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: tune.sample_from, r'write tune\.expression\("0\.1 \* batch_size"\)'),
        (lambda: tune.report, r"is podtune\.trial\.report"),
        (lambda: tune.nonsense, "tune has no 'nonsense'"),
    ],
)
def test_what_ray_has_and_we_have_not_names_what_works(read: Callable[[], object], message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        read()
