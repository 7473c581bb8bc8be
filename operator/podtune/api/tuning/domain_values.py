"""Which values lie in a parameter's domain."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from podtune.api.base import FieldError
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


def find_own_value(parameter: Parameter, value: Scalar) -> Scalar | None:
    """The value of a parameter that a manifest means: 1 is also the float 1.0; None where it is none of its values."""
    if parameter.fixed is not None:
        return _find_listed([parameter.fixed.value], value)
    match parameter.domain:
        case ChoiceDomain(values=values):
            return _find_listed(values, value)
        case IntDomain(min=low, max=high, step=step):
            is_own = type(value) is int and low <= value <= high and (value - low) % step == 0
            return value if is_own else None
        case domain:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return float(value) if is_number and _lies_in(domain, float(value)) else None


def has_distinct_values(parameter: Parameter) -> bool:
    """Whether one can name each value of a sampled or fixed parameter; of an interval nobody can."""
    if parameter.fixed is not None:
        return True
    match parameter.domain:
        case ChoiceDomain() | IntDomain():
            return True
        case FloatDomain(step=step) | NormalDomain(step=step):
            return step is not None
        case LogNormalDomain():
            return False


def check_finite(parameters: Sequence[Parameter]) -> None:
    """Refuses parameters whose values can't be enumerated.

    Raises:
        FieldError: With the field, from the Experiment's spec on, and the remedy.
    """
    for index, parameter in enumerate(parameters):
        problem = _explain_infinity(parameter)
        if problem:
            raise FieldError(
                f"parameters[{index}]", f"{parameter.name} has infinitely many values; {problem}, or use grid"
            )


def _explain_infinity(parameter: Parameter) -> str:
    """What to give a parameter so that its values can be listed; empty where they can be."""
    match parameter.domain if parameter.is_sampled else None:
        case FloatDomain(min=low, max=high, step=None) if low < high:
            return "give it a step"
        case NormalDomain(min=low, max=high, step=step) if None in (low, high, step):
            return "give it min, max and step"
        case LogNormalDomain():
            return "use float with a step"
        case _:
            return ""


def _find_listed(values: list[Scalar], value: Scalar) -> Scalar | None:
    return next((own for own in values if format_value(own) == format_value(value)), None)


def _lies_in(domain: FloatDomain | NormalDomain | LogNormalDomain, value: float) -> bool:
    if (domain.min is not None and value < domain.min) or (domain.max is not None and value > domain.max):
        return False
    match domain:
        case FloatDomain(min=low, step=float(step)):
            return _is_on_grid(value, low, step)
        case NormalDomain(step=float(step)):
            return Fraction(repr(value)) % Fraction(repr(step)) == 0
        case LogNormalDomain():
            return value > 0
        case _:
            return True


def _is_on_grid(value: float, low: float, step: float) -> bool:
    """Whether a value is so many steps above another one, as near as a float can say it."""
    start, stride = Fraction(repr(low)), Fraction(repr(step))
    return value == float(start + round((Fraction(repr(value)) - start) / stride) * stride)
