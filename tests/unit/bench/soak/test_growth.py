"""What grows is told from what goes up and down."""

from __future__ import annotations

from collections.abc import Callable
from math import sin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.soak.growth import Sample, compute_slope, find_unmeasured, measure_growth

MEGABYTE = 1e6


def samples(memory: Callable[[float], float], files: Callable[[float], float] = lambda _: 20.0) -> list[Sample]:
    """Those of 45 minutes, one each 15 seconds."""
    times = [15.0 * number for number in range(180)]
    return [
        Sample(time, {"memory": memory(time), "threads": 5.0, "files": files(time), "sockets": 9.0}) for time in times
    ]


def test_what_goes_up_and_down_is_flat() -> None:
    growth = measure_growth(samples(lambda time: (100 + 3 * sin(time / 60)) * MEGABYTE))
    assert all(measure.is_flat for measure in growth.values())
    assert growth["memory"].typical == pytest.approx(100 * MEGABYTE, rel=0.05)


def test_a_leak_of_memory_is_found_though_it_is_small() -> None:
    growth = measure_growth(samples(lambda time: (100 + time / 300 + sin(time)) * MEGABYTE))
    assert not growth["memory"].is_flat
    assert growth["memory"].growth == pytest.approx(2700 * 0.75 / 300 * MEGABYTE, rel=0.1)


def test_files_that_stay_open_are_found() -> None:
    growth = measure_growth(samples(lambda _: MEGABYTE, lambda time: 20 + time // 400))
    assert not growth["files"].is_flat
    assert growth["sockets"].is_flat


def test_caches_that_fill_in_the_beginning_are_no_leak() -> None:
    growth = measure_growth(samples(lambda time: min(100.0, 50 + time / 10) * MEGABYTE))
    assert growth["memory"].is_flat


def test_the_course_tells_a_leak_from_what_fills_once() -> None:
    filled = measure_growth(samples(lambda time: min(100.0, 50 + time / 10) * MEGABYTE))["memory"].course
    assert filled[2:] == pytest.approx([100 * MEGABYTE] * 8)
    leaking = measure_growth(samples(lambda time: (100 + time / 300) * MEGABYTE))["memory"].course
    assert len(leaking) == 10
    assert list(leaking) == sorted(leaking)


@given(st.floats(-10, 10), st.floats(-1e3, 1e3), st.integers(2, 50))
def test_the_slope_of_a_line_is_its_own(slope: float, start: float, count: int) -> None:
    times = [float(number) for number in range(count)]
    assert compute_slope(times, [start + slope * time for time in times]) == pytest.approx(slope, abs=1e-6)


def test_one_moment_has_no_slope() -> None:
    assert compute_slope([1.0, 1.0], [3.0, 5.0]) == 0.0


def test_tasks_that_each_renewed_watch_leaves_are_found() -> None:
    times = [15.0 * number for number in range(180)]
    leaking = [Sample(time, {"memory": 1e6, "tasks": 60 + 8 * sin(time) + 3 * (time // 300)}) for time in times]
    assert not measure_growth(leaking)["tasks"].is_flat
    steady = [Sample(time, {"memory": 1e6, "tasks": 60 + 8 * sin(time)}) for time in times]
    assert measure_growth(steady)["tasks"].is_flat


def test_what_no_sample_has_is_not_measured() -> None:
    assert "tasks" not in measure_growth(samples(lambda _: MEGABYTE))


def test_a_measure_that_many_samples_lack_is_named() -> None:
    taken = [Sample(float(n), {"memory": 1.0, **({"tasks": 9.0} if n % 4 else {})}) for n in range(100)]
    assert find_unmeasured(taken, ("memory", "tasks")) == {"tasks": 25}
    assert find_unmeasured(taken[1:4], ("memory", "tasks")) == {}
    assert measure_growth(taken)["tasks"].typical == 9
