"""Rank correlations: what SciPy says, and where nothing can be said."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from podtune.tuning.rank_correlation import correlate_ranks, measure_association

PAIRS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=3, max_size=40)


@settings(max_examples=60, deadline=None)
@given(PAIRS)
def test_it_is_what_scipy_says(pairs: list[tuple[int, int]]) -> None:
    first, second = [x for x, _ in pairs], [y for _, y in pairs]
    found = correlate_ranks(first, second)
    if len(set(first)) < 2 or len(set(second)) < 2:
        assert found is None
    else:
        assert found == pytest.approx(spearmanr(first, second).statistic, abs=1e-12)
        assert found == correlate_ranks([math.exp(x) for x in first], second)


def test_groups_explain_all_some_or_nothing() -> None:
    values = [1.0, 2.0, 10.0, 20.0]
    assert measure_association(["a", "b", "c", "d"], values) == pytest.approx(1)
    assert measure_association(["a", "a", "b", "b"], values) == pytest.approx(2 / math.sqrt(5))
    assert measure_association(["a", "b", "b", "a"], values) == 0
    assert measure_association(["a"] * 4, values) is None
    assert measure_association(["a", "a", "b", "b"], [1.0] * 4) is None
    assert correlate_ranks([], []) is None


@settings(max_examples=60, deadline=None)
@given(PAIRS)
def test_the_order_of_groups_makes_no_difference(pairs: list[tuple[int, int]]) -> None:
    groups, values = [x for x, _ in pairs], [y for _, y in pairs]
    found = measure_association(groups, values)
    renamed = measure_association([(group * 7) % 23 for group in groups], values)
    assert found == renamed
    assert found is None or 0 <= found <= 1
