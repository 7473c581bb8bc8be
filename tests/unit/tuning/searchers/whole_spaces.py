"""Random search spaces with everything in them, and what they allow, worked out the plain way."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from podtune.api.base import FieldError
from podtune.api.tuning.dependencies import Dependencies
from podtune.api.tuning.search_space import Parameter, Scalar, format_value
from podtune.testing.spaces import holds
from podtune.tuning.domains.points import find_finite_points
from podtune.tuning.searchers.base import Configuration

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Space:
    """A search space as a manifest has it."""

    parameters: list[Parameter]
    constraints: list[str]

    def fields(self) -> Manifest:
        """What an Experiment's spec says of it."""
        return {"parameters": self.parameters, "constraints": self.constraints}


NUMBERS: list[Manifest] = [
    {"int": {"min": 1, "max": 3}},
    {"int": {"min": 2, "max": 9, "step": 3}},
    {"int": {"min": 1, "max": 4, "scale": "log"}},
    {"float": {"min": 0.5, "max": 1.5, "step": 0.5}},
    {"normal": {"mean": 0, "stddev": 1, "min": -1, "max": 1, "step": 1}},
]
CHOICES: list[Manifest] = [
    {"choice": {"values": ["a", "b"]}},
    {"choice": {"values": [1, True, "", "x"]}},
    {"choice": {"values": ["only"]}},
]
INTERVALS: list[Manifest] = [
    {"float": {"min": -1, "max": 2}},
    {"float": {"min": 0.001, "max": 10, "scale": "log"}},
    {"normal": {"mean": 2, "stddev": 1}},
    {"logNormal": {"mean": 0, "stddev": 1, "max": 50}},
]


@st.composite
def whole_spaces(draw: st.DrawFn, *, finite: bool) -> Space:
    """Up to six sampled parameters with conditions, fixed and computed ones and constraints between them."""
    kinds = NUMBERS + CHOICES + ([] if finite else INTERVALS)
    manifests: list[Manifest] = []
    for place in range(draw(st.integers(1, 4 if finite else 6))):
        manifests.append({"name": f"p{place}", **draw(st.sampled_from(kinds)), "when": draw(conditions(manifests))})
    if draw(st.booleans()):
        fixed = draw(st.sampled_from([7, 0.5, "text", True]))
        manifests.append({"name": "fixed", "fixed": {"value": fixed}, "when": draw(conditions(manifests))})
    numeric = [manifest["name"] for manifest in manifests if not {"choice", "fixed"} & manifest.keys()]
    constraints: list[str] = []
    if numeric:
        one, other = draw(st.sampled_from(numeric)), draw(st.sampled_from(numeric))
        computed = draw(st.lists(st.sampled_from(COMPUTED), max_size=2))
        for place, template in enumerate(computed):
            text = template.format(one=one, other=other, first=manifests[0]["name"], last=f"c{max(place - 1, 0)}")
            if f"c{place}" not in text:
                manifests.append({"name": f"c{place}", "expression": text, "when": draw(conditions(manifests))})
        constraints = [text.format(one=one, other=other) for text in draw(st.lists(st.sampled_from(HELD), max_size=2))]
    shuffled = [Parameter.model_validate(manifest) for manifest in draw(st.permutations(manifests))]
    try:
        Dependencies(shuffled).parse_constraints(constraints)
    except FieldError:
        assume(False)  # conditions that exclude each other
    return Space(shuffled, constraints)


COMPUTED = [
    "{one} * 2 + 1",
    "{one} if {first} in ['a', 1] else 'none'",
    "1 / ({other} - 1)",
    "{last} == 1",
    "'3' if {one} > 1 else 'true'",
]
HELD = ["{one} <= 2", "{one} + {other} < 3.5", "1 / ({one} - 1) > -100", "{one} != {other} or {one} > 1"]


def conditions(above: Sequence[Manifest]) -> st.SearchStrategy[dict[str, list[Scalar]]]:
    """Conditions on up to two of the parameters above, whose values one can name."""
    values = {manifest["name"]: named_values(manifest) for manifest in above}
    parents = [name for name, named in values.items() if named]
    if not parents:
        return st.just({})

    @st.composite
    def build(draw: st.DrawFn) -> dict[str, list[Scalar]]:
        chosen = draw(st.lists(st.sampled_from(parents), max_size=2, unique=True))
        return {
            parent: draw(st.lists(st.sampled_from(values[parent]), min_size=1, max_size=2, unique_by=format_value))
            for parent in chosen
        }

    return build()


def named_values(manifest: Manifest) -> list[Scalar]:
    if "fixed" in manifest or "expression" in manifest:
        return [manifest["fixed"]["value"]] if "fixed" in manifest else []
    points = find_finite_points(Parameter.model_validate({**manifest, "when": {}}).domain)
    return [points.value(place) for place in range(points.count)] if points else []


def check(space: Space, configuration: Configuration) -> None:
    """Asserts that a configuration is one of the space, as the manifest's words say it."""
    assert list(configuration) == [parameter.name for parameter in space.parameters if parameter.name in configuration]
    for parameter in space.parameters:
        exists = all(
            parent in configuration and format_value(configuration[parent]) in {format_value(own(v)) for v in values}
            for parent, values in parameter.when.items()
            for own in [float if isinstance(configuration.get(parent), float) else lambda value: value]
        )
        if parameter.expression is not None and exists:
            value = evaluated(parameter.expression, configuration)
            assert (value is None) == (parameter.name not in configuration)
            assert value is None or format_value(configuration[parameter.name]) == format_value(value)
            continue
        assert (parameter.name in configuration) == exists, (parameter, configuration)
        if exists and parameter.fixed is not None:
            assert configuration[parameter.name] is parameter.fixed.value
        elif exists:
            assert holds(parameter, configuration[parameter.name])
    assert all(evaluated(text, configuration) in (True, None) for text in space.constraints), configuration


def evaluated(text: str, configuration: Mapping[str, Scalar]) -> Any:
    """By Python itself; None where it needs a parameter that does not exist."""
    try:
        return eval(text, {"__builtins__": {}}, dict(configuration))
    except NameError:
        return None


def all_configurations(space: Space) -> Iterator[Configuration]:
    """Every configuration of a finite space, found by trying all combinations of values."""
    found = set()
    sampled = [parameter for parameter in space.parameters if parameter.is_sampled]
    for values in itertools.product(*(named_values(manifest_of(parameter)) for parameter in sampled)):
        configuration = completed(space, dict(zip([parameter.name for parameter in sampled], values, strict=True)))
        if configuration is None:
            continue
        key = tuple((name, format_value(value)) for name, value in configuration.items())
        if key not in found:
            found.add(key)
            yield configuration


def completed(space: Space, values: dict[str, Scalar]) -> Configuration | None:
    """The one configuration that passes the check and has these values, if there is one."""
    fixed = {parameter.name: parameter.fixed.value for parameter in space.parameters if parameter.fixed is not None}
    active = {**values, **fixed}
    for _ in space.parameters:  # as often as anything can depend on anything
        for parameter in space.parameters:
            if any(not is_met(active, parent, allowed) for parent, allowed in parameter.when.items()):
                active.pop(parameter.name, None)
    for _ in space.parameters:
        for parameter in space.parameters:
            if parameter.expression is None or any(
                not is_met(active, parent, allowed) for parent, allowed in parameter.when.items()
            ):
                continue
            try:
                value = evaluated(parameter.expression, active)
            except (ZeroDivisionError, TypeError):
                return None
            if value is not None:
                active[parameter.name] = {"3": 3, "true": True}.get(value, value)
    try:
        if any(evaluated(text, active) not in (True, None) for text in space.constraints):
            return None
    except ZeroDivisionError:
        return None
    return {parameter.name: active[parameter.name] for parameter in space.parameters if parameter.name in active}


def is_met(active: Mapping[str, Scalar], parent: str, allowed: Sequence[Scalar]) -> bool:
    if parent not in active:
        return False
    value = active[parent]
    return any(value == other and (type(value) is type(other) or isinstance(value, float)) for other in allowed)


def manifest_of(parameter: Parameter) -> Manifest:
    return parameter.model_dump(by_alias=True, exclude_none=True)
