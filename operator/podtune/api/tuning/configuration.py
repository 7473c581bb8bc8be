"""Turns values into a configuration: conditions, fixed and computed values, constraints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from podtune.api.base import FieldError
from podtune.api.expressions.expression import Expression, ExpressionError, UnknownName
from podtune.api.tuning.dependencies import Dependencies, exists
from podtune.api.tuning.domain_values import find_own_value
from podtune.api.tuning.search_space import Parameter, Scalar, format_value, parse_plain_value


class InvalidConfiguration(ValueError):
    """Values make no configuration.

    Attributes:
        by: What is against it, such as: the constraint 'batch <= 64'.
    """

    def __init__(self, by: str, why: str) -> None:
        super().__init__(f"{by} {why}")
        self.by = by


class ConfigurationRules:
    """Completes sampled values to configurations, and refuses those that break a constraint.

    Attributes:
        refuses: Whether some values make no configuration.
        sampled: Names of the parameters that a searcher chooses values for.
    """

    def __init__(self, parameters: Sequence[Parameter], constraints: Sequence[str] = ()) -> None:
        """Takes in what configurations have to hold.

        Args:
            parameters: All parameters of the manifest, in its order.
            constraints: The manifest's constraints.

        Raises:
            FieldError: They don't fit together.
        """
        self.dependencies = Dependencies(parameters)
        self._constraints = self.dependencies.parse_constraints(constraints)
        self._parameters = {parameter.name: parameter for parameter in parameters}
        self._fixed = {parameter.name: parameter.fixed.value for parameter in parameters if parameter.fixed is not None}
        self.refuses = bool(self._constraints or self.dependencies.expressions)
        self.sampled = tuple(parameter.name for parameter in parameters if parameter.is_sampled)

    def build_configuration(self, values: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
        """The configuration that sampled values make: the parameters that exist, in the manifest's order.

        Args:
            values: A value for each sampled parameter; values of parameters that don't exist are ignored.

        Raises:
            InvalidConfiguration: A constraint does not hold, or an expression has no value; it says what.
            KeyError: A parameter that exists is given no value.
        """
        active: dict[str, Scalar] = {}
        for name in self.dependencies.order:
            if exists(self.dependencies.conditions[name], active):
                active[name] = self._fixed[name] if name in self._fixed else values[name]
        for name, expression in self.dependencies.expressions.items():
            if exists(self.dependencies.conditions[name], active):
                _compute(name, expression, active)
        for constraint in self._constraints:
            _demand(constraint, active)
        return {name: active[name] for name in self._parameters if name in active}

    def complete(self, given: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
        """The configuration that values in a manifest make: one for each sampled parameter that exists.

        Args:
            given: As they were read from the manifest; 1 is also the float 1.0.

        Raises:
            FieldError: A value is missing, is none of its parameter's, or is one too many; the path is its name.
            InvalidConfiguration: See `build_configuration`.
        """
        values: dict[str, Scalar] = {}
        for name in self.dependencies.order:
            conditions = self.dependencies.conditions[name]
            if exists(conditions, values):
                values[name] = self._read_value(self._parameters[name], given)
            elif name in given:
                raise FieldError(name, f"does not exist with these values of {', '.join(conditions)}; leave it out")
        for name in given.keys() - values.keys():
            if name in self._parameters:
                raise FieldError(name, "is computed; leave it out")
            chosen = ", ".join(self.sampled)
            raise FieldError(name, f"is not a parameter; remove or correct it (parameters: {chosen})")
        return self.build_configuration(values)

    def recognise(self, written: Mapping[str, str]) -> Mapping[str, Scalar] | None:
        """The configuration of this space with values of another one's, matched by name; None where there is none."""
        values = {name: parse_plain_value(text) for name, text in written.items()}
        own = {
            name: value
            for name, parameter in self._parameters.items()
            if name in values
            and parameter.is_sampled
            and (value := find_own_value(parameter, values[name])) is not None
        }
        try:
            return self.build_configuration(own)
        except (KeyError, InvalidConfiguration):
            return None

    def _read_value(self, parameter: Parameter, given: Mapping[str, Scalar]) -> Scalar:
        name = parameter.name
        if parameter.fixed is not None and name not in given:
            return parameter.fixed.value
        if name not in given:
            raise FieldError(name, "is missing; give a value for each parameter that a searcher would choose")
        value = find_own_value(parameter, given[name])
        if value is None:
            shown = format_value(given[name])
            if parameter.fixed is not None:
                raise FieldError(name, f"{shown:.64} is not the fixed value; leave it out")
            raise FieldError(name, f"{shown:.64} is not a value of the parameter; choose one of its domain")
        return value


def _compute(name: str, expression: Expression, active: dict[str, Scalar]) -> None:
    """Adds a computed value; there is none where it needs a parameter that does not exist."""
    by = f"the expression {expression.text!r} of {name}"
    try:
        value = expression.evaluate(active)
    except UnknownName:
        return
    except ExpressionError as error:
        raise InvalidConfiguration(by, f"has no value ({error})") from error
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidConfiguration(by, f"evaluates to {value}, which is not a finite number")
    active[name] = parse_plain_value(format_value(value))


def _demand(constraint: Expression, active: Mapping[str, Scalar]) -> None:
    """Refuses what does not hold; nothing is demanded of a parameter that does not exist."""
    by = f"the constraint {constraint.text!r}"
    try:
        if constraint.holds(active):
            return
    except UnknownName:
        return
    except ExpressionError as error:
        raise InvalidConfiguration(by, f"has no value ({error})") from error
    raise InvalidConfiguration(by, "does not hold")
