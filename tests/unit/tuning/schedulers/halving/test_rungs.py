from __future__ import annotations

import math
import warnings
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.tuning.schedulers.halving.rungs import PromotionRung, Rung, percentile


@given(
    values=st.lists(st.floats(allow_nan=False), min_size=1, max_size=40),
    reduction_factor=st.integers(2, 100),
)
def test_the_percentile_is_numpys_to_the_last_bit(values: list[float], reduction_factor: int) -> None:
    percent = (1 - 1 / reduction_factor) * 100
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # infinities
        theirs = float(np.nanpercentile(values, percent))
    ours = percentile(sorted(values), percent / 100)
    assert ours == theirs or (math.isnan(ours) and math.isnan(theirs))


def test_a_trial_enters_a_rung_once() -> None:
    rung = Rung(3)
    rung.enter(7, 0.5)
    with pytest.raises(ValueError, match="trial 7 is already recorded at rung 3"):
        rung.enter(7, 0.6)
    assert rung.rewards == {7: 0.5}


def test_without_a_number_to_compare_with_there_is_no_cutoff() -> None:
    rung = Rung(3)
    assert rung.compute_cutoff(4) is None
    rung.enter(0, math.nan)
    assert rung.compute_cutoff(4) is None
    assert rung.ranked == 0


@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40),
    milestone=st.integers(1, 99),
    mode=st.sampled_from(["max", "min"]),
)
def test_promoted_are_the_best_down_to_numpys_quantile(
    values: list[float], milestone: int, mode: Literal["max", "min"]
) -> None:
    """One after the other, the best first, and of equals the first that came."""
    share = milestone / 100
    sign = 1 if mode == "max" else -1
    rung = PromotionRung(milestone, share, mode)
    for trial, value in enumerate(values):
        rung.add(trial, sign * value)
    promoted = []
    while (promotion := rung.find_promotable(range(len(values)))) is not None:
        promoted.append(promotion.trial)
        rung.promote(promotion.trial)
    cutoff = float(np.quantile([sign * value for value in values], 1 - share))
    expected = sorted(range(len(values)), key=lambda trial: (-sign * values[trial], trial))
    assert promoted == expected[: len(promoted)]
    clear = [trial for trial in expected if abs(sign * values[trial] - cutoff) > 1e-6 * max(1, abs(cutoff))]
    assert {trial for trial in clear if sign * values[trial] > cutoff} == set(promoted) & set(clear)


def test_a_trial_comes_to_a_promotion_rung_once() -> None:
    rung = PromotionRung(3, 0.5, "max")
    rung.add(7, 0.5)
    with pytest.raises(ValueError, match="trial 7 has already reached rung 3"):
        rung.add(7, 0.6)
