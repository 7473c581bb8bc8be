"""Values that people or earlier experiments give become configurations, or are refused with a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.base import FieldError
from podtune.api.tuning.configuration import ConfigurationRules, InvalidConfiguration
from tests.unit.tuning.manifests import parameters

SPACE = parameters(
    {"name": "units", "int": {"min": 16, "max": 64, "step": 16}},
    {"name": "kind", "choice": {"values": ["sgd", 1, 1.5, True]}},
    {"name": "momentum", "float": {"min": 0.0, "max": 0.9}, "when": {"kind": ["sgd"]}},
    {"name": "gpus", "fixed": {"value": 4}},
    {"name": "batch", "expression": "units * gpus"},
)
RULES = ConfigurationRules(SPACE, ["batch <= 200"])


def test_values_become_a_configuration_in_the_manifests_order() -> None:
    complete = RULES.complete({"kind": "sgd", "momentum": 0, "units": 48})
    assert list(complete.items()) == [("units", 48), ("kind", "sgd"), ("momentum", 0.0), ("gpus", 4), ("batch", 192)]


def test_what_is_fixed_may_be_said_too() -> None:
    assert RULES.complete({"kind": 1, "units": 16, "gpus": 4})["gpus"] == 4


@pytest.mark.parametrize(
    ("given", "path", "said"),
    [
        ({"kind": 1}, "units", "is missing"),
        ({"kind": 1, "units": 40}, "units", "40 is not a value of the parameter"),
        ({"kind": 1, "units": "16"}, "units", "16 is not a value of the parameter"),
        ({"kind": "adam", "units": 16}, "kind", "adam is not a value of the parameter"),
        ({"kind": "sgd", "units": 16}, "momentum", "is missing"),
        (
            {"kind": 1, "units": 16, "momentum": 0.5},
            "momentum",
            "does not exist with these values of kind; leave it out",
        ),
        ({"kind": 1, "units": 16, "gpus": 8}, "gpus", "8 is not the fixed value; leave it out"),
        ({"kind": 1, "units": 16, "batch": 64}, "batch", "is computed; leave it out"),
        ({"kind": 1, "units": 16, "lr": 1}, "lr", "parameters: units, kind, momentum"),
    ],
)
def test_what_does_not_fit_is_named(given: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(FieldError) as refused:
        RULES.complete(given)
    assert refused.value.path == path
    assert said in refused.value.problem


def test_a_constraint_refuses_a_whole_configuration() -> None:
    with pytest.raises(InvalidConfiguration, match="the constraint 'batch <= 200' does not hold"):
        RULES.complete({"kind": 1, "units": 64})


@pytest.mark.parametrize(
    ("written", "configuration"),
    [
        ({"units": "32", "kind": "1.5", "lr": "0.1"}, {"units": 32, "kind": 1.5, "gpus": 4, "batch": 128}),
        ({"units": "32", "kind": "true", "momentum": "0.5"}, {"units": 32, "kind": True, "gpus": 4, "batch": 128}),
        ({"units": "32", "kind": "sgd"}, None),
        ({"units": "33", "kind": "1"}, None),
        ({"units": "64", "kind": "1"}, None),
        ({"kind": "1"}, None),
    ],
    ids=["other names", "no such condition", "incomplete", "between steps", "constraint", "missing"],
)
def test_what_another_experiment_wrote_is_recognised_where_it_lies_in_this_space(
    written: dict[str, str], configuration: dict[str, Any] | None
) -> None:
    assert RULES.recognise(written) == configuration
