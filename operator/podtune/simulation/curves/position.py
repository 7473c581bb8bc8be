"""Where a value lies in its parameter's domain."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import overload

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

MIDDLE = 0.5
"""Where a parameter counts as lying that has no value: one that another parameter's value switches off."""


def compute_position(parameter: Parameter, value: Scalar | None) -> float:
    """A value's position between the ends of its parameter's domain, 0 to 1 in the domain's own scale.

    Of a distribution it is the share that lies below the value. Choices lie evenly spaced, in the manifest's order.
    Values outside of the domain count as its ends.
    """
    if value is None:
        return MIDDLE
    match parameter.domain:
        case ChoiceDomain(values=values):
            written = [format_value(choice) for choice in values]
            shown = format_value(value)
            return _compute_share(written.index(shown), 0, len(written) - 1) if shown in written else 0.0
        case NormalDomain(mean=mean, stddev=deviation, min=low, max=high):
            return _quantile(float(value), NormalDist(mean, deviation), low, high)
        case LogNormalDomain(mean=mean, stddev=deviation, min=low, max=high):
            return _quantile(
                _compute_log(float(value)), NormalDist(mean, deviation), _compute_log(low), _compute_log(high)
            )
        case FloatDomain(min=low, max=high, scale="log") | IntDomain(min=low, max=high, scale="log"):
            return _compute_share(math.log(max(float(value), low)), math.log(low), math.log(high))
        case FloatDomain(min=low, max=high) | IntDomain(min=low, max=high):
            return _compute_share(float(value), low, high)


def _compute_share(value: float, low: float, high: float) -> float:
    return min(max((value - low) / (high - low), 0.0), 1.0) if high > low else MIDDLE


def _quantile(value: float, distribution: NormalDist, low: float | None, high: float | None) -> float:
    """Which share of a truncated distribution lies below a value."""
    below, above = (0.0 if low is None else distribution.cdf(low)), (1.0 if high is None else distribution.cdf(high))
    return _compute_share(distribution.cdf(value), below, above)


@overload
def _compute_log(number: float) -> float: ...
@overload
def _compute_log(number: float | None) -> float | None: ...
def _compute_log(number: float | None) -> float | None:
    if number is None:
        return None
    return math.log(number) if number > 0 else -math.inf
