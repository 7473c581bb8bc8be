from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.tuning.schedulers.curves import EXACT, MAX_TIMES, Curve, RunningMeans, sum_pairwise
from podtune.tuning.schedulers.records import MAX_VALUE

values = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.floats(-1, 1), st.sampled_from([0.0, -0.0, 0.1]))
MAX_RECORD = 1024
"""So many entries may a section of a record have."""


def curve_of(*points: tuple[float, float]) -> Curve:
    curve = Curve()
    for time, value in points:
        curve.add(time, value)
    return curve


class TestPairwiseSum:
    @given(st.lists(st.floats(-1e6, 1e6), max_size=600))
    def test_is_numpys_to_the_last_bit(self, numbers: list[float]) -> None:
        assert sum_pairwise(numbers) == np.add.reduce(np.array(numbers, dtype=float))

    def test_of_many_numbers_too(self) -> None:
        draw = random.Random(0)
        for count in (1023, 1024, 1030, 4099):
            numbers = [draw.gauss(0, 1) * 10 ** draw.randrange(-5, 5) for _ in range(count)]
            assert sum_pairwise(numbers) == np.add.reduce(np.array(numbers))


class TestMeans:
    def test_up_to_and_with_a_time(self) -> None:
        curve = curve_of((2, 1.0), (4, 3.0), (4.5, 8.0))
        assert math.isnan(curve.compute_mean_at(1.9))
        assert [curve.compute_mean_at(time) for time in (2, 3.9, 4, 4.5, 99)] == [1.0, 1.0, 2.0, 4.0, 4.0]

    def test_two_results_at_the_same_time_both_count(self) -> None:
        assert curve_of((1, 0.0), (2, 3.0), (2, 3.0)).compute_mean_at(2) == 2.0

    def test_nan_stays(self) -> None:
        curve = curve_of((1, math.nan), (2, 1.0))
        assert math.isnan(curve.compute_mean_at(2))


class TestMerging:
    def test_so_many_results_are_exact(self) -> None:
        draw = random.Random(1)
        points = [(time, draw.random()) for time in range(EXACT)]
        curve = curve_of(*points)
        for time in range(0, EXACT, 17):
            assert curve.compute_mean_at(time) == np.mean([value for _, value in points[: time + 1]])

    @pytest.mark.parametrize("results", [EXACT + 1, EXACT + 2, 3000, 5 * EXACT, 20_001])
    def test_beyond_that_means_are_those_of_all_results_but_the_latest_few(self, results: int) -> None:
        draw = random.Random(2)
        points = [(float(time), draw.random()) for time in range(results)]
        curve = curve_of(*points)
        stride = int(curve.record()["merged"]["stride"])
        assert EXACT * stride >= results
        assert stride * EXACT // 2 < results
        cumulated = np.cumsum([value for _, value in points])
        for time in [*range(stride, results, 131), results - 1]:
            nearby = [cumulated[at] / (at + 1) for at in range(max(0, time - stride + 1), time + 1)]
            assert min(abs(mean - curve.compute_mean_at(time)) for mean in nearby) < 1e-12
        assert curve.compute_mean_at(results - 1) == pytest.approx(cumulated[-1] / results, rel=1e-12)

    def test_a_record_stays_bounded(self) -> None:
        curve = curve_of(*((time + 0.12345678901234567, math.sin(time)) for time in range(40_000)))
        points = curve.record()["curve"]
        assert len(points) <= MAX_RECORD
        assert all(len(text) <= MAX_VALUE for text in points.values())


class TestRecord:
    def test_a_time_is_written_where_it_is_not_one_more(self) -> None:
        curve = curve_of((3, 0.5), (4, 0.61), (5, 0.7), (7, 1.0), (7.5, math.nan))
        assert curve.record() == {"curve": {"0": "3@0.5 0.61 0.7 7@1 7.5@nan"}}

    def test_nothing_is_written_of_nothing(self) -> None:
        assert Curve().record() == {}
        assert Curve.parse({}).last == -math.inf

    @given(
        st.lists(st.tuples(st.sampled_from([0.0, 1.0, 1.0, 1.0, 0.5, 3.25]), values), max_size=100),
        st.integers(0, 2500),
    )
    @settings(deadline=None, max_examples=50)
    def test_what_is_read_back_goes_on_alike(self, steps: list[tuple[float, float]], before: int) -> None:
        """Also where neighbours have been merged, and will be."""
        curve = curve_of(*((time, 1 / (time + 1)) for time in range(before)))
        time = max(curve.last, 0.0)
        reread = Curve.parse(curve.record())
        for step, value in steps:
            time += step
            curve.add(time, value)
            reread.add(time, value)
        again = Curve.parse(reread.record())
        assert again.record() == reread.record() == curve.record()
        for at in (0, time / 3, time / 2, time - 1, time):
            assert (
                repr(curve.compute_mean_at(at)) == repr(reread.compute_mean_at(at)) == repr(again.compute_mean_at(at))
            )

    @pytest.mark.parametrize(
        "record",
        [
            {"curve": {"0": "0.5 0.6"}},
            {"curve": {"0": "1@high"}},
            {"curve": {"first": "1@0.5"}},
            {"curve": {"0": "4@0.5 3@0.6"}},
            {"curve": {"0": "1@0.5"}, "merged": {"stride": "2", "points": "7"}},
        ],
    )
    def test_what_nobody_wrote_is_refused(self, record: dict[str, dict[str, str]]) -> None:
        with pytest.raises(ValueError):  # noqa: PT011 - each has a message of its own
            Curve.parse(record)


class TestRunningMeans:
    @given(st.randoms(use_true_random=False), st.integers(1, 12))
    @settings(deadline=None, max_examples=100)
    def test_are_those_of_all_curves_that_reach_the_time(self, draw: random.Random, trials: int) -> None:
        """Whatever was asked for before, and whichever came and went."""
        means = RunningMeans()
        points: dict[int, list[tuple[float, float]]] = {}
        for _ in range(80):
            trial = draw.randrange(trials)
            if trial not in points:
                points[trial] = []
                means.enter(trial, Curve())
            elif draw.random() < 0.05:
                means.remove(trial)
                del points[trial]
                continue
            last = points[trial][-1][0] if points[trial] else 0.0
            point = (last + draw.choice([0, 1, 1, 1, 2.5]), draw.choice([0.1, draw.random(), math.nan, math.inf]))
            points[trial].append(point)
            means.add(trial, *point)
            time = draw.choice([point[0], draw.randrange(30)])
            assert list(means.list_means(time)) == brute_force(points, time)

    def test_merging_changes_the_means_that_were_asked_for_before(self) -> None:
        means = RunningMeans()
        means.enter(0, Curve())
        for time in range(EXACT + 2):
            means.add(0, time, float(time % 7))
            means.list_means(time)
        assert list(means.list_means(4)) == [means.get_curve(0).compute_mean_at(4)] == [np.mean([0, 1, 2, 3])]

    def test_only_so_many_times_are_kept(self) -> None:
        means = RunningMeans()
        means.enter(0, curve_of((0, 1.0), (1e9, 2.0)))
        for time in range(MAX_TIMES + 50):
            assert list(means.list_means(time)) == [1.0]
        means.add(0, 2e9, 3.0)
        assert list(means.list_means(1.5e9)) == [1.5]


def brute_force(points: dict[int, list[tuple[float, float]]], time: float) -> list[float]:
    reaching = [curve for curve in points.values() if curve and curve[-1][0] >= time]
    scoped = [[value for at, value in curve if at <= time] for curve in reaching]
    with np.errstate(invalid="ignore"):
        found = [float(np.mean(values)) for values in scoped if values]
    return sorted(mean for mean in found if math.isfinite(mean))
