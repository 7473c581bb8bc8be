"""The values of a parameter's domain, exactly as the manifest's decimal numbers say.

`min: 0.1, step: 0.1` means 0.1, 0.2, 0.3; floating-point addition would make the last 0.30000000000000004. Values are
therefore computed in decimal arithmetic, from the shortest decimal number of each float, and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext

from podtune.api.tuning.search_space import (
    ChoiceDomain,
    Domain,
    FloatDomain,
    IntDomain,
    LogNormalDomain,
    NormalDomain,
    Parameter,
    Scalar,
)
from podtune.tuning.domains.normal import quantile

_DIGITS = 50
"""Digits to compute with: enough that what is rounded to a float is right to its last bit."""


@dataclass(frozen=True, slots=True)
class Points:
    """Finitely many values in an order, computed one by one, since there may be billions.

    Attributes:
        count: How many values there are.
        value: The value at a position, from 0.
    """

    count: int
    value: Callable[[int], Scalar]


def find_linear_points(domain: Domain) -> Points | None:
    """The values of a domain that is finite and where each value is as likely as any other; else None.

    So they are: choices, integers on a linear scale, and floats with a step.
    """
    match domain:
        case ChoiceDomain(values=values):
            return Points(len(values), values.__getitem__)
        case IntDomain(scale="linear"):
            return _list_integers(domain)
        case FloatDomain(step=float(step)):
            return _list_stepped_floats(domain.min, domain.max, step)
        case _:
            return None


def find_finite_points(domain: Domain) -> Points | None:
    """The values of a domain that is finite, however likely each is; else None."""
    match domain:
        case IntDomain():
            return _list_integers(domain)
        case FloatDomain(min=only, max=high) if only == high:
            return Points(1, lambda _: only)
        case NormalDomain(min=float(low), max=float(high), step=float(step)):
            return _list_stepped_floats(low, high, step)
        case _:
            return find_linear_points(domain)


def list_grid_points(domain: Domain, points: int) -> Points:
    """The values of a domain that a grid goes through: all of them where they are finitely many.

    Args:
        domain: The domain.
        points: How many points, evenly spaced in its scale and both ends included, stand for a float without a step.
            Of a normal distribution they are the middles of as many equally likely parts. Where there are fewer floats
            than that, each is taken once.
    """
    finite = find_finite_points(domain)
    if finite is not None:
        return finite
    match domain:
        case FloatDomain():
            values = _list_evenly_spaced(domain, points)
        case NormalDomain() | LogNormalDomain():
            values = [quantile(domain, (index + 0.5) / points) for index in range(points)]
        case _:
            raise AssertionError("choices and integers are finite")
    values = list(dict.fromkeys(values))
    return Points(len(values), values.__getitem__)


def find_fixed_value(parameter: Parameter) -> Scalar | None:
    """The one value of a domain that has only one; else None.

    An interval on a log scale counts as one value where its ends have the same logarithm.
    """
    domain = parameter.domain
    if isinstance(domain, FloatDomain) and domain.scale == "log" and math.log(domain.min) == math.log(domain.max):
        return domain.min
    finite = find_finite_points(domain)
    return finite.value(0) if finite is not None and finite.count == 1 else None


def _list_integers(domain: IntDomain) -> Points:
    return Points((domain.max - domain.min) // domain.step + 1, lambda index: domain.min + index * domain.step)


def _list_stepped_floats(first: float, last: float, step: float) -> Points:
    low, stride = _make_exact(first), _make_exact(step)
    with localcontext(prec=_DIGITS):
        count = int((_make_exact(last) - low) / stride) + 1

    def value(index: int) -> float:
        with localcontext(prec=_DIGITS):
            return float(low + index * stride)

    return Points(count, value)


def _list_evenly_spaced(domain: FloatDomain, points: int) -> list[float]:
    low, high = _make_exact(domain.min), _make_exact(domain.max)
    with localcontext(prec=_DIGITS):
        if domain.scale == "log":
            ratio = high / low
            inner = [low * ratio ** (Decimal(index) / (points - 1)) for index in range(1, points - 1)]
        else:
            inner = [low + (high - low) * index / (points - 1) for index in range(1, points - 1)]
        return [domain.min, *map(float, inner), domain.max]


def _make_exact(number: float) -> Decimal:
    """The shortest decimal number that reads as this float: what the manifest says."""
    return Decimal(repr(number))
