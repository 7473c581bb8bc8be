from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from podtune.api.base import FieldError
from podtune.api.json_values import JsonText
from podtune.api.tuning.configuration import ConfigurationRules
from podtune.api.tuning.dependencies import Dependencies
from podtune.api.tuning.domain_values import check_finite, find_own_value
from podtune.api.tuning.search_space import Parameter, format_value, parse_plain_value, parse_value
from podtune.api.validation import InvalidSpec, parse_experiment
from podtune.testing.spaces import parameters

OPTIMIZER = {"name": "optimizer", "choice": {"values": ["sgd", "adam", 1, True]}}
LAYERS = {"name": "layers", "int": {"min": 1, "max": 4}}
RATE = {"name": "rate", "float": {"min": 0, "max": 1}}
DROPOUT = {"name": "dropout", "float": {"min": 0, "max": 1, "step": 0.25}}
SIZES = {"name": "sizes", "choice": {"values": [[64, 32], {"d": 1}]}}
WIDTH = {"name": "width", "expression": "layers * 32"}


def refused(manifests: list[dict[str, Any]], *constraints: str) -> str:
    """What the operator says of an Experiment with these parameters."""
    spec = {
        "objective": {"metric": "loss", "mode": "min"},
        "parameters": manifests,
        "constraints": list(constraints),
        "search": {"maxTrials": 1},
        "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "example"}]}},
    }
    with pytest.raises(InvalidSpec) as error:
        parse_experiment({"metadata": {"name": "e"}, "spec": spec})
    return str(error.value)


@pytest.mark.parametrize(
    ("domain", "said"),
    [
        ({"normal": {"mean": 0, "stddev": 0}}, "parameters[0].normal.stddev: 0 is too small"),
        ({"normal": {"mean": 0, "stddev": 1, "min": 2, "max": 1}}, "normal.min: min 2 is not below max 1"),
        (
            {"normal": {"mean": 0, "stddev": 1, "min": 8.5}},
            "normal.min: min 8.5 leaves only values more than 8 standard",
        ),
        ({"normal": {"mean": 0, "stddev": 1, "max": -9}}, "normal.max: max -9 leaves only values more than 8 standard"),
        ({"normal": {"mean": 0, "stddev": 1, "step": 0.1, "max": 0.25}}, "max 0.25 is not a multiple of step 0.1"),
        ({"logNormal": {"mean": 0, "stddev": 1, "min": 0}}, "logNormal.min: 0 is too small; it must be above 0"),
        ({"logNormal": {"mean": 0, "stddev": 1, "max": 1e-9}}, "logNormal.max: max 1e-09 leaves only"),
        ({"logNormal": {"mean": 0, "stddev": 1, "step": 0.1}}, "step: 0.1 is set in a field that does not exist"),
        ({"choice": {"values": [1, None]}}, "choice.values[1]: a null can't be a value; use another one, or a text"),
        ({"choice": {"values": [[1, 2], "[1,2]"]}}, "choice.values: '[1,2]' is listed twice; remove one of the two"),
        ({"choice": {"values": [{"a": {2: 1}}]}}, "choice.values[0]: has the key 2, which is not a string"),
        ({"fixed": {"value": {"a": "x" * 1024}}}, "fixed.value: a list or map whose JSON has 1032 characters"),
        ({"function": "sample"}, "parameters[0].function: 'sample' is set in a field that does not exist; a manifest"),
        (
            {"lambda": "x: 2"},
            "holds no functions: write expression for what follows from other parameters, when",
        ),
        (
            {"tune.sample_from": "f"},
            "compute it in the program, from a choice of names, for example",
        ),
        (
            {"choice": {"values": [1], "function": "f"}},
            "choice.function: 'f' is set in a field that does not exist; a man",
        ),
        (
            {"float": {"min": 0, "max": 1, "sampler": "f"}},
            "float.sampler: 'f' is set in a field that does not exist; a man",
        ),
        (
            {"expression": "lambda spec: spec.config.y * 2"},
            "parameters[0].expression: 'lambda spec: spec.config.y * 2' is a function; write what it returns: 2 * x",
        ),
        (
            {"expression": "tune.sample_from(lambda spec: 2)"},
            "parameters[0].expression: 'tune.sample_from' isn't allowed: names have no dots, and there are no",
        ),
        (
            {"expression": "0.5 * np.random.uniform(0, 1)"},
            "parameters[0].expression: 'np.random.uniform' isn't allowed: names have no dots, and there are no",
        ),
        ({"expression": "y * .x"}, "parameters[0].expression: '.x' isn't allowed, at character 5"),
        ({"fixed": {"value": None}}, "fixed.value: a null can't be a value"),
        ({"expression": "1 +"}, "parameters[0].expression: '1 +' is not an expression"),
        (
            {"expression": "y + 1"},
            "parameters[0].expression: 'y + 1' uses 'y', which is not a parameter (parameters: x)",
        ),
        ({"expression": "x + 1"}, "parameters[0].expression: is circular (x → x); remove one of them"),
        ({}, "needs exactly one of float, int, choice, normal, logNormal, fixed, expression; found none"),
        ({"fixed": {"value": 1}, "expression": "1"}, "found fixed and expression"),
        ({"int": {"min": 1, "max": 2}, "when": {"y": [1]}}, "parameters[0].when.y: 'y' is not another parameter"),
        ({"int": {"min": 1, "max": 2}, "when": {"x": [1]}}, "parameters[0].when.x: 'x' is not another parameter"),
        ({"int": {"min": 1, "max": 2}, "when": {"y": []}}, "when.y: an empty list matches no trial; add a value"),
        ({"int": {"min": 1, "max": 2}, "when": {"y": [None]}}, "when.y[0]: a null can't be a value"),
        ({"int": {"min": 1, "max": 2}, "when": {"y": "sgd"}}, "when.y: 'sgd' is not a list"),
        ({"int": {"min": 1, "max": 2}, "when": {"y-z": [1]}}, "'y-z' is not a valid parameter name"),
    ],
)
def test_a_parameter_that_cant_be_is_refused_with_field_value_and_remedy(domain: dict[str, Any], said: str) -> None:
    assert said in refused([{"name": "x", **domain}])


@pytest.mark.parametrize(
    ("when", "said"),
    [
        (
            {"optimiser": ["sgd"]},
            "parameters[5].when.optimiser: 'optimiser' is not another parameter; correct it (others",
        ),
        ({"optimizer": ["sgd", "rmsprop"]}, "parameters[5].when.optimizer[1]: 'rmsprop' is not a value of optimizer;"),
        ({"optimizer": ["rmsprop"]}, "remove or correct it (values: sgd, adam, 1, true)"),
        ({"optimizer": [1.0]}, "'1.0' is not a value of optimizer"),
        ({"sizes": [[64, 33]]}, "'[64,33]' is not a value of sizes; remove or correct it (values: [64,32], {\"d\":1})"),
        ({"layers": [5]}, "'5' is not a value of layers"),
        ({"layers": [True]}, "'true' is not a value of layers"),
        ({"dropout": [0.3]}, "'0.3' is not a value of dropout"),
        ({"rate": [0.5]}, "'rate' is an interval, so a condition can't name its values; give it a step"),
        ({"width": [32]}, "'width' is computed; put the condition on what it is computed from"),
    ],
)
def test_a_condition_is_on_values_that_its_parent_can_have(when: dict[str, Any], said: str) -> None:
    assert said in refused([OPTIMIZER, LAYERS, RATE, DROPOUT, WIDTH, {"name": "x", **_INT, "when": when}, SIZES])


_INT = {"int": {"min": 1, "max": 3}}


def test_conditions_that_go_in_a_circle_are_refused() -> None:
    one, two, three = ({"name": name, **_INT, "when": {parent: [1]}} for name, parent in ("ab", "bc", "ca"))
    assert "parameters[0].when: is circular (a → b → c → a); remove one of them" in refused([one, two, three])


def test_conditions_that_exclude_each_other_are_refused() -> None:
    """Also where one of them is a parent's."""
    child = {"name": "momentum", **_INT, "when": {"optimizer": ["sgd"]}}
    grandchild = {"name": "nesterov", **_INT, "when": {"momentum": [1], "optimizer": ["adam"]}}
    said = refused([OPTIMIZER, child, grandchild])
    assert "parameters[2].when: 'nesterov' never exists: it needs values of optimizer that exclude each other" in said


def test_a_condition_may_name_a_list_or_map() -> None:
    child = {"name": "momentum", **_INT, "when": {"sizes": [{"d": 1}]}}
    rules = ConfigurationRules(parameters(SIZES, child))
    assert rules.complete({"sizes": JsonText('{"d":1}'), "momentum": 2})["momentum"] == 2
    assert "momentum" not in rules.complete({"sizes": JsonText("[64,32]")})


@pytest.mark.parametrize(
    ("manifests", "constraints"), [([{"name": "x", "expression": "sizes + 1"}], []), ([], ["sizes > 1"])]
)
def test_nothing_is_computed_with_lists_and_maps(manifests: list[dict[str, Any]], constraints: list[str]) -> None:
    said = refused([SIZES, *manifests], *constraints)
    assert "uses 'sizes', which holds lists or maps, and expressions can't compute with them; give the choices" in said


def test_lists_and_maps_come_back_from_their_text_and_from_a_manifest() -> None:
    parameter = Parameter.model_validate(SIZES)
    assert [parse_value(parameter, format_value(value)) for value in parameter.domain.values] == ["[64,32]", '{"d":1}']
    assert parameter.model_dump(by_alias=True, exclude_unset=True) == SIZES


def test_expressions_that_go_in_a_circle_are_refused() -> None:
    manifests = [{"name": "a", "expression": "b + 1"}, {"name": "b", "expression": "2 * a"}]
    assert "parameters[0].expression: is circular (a → b → a)" in refused(manifests)


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        ("rate <", "constraints[1]: 'rate <' is not an expression"),
        (
            "rate <= ratio",
            "constraints[1]: 'rate <= ratio' uses 'ratio', which is not a parameter (parameters: rate, layers)",
        ),
        ("1 < 2", "constraints[1]: '1 < 2' names no parameter; name one, or remove it"),
        ("rate.real > 1", "constraints[1]: 'rate.real' isn't allowed: names have no dots"),
    ],
)
def test_a_constraint_is_on_parameters(constraint: str, said: str) -> None:
    assert said in refused([RATE, LAYERS], "rate * layers <= 3", constraint)


def test_parents_come_before_their_children_and_operands_before_what_is_computed() -> None:
    space = Dependencies(
        parameters(
            {"name": "late", "expression": "early + 1"},
            {"name": "grandchild", **_INT, "when": {"child": [1]}},
            {"name": "early", "expression": "parent * 2"},
            {"name": "child", **_INT, "when": {"parent": [1, 2]}},
            {"name": "parent", **_INT},
        )
    )
    assert space.order == ["parent", "child", "grandchild"]
    assert list(space.expressions) == ["early", "late"]
    assert space.closures["grandchild"] == {"child": {"1"}, "parent": {"1", "2"}}


@pytest.mark.parametrize(
    ("manifest", "value", "own"),
    [
        (OPTIMIZER, True, True),
        (OPTIMIZER, 1, 1),
        (OPTIMIZER, "1", 1),
        (OPTIMIZER, "lion", None),
        (SIZES, "[64,32]", JsonText("[64,32]")),
        (SIZES, "[64]", None),
        (LAYERS, 4, 4),
        (LAYERS, 5, None),
        (LAYERS, 2.0, None),
        (LAYERS, True, None),
        (RATE, 1, 1.0),
        (RATE, 1.5, None),
        (RATE, "1", None),
        (DROPOUT, 0.75, 0.75),
        (DROPOUT, 0.7, None),
        ({"name": "x", "float": {"min": 1e-200, "max": 1, "step": 1}}, 1, 1.0),
        ({"name": "x", "normal": {"mean": 0, "stddev": 1, "step": 0.1}}, 0.3, 0.3),
        ({"name": "x", "normal": {"mean": 0, "stddev": 1, "step": 0.1}}, 0.25, None),
        ({"name": "x", "normal": {"mean": 0, "stddev": 1, "max": 2}}, 2.5, None),
        ({"name": "x", "logNormal": {"mean": 0, "stddev": 1}}, 0, None),
        ({"name": "x", "fixed": {"value": 0.1}}, 0.1, 0.1),
        ({"name": "x", "fixed": {"value": 0.1}}, 0.2, None),
    ],
)
def test_a_value_is_a_parameters_own_or_not(manifest: dict[str, Any], value: Any, own: Any) -> None:
    found = find_own_value(Parameter.model_validate(manifest), value)
    assert found == own
    assert type(found) is type(own)


@pytest.mark.parametrize(
    "value",
    [True, False, 0, -7, 2**62, 0.1, -1.5, 1e300, 5e-324, "", "sgd", "1e3", "007", "1_000", "nan", "True", "inf"],
)
def test_a_computed_value_comes_back_from_its_text(value: Any) -> None:
    parameter = Parameter(name="x", expression="y")
    read = parse_value(parameter, format_value(value))
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("3", 3), ("0.5", 0.5)])
def test_a_text_that_is_written_like_a_number_or_truth_is_one(text: str, value: Any) -> None:
    assert parse_plain_value(text) == value
    assert type(parse_plain_value(text)) is type(value)


def test_a_fixed_value_comes_back_from_its_text() -> None:
    parameter = Parameter.model_validate({"name": "x", "fixed": {"value": "1.0"}})
    assert parse_value(parameter, "1.0") == "1.0"
    with pytest.raises(ValueError, match="'2' is not one of the values of parameter 'x'"):
        parse_value(parameter, "2")


@pytest.mark.parametrize(
    ("domain", "remedy"),
    [
        ({"float": {"min": 0, "max": 1}}, "give it a step, or use grid"),
        ({"normal": {"mean": 0, "stddev": 1, "step": 0.1}}, "give it min, max and step, or use grid"),
        ({"logNormal": {"mean": 0, "stddev": 1, "min": 1, "max": 2}}, "use float with a step, or use grid"),
    ],
)
def test_brute_force_is_for_finite_spaces(domain: dict[str, Any], remedy: str) -> None:
    with pytest.raises(FieldError) as error:
        check_finite(parameters(LAYERS, WIDTH, {"name": "x", **domain}))
    assert str(error.value) == f"parameters[2]: x has infinitely many values; {remedy}"


def test_finite_spaces_are() -> None:
    finite = {"name": "x", "normal": {"mean": 0, "stddev": 1, "min": -1, "max": 1, "step": 0.5}}
    check_finite(parameters(OPTIMIZER, LAYERS, DROPOUT, WIDTH, finite, {"name": "y", "float": {"min": 1, "max": 1}}))


def test_only_a_sampled_parameter_has_a_domain() -> None:
    fixed, computed, sampled = parameters({"name": "x", "fixed": {"value": 1}}, WIDTH, RATE)
    assert (fixed.is_sampled, computed.is_sampled, sampled.is_sampled) == (False, False, True)
    with pytest.raises(AssertionError, match="x is not sampled"):
        _ = fixed.domain


def test_an_expression_has_a_bounded_length() -> None:
    with pytest.raises(ValidationError, match="at most 512 characters"):
        Parameter(name="x", expression="1 + " * 200 + "1")
