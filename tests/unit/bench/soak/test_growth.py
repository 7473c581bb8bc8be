"""What grows is told from what goes up and down."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import exp, sin
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.soak.growth import Sample, compute_slope, find_unmeasured, measure_growth, rises_for_good

MEGABYTE = 1e6
FIGURES = Path(__file__).resolve().parents[4] / "e2e" / "soak" / "figures.json"


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


def test_a_leak_that_is_small_beside_the_process_is_found_by_its_course() -> None:
    noise = Random(1)
    growth = measure_growth(samples(lambda time: (60 + time * 2.3 / 3600 + noise.gauss(0, 0.05)) * MEGABYTE))["memory"]
    assert growth.growth < 0.05 * growth.typical
    assert not growth.is_flat


def test_what_rises_by_less_than_a_megabyte_an_hour_is_flat() -> None:
    assert measure_growth(samples(lambda time: (60 + time * 0.8 / 3600) * MEGABYTE))["memory"].is_flat


def test_a_cache_that_fills_more_and_more_slowly_is_no_leak() -> None:
    assert measure_growth(samples(lambda time: (60 - 3 * exp(-time / 600)) * MEGABYTE))["memory"].is_flat


def test_what_is_filled_and_emptied_again_and_again_is_no_leak() -> None:
    assert measure_growth(samples(lambda time: (60 + time % 900 / 450) * MEGABYTE))["memory"].is_flat


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_leak(seed: int) -> None:
    noise = Random(seed)
    assert measure_growth(samples(lambda _: (60 + noise.gauss(0, 0.5)) * MEGABYTE))["memory"].is_flat


def test_a_few_pages_are_no_rise_in_a_short_soak() -> None:
    assert not rises_for_good([60e6 + 40_000 * part for part in range(10)], seconds=300)
    assert rises_for_good([60e6 + 400_000 * part for part in range(10)], seconds=300)


def test_too_few_parts_tell_nothing() -> None:
    assert not rises_for_good([60e6, 61e6, 62e6, 63e6, 64e6], seconds=2700)


def test_one_part_that_falls_ends_the_rise() -> None:
    rising = [60e6 + 2e5 * part for part in range(10)]
    assert rises_for_good(rising, seconds=2700)
    assert not rises_for_good([*rising[:6], rising[5], *rising[7:]], seconds=2700)


def test_the_committed_figures_are_judged_by_this_rule() -> None:
    found = json.loads(FIGURES.read_text())
    rising = {
        process: rises_for_good(measures["memory"]["course"], found["minutes"] * 60)
        for process, measures in found["processes"].items()
    }
    told = {process: measures["memory"]["flat"] for process, measures in found["processes"].items()}
    assert not any(told[process] for process, rises in rising.items() if rises)


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
