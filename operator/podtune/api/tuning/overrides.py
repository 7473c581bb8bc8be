"""A trial's configuration with values that its user has changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from podtune.api.base import FieldError
from podtune.api.json_values import read_json_text
from podtune.api.tuning.configuration import ConfigurationRules, InvalidConfiguration
from podtune.api.tuning.domain_values import find_own_value
from podtune.api.tuning.search_space import (
    ChoiceDomain,
    IntDomain,
    Parameter,
    Scalar,
    format_value,
    parse_plain_value,
    parse_value,
)


def apply_overrides(
    parameters: Sequence[Parameter],
    constraints: Sequence[str],
    present: Mapping[str, str],
    overrides: Mapping[str, str],
    field: str = "overrides",
) -> dict[str, str]:
    """The configuration that a trial with the configuration `present` continues with; computed values are recomputed.

    Args:
        parameters: All parameters of the manifest, in its order.
        constraints: The manifest's constraints.
        present: What the trial has; nothing if it is new.
        overrides: The values that a person has given.
        field: Where they stand in a Trial's spec.

    Raises:
        FieldError: They make no configuration of the search space; the path starts at a Trial's spec.
    """
    by_name = {parameter.name: parameter for parameter in parameters}
    values = {
        name: parse_value(by_name[name], written)
        for name, written in present.items()
        if name in by_name and by_name[name].is_sampled
    }
    for name, written in overrides.items():
        values[name] = _read(by_name, name, written, field)
    try:
        configuration = ConfigurationRules(parameters, constraints).build_configuration(values)
    except KeyError as missing:
        raise FieldError(field, f"leave {missing} without a value, which the trial now needs; add one") from missing
    except InvalidConfiguration as refused:
        raise FieldError(field, f"don't make a valid configuration: {refused}; change a value") from refused
    for name in overrides:
        if name not in configuration:
            conditions = ", ".join(by_name[name].when)
            raise FieldError(f"{field}.{name}", f"does not exist with this trial's values of {conditions}; remove it")
    return {name: format_value(value) for name, value in configuration.items()}


def _read(by_name: Mapping[str, Parameter], name: str, written: str, field: str) -> Scalar:
    parameter = by_name.get(name)
    if parameter is None:
        known = ", ".join(known.name for known in by_name.values() if known.is_sampled)
        raise FieldError(f"{field}.{name}", f"is not a parameter; correct or remove it (parameters: {known})")
    if not parameter.is_sampled:
        kind = "fixed" if parameter.fixed is not None else "computed"
        raise FieldError(f"{field}.{name}", f"is {kind} for all trials; remove it")
    value = _parse_value(parameter, written)
    if value is None:
        raise FieldError(
            f"{field}.{name}", f"{written!r:.66} is not a value of the parameter; choose one of its domain"
        )
    return value


def _parse_value(parameter: Parameter, written: str) -> Scalar | None:
    """The value that a text means, also where a searcher would write it in another way; None where it is none."""
    match parameter.domain:
        case ChoiceDomain(values=values):
            listed = (value for value in values if format_value(value) in (written, read_json_text(written)))
            return next(listed, None) or find_own_value(parameter, parse_plain_value(written))
        case IntDomain():
            kind: type[int] | type[float] = int
        case _:
            kind = float
    try:
        number = kind(written)
    except ValueError:
        return None
    return find_own_value(parameter, number) if math.isfinite(number) else None
