from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.api.tuning.search_space import ChoiceDomain, FloatDomain, IntDomain, NormalDomain
from podtune.testing.spaces import search_spaces
from podtune.tuning.domains.quantiles import compute_value_at, share_of


@given(space=search_spaces(), draw=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=200)
def test_the_share_of_a_value_leads_back_to_it(space: list[Any], draw: random.Random) -> None:
    for parameter in space:
        domain = parameter.domain
        if isinstance(domain, ChoiceDomain):
            continue
        value = compute_value_at(domain, draw.uniform(0.01, 0.99))
        share = share_of(domain, value)
        assert 0 <= share <= 1
        back = compute_value_at(domain, share)
        scale = max(abs(float(value)), abs(float(back)), 1e-300)
        assert back == value or math.isclose(float(back), float(value), rel_tol=1e-6, abs_tol=1e-6 * scale)


@pytest.mark.parametrize(
    ("domain", "value", "share"),
    [
        (FloatDomain(min=-1.0, max=3.0), 0.0, 0.25),
        (FloatDomain(min=0.01, max=1.0, scale="log"), 0.1, 0.5),
        (FloatDomain(min=-1.7e308, max=1.7e308), 0.0, 0.5),
        (FloatDomain(min=2.0, max=2.0), 2.0, 0.5),
        (IntDomain(min=1, max=4), 1, 0.125),
        (IntDomain(min=8, max=32, step=8), 32, 0.875),
        (NormalDomain(mean=5.0, stddev=2.0), 5.0, 0.5),
        (FloatDomain(min=0.0, max=1.0), 7.0, 1.0),
        (IntDomain(min=16, max=512, scale="log"), 1, 0.0),
    ],
)
def test_it_is_where_the_value_lies_in_its_domain(domain: Any, value: float, share: float) -> None:
    assert share_of(domain, value) == pytest.approx(share)


def test_choices_have_no_order() -> None:
    with pytest.raises(TypeError, match="no order"):
        share_of(ChoiceDomain(values=["a", "b"]), "a")
