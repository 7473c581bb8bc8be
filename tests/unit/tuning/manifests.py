"""Experiments and search spaces to test with."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from podtune.api.experiment import ExperimentSpec
from podtune.api.search_space import Parameter, format_value

EVERY_KIND: list[dict[str, Any]] = [
    {"name": "learning_rate", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
    {"name": "momentum", "float": {"min": -1.5, "max": 0.99}},
    {"name": "dropout", "float": {"min": 0.1, "max": 0.55, "step": 0.1}},
    {"name": "hidden_units", "int": {"min": 16, "max": 250, "step": 16}},
    {"name": "batch_size", "int": {"min": 1, "max": 512, "scale": "log"}},
    {"name": "activation", "choice": {"values": ["relu", "tanh", "logistic"]}},
    {"name": "alike", "choice": {"values": [1, 1.0, True, "1.00"]}},
    {"name": "fixed", "int": {"min": 7, "max": 9, "step": 5}},
]
"""Manifests of parameters: every kind of domain, with the traps that each has."""


def parameters(*manifests: dict[str, Any]) -> list[Parameter]:
    return [Parameter.model_validate(manifest) for manifest in manifests]


def every_kind() -> list[Parameter]:
    return parameters(*EVERY_KIND)


def experiment(**fields: Any) -> ExperimentSpec:
    return ExperimentSpec.model_validate(
        {
            "objective": {"metric": "accuracy", "mode": "max"},
            "parameters": EVERY_KIND,
            "search": {"algorithm": "random", "maxTrials": 24, "seed": 7},
            "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "example"}]}},
            **fields,
        }
    )


def float_parameters(name: str) -> st.SearchStrategy[Parameter]:
    @st.composite
    def build(draw: st.DrawFn) -> Parameter:
        scale = draw(st.sampled_from(["linear", "log"]))
        numbers = st.floats(1e-9, 1e9) if scale == "log" else st.floats(-1e9, 1e9)
        low, high = sorted([draw(numbers), draw(numbers)])
        domain: dict[str, Any] = {"min": low, "max": high, "scale": scale}
        if scale == "linear" and draw(st.booleans()):
            domain["step"] = draw(st.floats(1e-3, 1e9))
        return Parameter.model_validate({"name": name, "float": domain})

    return build()


def int_parameters(name: str) -> st.SearchStrategy[Parameter]:
    @st.composite
    def build(draw: st.DrawFn) -> Parameter:
        scale = draw(st.sampled_from(["linear", "log"]))
        numbers = st.integers(1 if scale == "log" else -(10**6), 10**6)
        low, high = sorted([draw(numbers), draw(numbers)])
        step = draw(st.integers(1, 1000)) if scale == "linear" else 1
        return Parameter.model_validate({"name": name, "int": {"min": low, "max": high, "scale": scale, "step": step}})

    return build()


def choice_parameters(name: str) -> st.SearchStrategy[Parameter]:
    scalars = st.one_of(st.booleans(), st.integers(-3, 3), st.floats(-3, 3), st.text(max_size=3))
    values = st.lists(scalars, min_size=1, max_size=6, unique_by=format_value)
    return values.map(lambda chosen: Parameter.model_validate({"name": name, "choice": {"values": chosen}}))


def search_spaces() -> st.SearchStrategy[list[Parameter]]:
    @st.composite
    def build(draw: st.DrawFn) -> list[Parameter]:
        kinds = draw(
            st.lists(st.sampled_from([float_parameters, int_parameters, choice_parameters]), min_size=1, max_size=4)
        )
        return [draw(kind(f"p{position}")) for position, kind in enumerate(kinds)]

    return build()
