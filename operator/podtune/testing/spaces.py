"""Search spaces to test with: one of every kind, and random ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from podtune.api.json_values import read_parameter_value
from podtune.api.tuning.search_space import (
    ChoiceDomain,
    FloatDomain,
    IntDomain,
    LogNormalDomain,
    NormalDomain,
    Parameter,
    Scalar,
    format_value,
)

EVERY_KIND: Sequence[dict[str, Any]] = (
    {"name": "learning_rate", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
    {"name": "momentum", "float": {"min": -1.5, "max": 0.99}},
    {"name": "dropout", "float": {"min": 0.1, "max": 0.55, "step": 0.1}},
    {"name": "hidden_units", "int": {"min": 16, "max": 250, "step": 16}},
    {"name": "batch_size", "int": {"min": 1, "max": 512, "scale": "log"}},
    {"name": "activation", "choice": {"values": ["relu", "tanh", "logistic"]}},
    {"name": "alike", "choice": {"values": [1, 1.0, True, "1.00"]}},
    {"name": "fixed", "int": {"min": 7, "max": 9, "step": 5}},
    {"name": "bias", "normal": {"mean": -1, "stddev": 2}},
    {"name": "angle", "normal": {"mean": 0, "stddev": 30, "min": -45, "max": 90}},
    {"name": "decay", "logNormal": {"mean": -7, "stddev": 1.5, "max": 0.1}},
)
"""Manifests of parameters: every kind of domain, with the traps that each has."""


def parameters(*manifests: dict[str, Any]) -> list[Parameter]:
    """Parameters of manifests."""
    return [Parameter.model_validate(manifest) for manifest in manifests]


def every_kind() -> list[Parameter]:
    """A parameter of every kind of domain."""
    return parameters(*EVERY_KIND)


def holds(parameter: Parameter, value: Scalar) -> bool:
    """Whether a value is one of a parameter's domain, in its own type, exactly."""
    match parameter.domain:
        case ChoiceDomain(values=values):
            return any(type(value) is type(choice) and value == choice for choice in values)
        case IntDomain(min=low, max=high, step=step):
            return type(value) is int and low <= value <= high and (value - low) % step == 0
        case FloatDomain(min=low, max=high, step=step):
            return type(value) is float and low <= value <= high and (step is None or is_on_grid(value, low, step))
        case NormalDomain(step=step) as domain:
            return _is_between(domain, value) and (step is None or is_on_grid(float(value), 0.0, step))
        case LogNormalDomain() as domain:
            return _is_between(domain, value) and float(value) > 0


def is_on_grid(value: float, low: float, step: float) -> bool:
    """Whether a float is the nearest one to a multiple of `step` above `low`, in decimal arithmetic."""
    exact_low, exact_step = Fraction(repr(low)), Fraction(repr(step))
    position = round((Fraction(repr(value)) - exact_low) / exact_step)
    return value == float(exact_low + position * exact_step)


def search_spaces() -> st.SearchStrategy[list[Parameter]]:
    """Up to four sampled parameters without conditions."""

    @st.composite
    def build(draw: st.DrawFn) -> list[Parameter]:
        kinds = draw(st.lists(st.sampled_from(SAMPLED), min_size=1, max_size=4))
        return [draw(kind(f"p{position}")) for position, kind in enumerate(kinds)]

    return build()


def float_parameters(name: str) -> st.SearchStrategy[Parameter]:
    """Real intervals."""

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
    """Integer intervals."""

    @st.composite
    def build(draw: st.DrawFn) -> Parameter:
        scale = draw(st.sampled_from(["linear", "log"]))
        numbers = st.integers(1 if scale == "log" else -(10**6), 10**6)
        low, high = sorted([draw(numbers), draw(numbers)])
        step = draw(st.integers(1, 1000)) if scale == "linear" else 1
        return Parameter.model_validate({"name": name, "int": {"min": low, "max": high, "scale": scale, "step": step}})

    return build()


def choice_parameters(name: str) -> st.SearchStrategy[Parameter]:
    """Choices."""
    scalars = st.one_of(st.booleans(), st.integers(-3, 3), st.floats(-3, 3), st.text(max_size=3))
    entries = st.one_of(scalars, json_values())
    values = st.lists(entries, min_size=1, max_size=6, unique_by=_write)
    return values.map(lambda chosen: Parameter.model_validate({"name": name, "choice": {"values": chosen}}))


def json_values() -> st.SearchStrategy[Any]:
    """Lists and maps."""
    leaves = st.one_of(st.booleans(), st.integers(-3, 3), st.floats(-3, 3), st.text('ab"ü', max_size=3))
    return st.recursive(
        st.one_of(st.lists(leaves, max_size=3), st.dictionaries(st.text("ab", max_size=2), leaves, max_size=3)),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2),
        max_leaves=4,
    )


def normal_parameters(name: str) -> st.SearchStrategy[Parameter]:
    """Normal and log-normal distributions, truncated or not."""

    @st.composite
    def build(draw: st.DrawFn) -> Parameter:
        mean, stddev = draw(st.floats(-20, 20)), draw(st.floats(0.01, 10))
        bounds = {}
        if draw(st.booleans()):
            bounds["min"] = mean + draw(st.floats(-5, 1)) * stddev
        if draw(st.booleans()):
            bounds["max"] = mean + draw(st.floats(1.1, 5)) * stddev
        if draw(st.booleans()):
            bounds = {bound: math.exp(value) for bound, value in bounds.items()}
            return Parameter.model_validate({"name": name, "logNormal": {"mean": mean, "stddev": stddev, **bounds}})
        return Parameter.model_validate({"name": name, "normal": {"mean": mean, "stddev": stddev, **bounds}})

    return build()


def stepped_normal_parameters(name: str) -> st.SearchStrategy[Parameter]:
    """Normal distributions of multiples, truncated or not."""

    @st.composite
    def build(draw: st.DrawFn) -> Parameter:
        step = draw(st.sampled_from([0.1, 0.25, 3.0]))
        domain: dict[str, Any] = {"mean": 0, "stddev": draw(st.floats(0.5, 10)), "step": step}
        for bound, sign in (("min", -1), ("max", 1)):
            if draw(st.booleans()):
                domain[bound] = float(sign * draw(st.integers(1, 40)) * Fraction(repr(step)))
        return Parameter.model_validate({"name": name, "normal": domain})

    return build()


SAMPLED = (float_parameters, int_parameters, choice_parameters, normal_parameters, stepped_normal_parameters)
"""Strategies for parameters of each kind, by name."""


def _write(value: Any) -> str:
    return format_value(read_parameter_value(value))


def _is_between(domain: NormalDomain | LogNormalDomain, value: Scalar) -> bool:
    above = domain.min is None or (type(value) is float and value >= domain.min)
    below = domain.max is None or (type(value) is float and value <= domain.max)
    return type(value) is float and above and below
