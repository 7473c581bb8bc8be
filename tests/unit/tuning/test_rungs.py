from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.tuning.schedulers.rungs import Rung, percentile


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
    with pytest.raises(ValueError, match="trial 7 is recorded at rung 3 already"):
        rung.enter(7, 0.6)
    assert rung.rewards == {7: 0.5}


def test_without_a_number_to_compare_with_there_is_no_cutoff() -> None:
    rung = Rung(3)
    assert rung.cutoff(4) is None
    rung.enter(0, math.nan)
    assert rung.cutoff(4) is None
    assert rung.ranked == 0
