from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from podtune.api.tuning.search_space import LogNormalDomain, NormalDomain, Parameter
from podtune.testing.spaces import holds, normal_parameters, stepped_normal_parameters
from podtune.tuning.domains.normal import quantile, share_below
from podtune.tuning.domains.points import find_finite_points, list_grid_points

SHARES = np.linspace(0.001, 0.999, 200)


def frozen(domain: NormalDomain | LogNormalDomain) -> Any:
    """SciPy's distribution of the same numbers, or of their logarithms."""
    log = isinstance(domain, LogNormalDomain)
    low, high = (
        (bound if not log else math.log(bound)) if bound is not None else sign * math.inf
        for bound, sign in ((domain.min, -1), (domain.max, 1))
    )
    bounds = (low - domain.mean) / domain.stddev, (high - domain.mean) / domain.stddev
    return stats.truncnorm(*bounds, loc=domain.mean, scale=domain.stddev)


@pytest.mark.parametrize(
    "domain",
    [
        NormalDomain(mean=0, stddev=1),
        NormalDomain(mean=-3, stddev=0.1),
        NormalDomain(mean=0, stddev=1, min=-1, max=2),
        NormalDomain(mean=0, stddev=1, min=0),
        NormalDomain(mean=0, stddev=1, max=-0.5),
        NormalDomain(mean=0, stddev=1, min=7.9),
        NormalDomain(mean=0, stddev=1, max=-7.9),
        NormalDomain(mean=5, stddev=2, min=9, max=9.5),
    ],
)
def test_quantiles_are_scipys(domain: NormalDomain) -> None:
    expected = frozen(domain).ppf(SHARES)
    np.testing.assert_allclose([quantile(domain, share) for share in SHARES], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "domain",
    [
        LogNormalDomain(mean=-7, stddev=1.5),
        LogNormalDomain(mean=0, stddev=1, min=0.5, max=20),
        LogNormalDomain(mean=2, stddev=0.3, min=30),
    ],
)
def test_the_logarithm_of_a_log_normal_number_is_normal(domain: LogNormalDomain) -> None:
    logarithms = [math.log(quantile(domain, share)) for share in SHARES]
    np.testing.assert_allclose(logarithms, frozen(domain).ppf(SHARES), rtol=1e-9, atol=1e-9)


def test_a_step_takes_half_a_step_on_each_side() -> None:
    domain = NormalDomain(mean=0, stddev=1, min=-1, max=1, step=0.5)
    random = Random(1)
    drawn = [quantile(domain, random.random()) for _ in range(20_000)]
    wide = stats.truncnorm(-1.25, 1.25)
    for value in (-1.0, -0.5, 0.0, 0.5, 1.0):
        expected = wide.cdf(value + 0.25) - wide.cdf(value - 0.25)
        assert drawn.count(value) / 20_000 == pytest.approx(expected, abs=0.012)


@given(data=st.data(), share=st.floats(0, 1))
@settings(max_examples=300, deadline=None)
def test_any_share_is_a_value_of_the_domain_and_leads_back(data: st.DataObject, share: float) -> None:
    parameter = data.draw(st.one_of(normal_parameters("x"), stepped_normal_parameters("x")))
    domain = parameter.domain
    assert isinstance(domain, NormalDomain | LogNormalDomain)
    value = quantile(domain, share)
    assert holds(parameter, value)
    again = share_below(domain, value)
    assert 0 <= again <= 1
    if not isinstance(domain, NormalDomain) or domain.step is None:
        assert again == pytest.approx(share, abs=1e-9)


@given(data=st.data(), shares=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_a_larger_share_is_a_larger_value(data: st.DataObject, shares: tuple[float, float]) -> None:
    domain = data.draw(normal_parameters("x")).domain
    assert isinstance(domain, NormalDomain | LogNormalDomain)
    low, high = sorted(shares)
    assert quantile(domain, low) <= quantile(domain, high)


def test_the_farthest_values_are_finite() -> None:
    widest = LogNormalDomain(mean=700, stddev=100)
    assert [math.isfinite(quantile(widest, share)) for share in (0, 1e-300, 0.5, 1)] == [True] * 4
    assert quantile(LogNormalDomain(mean=-700, stddev=100), 0) > 0


def test_a_grid_takes_the_middles_of_equally_likely_parts() -> None:
    points = list_grid_points(NormalDomain(mean=10, stddev=2), 4)
    assert [points.value(place) for place in range(points.count)] == pytest.approx(
        [10 + 2 * stats.norm.ppf(share) for share in (0.125, 0.375, 0.625, 0.875)]
    )


def test_a_grid_takes_each_rounded_value_once() -> None:
    points = list_grid_points(NormalDomain(mean=0, stddev=1, step=1), 9)
    assert [points.value(place) for place in range(points.count)] == [-2.0, -1.0, 0.0, 1.0, 2.0]


def test_with_a_step_and_bounds_there_are_finitely_many() -> None:
    domain = Parameter.model_validate(
        {"name": "x", "normal": {"mean": 0, "stddev": 1, "min": -0.3, "max": 0.6, "step": 0.3}}
    ).domain
    points = find_finite_points(domain)
    assert [points.value(place) for place in range(points.count)] == [-0.3, 0.0, 0.3, 0.6]
    assert find_finite_points(NormalDomain(mean=0, stddev=1, step=0.3)) is None
