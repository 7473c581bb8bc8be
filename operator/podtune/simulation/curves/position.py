"""Where a value lies in its parameter's domain."""

from __future__ import annotations

import math

from podtune.api.search_space import ChoiceDomain, Parameter, Scalar, format_value

MIDDLE = 0.5
"""Where a parameter counts as lying that has no value: one that another parameter's value switches off."""


def position(parameter: Parameter, value: Scalar | None) -> float:
    """A value's place between the ends of its parameter's domain, 0 to 1 in the domain's own scale.

    Choices lie evenly spaced, in the manifest's order. Values outside of the domain count as its ends.
    """
    domain = parameter.domain
    if value is None:
        return MIDDLE
    if isinstance(domain, ChoiceDomain):
        written = [format_value(choice) for choice in domain.values]
        return _share(written.index(format_value(value)), 0, len(written) - 1) if format_value(value) in written else 0
    low, high, number = float(domain.min), float(domain.max), float(value)
    if domain.scale == "log":
        return _share(math.log(max(number, low)), math.log(low), math.log(high))
    return _share(number, low, high)


def _share(value: float, low: float, high: float) -> float:
    return min(max((value - low) / (high - low), 0.0), 1.0) if high > low else MIDDLE
