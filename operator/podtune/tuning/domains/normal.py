"""Normal and log-normal domains, by the inverse of their distribution function.

Whatever can choose a number from 0 to 1 can choose a value of such a domain: the one with that share of all values
below it.
"""

from __future__ import annotations

import math
from decimal import Decimal
from statistics import NormalDist

from podtune.api.tuning.search_space import LogNormalDomain, NormalDomain

NormallyDistributed = NormalDomain | LogNormalDomain
_STANDARD = NormalDist()
_LEAST, _MOST = 2.0**-1000, 1 - 2.0**-53
"""Shares are kept between these: at 0 and 1 a value would be infinite."""
_LARGEST_EXPONENT = 709.0


def quantile(domain: NormallyDistributed, share: float) -> float:
    """The value of a domain below which a share, 0 to 1, of its values lies."""
    low, high = _compute_bounds(domain)
    # Near 1, floats are too far apart: the mirror image is taken there.
    deviation = -_compute_deviation(-high, -low, 1 - share) if low > 0 else _compute_deviation(low, high, share)
    number = domain.mean + domain.stddev * deviation
    match domain:
        case LogNormalDomain():
            number = math.exp(min(max(number, -_LARGEST_EXPONENT), _LARGEST_EXPONENT))
        case NormalDomain(step=float(step)):
            number = float(round(number / step) * Decimal(repr(step)))
    return _clip(domain, number)


def share_below(domain: NormallyDistributed, value: float) -> float:
    """Which share of a domain's values lies below a value, from 0 to 1."""
    low, high = _compute_bounds(domain)
    number = math.log(value) if isinstance(domain, LogNormalDomain) else value
    deviation = min(max((number - domain.mean) / domain.stddev, low), high)
    if low > 0:
        return 1 - _compute_share(-high, -low, -deviation)
    return _compute_share(low, high, deviation)


def _compute_deviation(low: float, high: float, share: float) -> float:
    """The quantile of the standard normal distribution, truncated to an interval."""
    below, above = _cdf(low), _cdf(high)
    whole = below + (above - below) * share
    return min(max(_STANDARD.inv_cdf(min(max(whole, _LEAST), _MOST)), low), high)


def _compute_share(low: float, high: float, deviation: float) -> float:
    below, above = _cdf(low), _cdf(high)
    return (_cdf(deviation) - below) / (above - below)


def _cdf(deviation: float) -> float:
    """The standard normal distribution function; the standard library's has no digits left where it is near 0."""
    return math.erfc(-deviation / math.sqrt(2)) / 2


def _compute_bounds(domain: NormallyDistributed) -> tuple[float, float]:
    """Where the standard normal distribution is truncated. A stepped value has a half step on each side of it."""
    low = -math.inf if domain.min is None else domain.min
    high = math.inf if domain.max is None else domain.max
    if isinstance(domain, LogNormalDomain):
        low, high = (math.log(low) if domain.min is not None else low), (math.log(high))
    elif domain.step is not None:
        low, high = low - domain.step / 2, high + domain.step / 2
    return (low - domain.mean) / domain.stddev, (high - domain.mean) / domain.stddev


def _clip(domain: NormallyDistributed, value: float) -> float:
    if domain.min is not None:
        value = max(value, domain.min)
    return value if domain.max is None else min(value, domain.max)
