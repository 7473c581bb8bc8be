"""What a user may change of a trial's configuration, and what is said where that can't be."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.base import FieldError
from podtune.api.tuning.overrides import apply_overrides
from podtune.api.tuning.search_space import Parameter

SPACE: list[dict[str, Any]] = [
    {"name": "lr", "float": {"min": 0.001, "max": 0.1, "scale": "log"}},
    {"name": "layers", "int": {"min": 1, "max": 9, "step": 2}},
    {"name": "optimizer", "choice": {"values": ["sgd", "adam", True, 3]}},
    {"name": "momentum", "float": {"min": 0.0, "max": 1.0}, "when": {"optimizer": ["sgd"]}},
    {"name": "epochs", "fixed": {"value": 5}},
    {"name": "scaled", "expression": "lr * layers"},
    {"name": "sizes", "choice": {"values": [[64, 32], {"depth": 3, "width": 8}]}},
]
PARAMETERS = [Parameter.model_validate(entry) for entry in SPACE]
PRESENT = {"lr": "0.01", "layers": "3", "optimizer": "adam", "epochs": "5", "scaled": "0.03", "sizes": "[64,32]"}


def changed(**overrides: str) -> dict[str, str]:
    return apply_overrides(PARAMETERS, ["layers * lr < 0.5"], PRESENT, overrides)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"lr": "1e-2"}, {}),
        ({"lr": "0.02"}, {"lr": "0.02", "scaled": "0.06"}),
        ({"layers": "5"}, {"layers": "5", "scaled": "0.05"}),
        ({"optimizer": "true"}, {"optimizer": "true"}),
        ({"optimizer": "3"}, {"optimizer": "3"}),
        ({"sizes": '{"width": 8, "depth": 3}'}, {"sizes": '{"depth":3,"width":8}'}),
        ({"optimizer": "sgd", "momentum": "1"}, {"optimizer": "sgd", "momentum": "1.0"}),
    ],
)
def test_the_rest_stays_and_what_is_computed_follows(overrides: dict[str, str], expected: dict[str, str]) -> None:
    assert changed(**overrides) == PRESENT | expected


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"lr": "5"}, "overrides.lr: '5' is not a value of the parameter; choose one of its domain"),
        ({"lr": "fast"}, "overrides.lr: 'fast' is not a value"),
        ({"lr": "nan"}, "overrides.lr: 'nan' is not a value"),
        ({"layers": "2"}, "overrides.layers: '2' is not a value"),
        ({"layers": "3.0"}, "overrides.layers: '3.0' is not a value"),
        ({"optimizer": "rmsprop"}, "overrides.optimizer: 'rmsprop' is not a value"),
        (
            {"width": "3"},
            "overrides.width: is not a parameter; correct or remove it (parameters: lr, layers, optimizer, mom",
        ),
        ({"epochs": "6"}, "overrides.epochs: is fixed for all trials; remove it"),
        ({"scaled": "1"}, "overrides.scaled: is computed for all trials; remove it"),
        ({"momentum": "0.5"}, "overrides.momentum: does not exist with this trial's values of optimizer; remove it"),
        ({"optimizer": "sgd"}, "overrides: leave 'momentum' without a value, which the trial now needs; add one"),
        (
            {"lr": "0.1", "layers": "9"},
            "overrides: don't make a valid configuration: the constraint 'layers * lr < 0.5' does not",
        ),
    ],
)
def test_what_can_not_be_is_told_with_field_value_and_remedy(overrides: dict[str, str], said: str) -> None:
    with pytest.raises(FieldError) as refused:
        changed(**overrides)
    assert str(refused.value).startswith(said)
