"""From a number between 0 and 1 to a value of a domain: how a point of the unit cube becomes a configuration."""

from __future__ import annotations

import math

from podtune.api.tuning.search_space import (
    ChoiceDomain,
    Domain,
    FloatDomain,
    IntDomain,
    LogNormalDomain,
    NormalDomain,
    Scalar,
)
from podtune.tuning.domains import normal
from podtune.tuning.domains.points import find_linear_points


def compute_value_at(domain: Domain, share: float) -> Scalar:
    """The value of a domain below which a share of its values lies.

    Values that are finitely many and equally likely each have a part of the same width. Log scale: uniform in the
    logarithm; an integer is rounded from between half below its minimum and half above its maximum, so that the ends
    are not half as likely as their neighbours.

    Args:
        domain: The domain.
        share: From 0 to 1.
    """
    points = find_linear_points(domain)
    if points is not None:
        return points.value(min(int(share * points.count), points.count - 1))
    match domain:
        case IntDomain(min=low, max=high):
            return min(max(round(_log_uniform(low - 0.5, high + 0.5, share)), low), high)
        case FloatDomain(min=low, max=high, scale="log"):
            return min(max(_log_uniform(low, high, share), low), high)
        case FloatDomain(min=low, max=high):
            return min(max(low * (1 - share) + high * share, low), high)  # high - low may overflow
        case NormalDomain() | LogNormalDomain():
            return normal.quantile(domain, share)
        case ChoiceDomain():
            raise AssertionError("choices are finite")


def share_of(domain: Domain, value: Scalar) -> float:
    """The share that `compute_value_at` makes a value of: where it lies in its domain; 0 or 1 for what lies outside."""
    if isinstance(domain, ChoiceDomain):
        raise TypeError("choices have no order")
    number = float(value)
    match domain:
        case IntDomain(min=low, max=high, scale="log"):
            share = _log_share(low - 0.5, high + 0.5, number)
        case IntDomain(min=low, step=float() | int() as step) | FloatDomain(min=low, step=float() as step):
            points = find_linear_points(domain)
            assert points is not None  # it has steps
            share = ((number - low) / step + 0.5) / points.count
        case FloatDomain(min=low, max=high, scale="log"):
            share = _log_share(low, high, number)
        case FloatDomain(min=low, max=high):
            share = _compute_linear_share(low, high, number)
        case NormalDomain() | LogNormalDomain():
            share = normal.share_below(domain, number)
    return min(max(share, 0.0), 1.0)


def _compute_linear_share(low: float, high: float, number: float) -> float:
    if low >= high:
        return 0.5
    if math.isinf(high - low):
        return (number / 2 - low / 2) / (high / 2 - low / 2)
    return (number - low) / (high - low)


def _log_share(low: float, high: float, number: float) -> float:
    if low >= high:
        return 0.5
    return (math.log(max(number, low)) - math.log(low)) / (math.log(high) - math.log(low))


def _log_uniform(low: float, high: float, share: float) -> float:
    return math.exp(math.log(low) + (math.log(high) - math.log(low)) * share)
