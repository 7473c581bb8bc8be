"""The learning curve in a trial's status: which results it shows, and that it stays small."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.api.resources.trial import TrialStatus
from podtune.api.resources.trial_curve import MAX_CURVE, MAX_POINTS, TrialCurve
from podtune.api.tuning.objective import Objective
from podtune.protocol.messages import MetricValue, Result
from podtune.runner.trial import results
from podtune.trial.layout import ITERATION, TIME_TOTAL

ACCURACY = Objective(metric="accuracy", mode="max")
ONE = ("accuracy",)
Metrics = dict[str, MetricValue]


def report(status: TrialStatus, step: int, metrics: Metrics, names: Sequence[str] = ONE) -> TrialStatus:
    shown: Metrics = {ITERATION: step, TIME_TOTAL: step * 2.5, **metrics}
    return results.add_result(status, Result(step, 0.0, shown, step), ACCURACY, ITERATION, names)


def report_all(count: int, status: TrialStatus | None = None, first: int = 1) -> TrialStatus:
    status = status or TrialStatus()
    for step in range(first, first + count):
        status = report(status, step, {"accuracy": step / 10})
    return status


def write(status: TrialStatus) -> str:
    return status.model_dump_json(by_alias=True, exclude_defaults=True)


def restart(status: TrialStatus) -> TrialStatus:
    """The status as another operator reads it."""
    return TrialStatus.model_validate(json.loads(write(status)))


def get_curve(status: TrialStatus) -> TrialCurve:
    assert status.curve is not None
    return status.curve


def list_steps(status: TrialStatus) -> list[int]:
    return list(get_curve(status).to_arrays()["steps"])


def list_values(status: TrialStatus) -> list[list[float | None]]:
    return list(get_curve(status).to_arrays()["values"])


def measure_in_api_server(written: str) -> int:
    """Bytes of a curve as Go writes its numbers: from 1e-6 up to 1e21 without an exponent."""

    def rewrite(number: str) -> float:
        value = Decimal(number)
        text = f"{value:f}" if 1e-6 <= abs(value) < 1e21 else number
        sizes.append(len(text) - len(number))
        return float(number)

    sizes: list[int] = []
    json.loads(written, parse_float=rewrite)
    return len(written.encode()) + sum(sizes)


# What it shows


def test_a_short_training_is_shown_whole() -> None:
    assert write(report_all(3)).endswith(
        '"curve":{"results":3,"every":1,"steps":[1,2,3],"seconds":[2.5,5,7.5],"values":[[0.1,0.2,0.3]]},'
        '"iteration":3,"progress":"3.0"}'
    )


def test_a_long_one_is_shown_by_every_so_many_results_and_the_last() -> None:
    curve = get_curve(report_all(1000))
    assert (curve.results, curve.every) == (1000, 16)
    assert list_steps(report_all(1000)) == [*range(1, 1000, 16), 1000]


def test_values_have_five_digits() -> None:
    status = report(report(TrialStatus(), 1, {"accuracy": 0.987654321}), 2, {"accuracy": -1234567.0})
    assert list_values(status) == [[0.98765, -1234600]]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.7976931348623157e308])
def test_what_is_not_finite_is_a_gap(value: float) -> None:
    status = report(report_all(1), 2, {"accuracy": value})
    assert list_values(status) == [[0.1, None]]
    assert restart(status).curve == status.curve


def test_minus_zero_is_read_back_as_it_was() -> None:
    status = report(TrialStatus(), 1, {"accuracy": -0.0})
    assert restart(status).curve == status.curve


def test_results_without_the_objective_are_left_out() -> None:
    status = report(report(report_all(1), 2, {"loss": 0.5}), 3, {"accuracy": "none"})
    assert list_steps(status) == [1]
    assert report(TrialStatus(), 1, {"loss": 0.5}).curve is None


def test_an_objective_that_is_reported_after_other_metrics_of_its_iteration_is_shown() -> None:
    status = report(report(report_all(1), 2, {"loss": 0.5}), 2, {"accuracy": 0.7})
    assert list_values(status) == [[0.1, 0.7]]


def test_a_program_that_says_nothing_of_time_has_a_curve_by_iterations() -> None:
    status = report(TrialStatus(), 1, {"accuracy": 0.5, TIME_TOTAL: "long"})
    assert get_curve(status).to_arrays()["seconds"] == [None]


def test_several_objectives_share_the_points() -> None:
    names, status = ("accuracy", "latency"), TrialStatus()
    for step in range(1, 101):
        metrics: Metrics = {"accuracy": step / 100}
        if step != 5:
            metrics["latency"] = 1.5
        status = report(status, step, metrics, names)
    accuracy, latency = list_values(status)
    assert list_steps(status) == [*range(1, 101, 4), 100]
    assert len(accuracy) + len(latency) <= MAX_POINTS
    assert (accuracy[1], latency[:3]) == (0.05, [1.5, None, 1.5])


# Where a trial goes back


def test_a_stretch_that_is_run_again_is_shown_once() -> None:
    """As the scheduler was shown it: decisions rest on those values."""
    before = report_all(10)
    again = report(report(before, 8, {"accuracy": 0.0}), 9, {"accuracy": 0.0})
    assert again.curve is before.curve
    assert report_all(5, again, first=10).curve == report_all(14).curve


def test_a_clone_goes_on_at_its_donors_iteration() -> None:
    behind = report_all(10).model_copy(update={"iteration": 6, "progress": ""})
    status = report_all(2, behind, first=7)
    assert list_steps(status) == [*range(1, 11), 7, 8]
    again = report_all(4, status, first=7)
    assert list_steps(again) == [*range(1, 11), *range(7, 11)], "a retry of the clone doubles nothing"
    ahead = report_all(4).model_copy(update={"iteration": 20, "progress": ""})
    assert list_steps(report_all(2, ahead, first=21)) == [1, 2, 3, 4, 21, 22]


def test_a_trial_of_an_earlier_release_has_a_curve_from_now_on() -> None:
    status = report_all(2, TrialStatus(iteration=7, progress="7.0"), first=8)
    assert list_steps(status) == [8, 9]


# What always holds

numbers = st.floats(allow_nan=True, allow_infinity=True, width=64)
awkward = st.sampled_from([1e20, -1.2345e20, 1.2345e-6, -9.8765e-300, 123456.0, 2.0**53])
gaps = st.one_of(st.just(1), st.integers(0, 3), st.integers(0, 1 << 44))
reported = st.lists(st.tuples(gaps, st.one_of(numbers, awkward), st.none() | numbers), max_size=200)


def take_in(rows: list[tuple[int, float, float | None]], width: int, restarts: frozenset[int]) -> TrialStatus:
    names = tuple(f"metric-{number}" for number in range(width))
    steps = accumulate((gap for gap, _, _ in rows), initial=0)
    status = TrialStatus()
    for number, (step, (_, value, seconds)) in enumerate(zip(list(steps)[1:], rows, strict=True)):
        metrics: Metrics = dict.fromkeys(names, value)
        time: Metrics = {} if seconds is None else {TIME_TOTAL: seconds}
        result = Result(number + 1, 0.0, {ITERATION: step, **metrics, **time}, step)
        status = results.add_result(status, result, ACCURACY, ITERATION, names)
        status = restart(status) if number in restarts else status
    return status


@given(reported, st.integers(1, 8), st.frozensets(st.integers(0, 199), max_size=8))
def test_it_depends_on_the_results_alone(
    rows: list[tuple[int, float, float | None]], width: int, restarts: frozenset[int]
) -> None:
    """Not on when it was written, nor on who has written it."""
    status, whole = take_in(rows, width, restarts), take_in(rows, width, frozenset())
    assert status.curve == whole.curve
    assert restart(whole) == restart(status)


@given(reported, st.integers(1, 8))
def test_it_is_small_and_shows_every_so_many_results_and_the_last(
    rows: list[tuple[int, float, float | None]], width: int
) -> None:
    status = take_in(rows, width, frozenset())
    if status.curve is None:
        assert rows == []
        return
    curve, shown = status.curve, list_steps(status)
    written = json.dumps({"curve": curve.to_arrays()}, separators=(",", ":"))[1:-1] + ","
    assert len(written) <= MAX_CURVE
    assert measure_in_api_server("{" + written[:-1] + "}") - 1 <= MAX_CURVE
    assert curve.count * width <= MAX_POINTS
    steps = list(accumulate(gap for gap, _, _ in rows))
    told = [steps[0]] + [after for before, after in pairwise(steps) if after > before]
    assert curve.results == len(told)
    assert shown == [*told[: -1 : curve.every], told[-1]]
    assert math.log2(curve.every).is_integer()


def test_long_numbers_have_fewer_points() -> None:
    status, most = TrialStatus(), 0
    for number in range(200):
        step, value = 1_000_000_000 + number, -1.2345e-100 * (number + 1)
        status = report(status, step, {"accuracy": value, TIME_TOTAL: 1.2345e-6 * (number + 1)})
        most = max(most, get_curve(status).count)
        written = json.dumps({"curve": get_curve(status).to_arrays()}, separators=(",", ":"))
        assert measure_in_api_server(written) - 1 <= MAX_CURVE
    assert 16 < most < MAX_POINTS


@given(st.integers(1, 5000))
def test_no_more_resolution_is_lost_than_has_to_be(count: int) -> None:
    curve = TrialCurve(1)
    for step in range(count):
        curve = curve.add(step, float(step), [step / 1000])
        curve = curve.halve() if curve.is_full else curve
    assert curve.count >= min(count, 25)


def test_a_curve_takes_little_memory() -> None:
    assert len(get_curve(report_all(64)).packed) == 64 * 3 * 8
