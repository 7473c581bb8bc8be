"""What a result changes in its trial's status."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from podtune.api.resources.trial import TrialStatus
from podtune.api.tuning.objective import Criterion, Objective
from podtune.protocol.messages import MetricValue, Result
from podtune.runner.trial import results

ACCURACY = Objective(metric="accuracy", mode="max")
STEPS = "training_iteration"


def take(
    status: TrialStatus, step: int, metrics: Mapping[str, MetricValue], objective: Objective = ACCURACY
) -> TrialStatus:
    return results.add_result(status, Result(step, 0.0, {STEPS: step, **metrics}, step), objective, STEPS)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (0.1, "0.1"),
        (math.nan, "nan"),
        ("relu", "relu"),
        ("x" * 99, "x" * 64),
    ],
)
def test_a_value_is_shown_as_it_is_read_back(value: MetricValue, shown: str) -> None:
    assert results.show(value) == shown


def test_metrics_come_back_from_a_status_as_numbers_where_they_are_numbers() -> None:
    metrics: dict[str, MetricValue] = {"accuracy": 0.1 + 0.2, "steps": 3, "activation": "relu"}
    assert results.parse_metrics(results.show_all(metrics)) == metrics


@pytest.mark.parametrize(("written", "best"), [({}, None), ({"accuracy": "0.5"}, 0.5), ({"accuracy": "inf"}, None)])
def test_the_best_value_is_a_finite_number(written: dict[str, str], best: float | None) -> None:
    assert results.find_best_value(TrialStatus(best=written), "accuracy") == best


@pytest.mark.parametrize(
    ("mode", "value", "seen"),
    [
        ("max", 0.5, 0.5),
        ("max", math.inf, math.nan),
        ("max", -math.inf, -math.inf),
        ("min", -math.inf, math.nan),
        ("min", math.inf, math.inf),
    ],
)
def test_schedulers_are_not_shown_an_infinity_that_nothing_could_beat(mode: str, value: float, seen: float) -> None:
    objective = Objective.model_validate({"metric": "accuracy", "mode": mode})
    shown = results.make_comparable({"accuracy": value, "loss": 1.0}, objective)
    assert shown == pytest.approx({"accuracy": seen, "loss": 1.0}, nan_ok=True)


def test_schedulers_are_shown_a_result_without_the_objective_as_it_is() -> None:
    assert results.make_comparable({"accuracy": "none"}, ACCURACY) == {"accuracy": "none"}


def test_the_last_result_and_the_best_one_are_told_apart() -> None:
    status = take(take(TrialStatus(), 1, {"accuracy": 0.9}), 2, {"accuracy": 0.4})
    assert (status.iteration, status.progress) == (2, "2.0")
    assert status.last_result == {STEPS: "2", "accuracy": "0.4"}
    assert status.best == {STEPS: "1", "accuracy": "0.9"}
    assert status.best_value == "0.9"


def test_a_stretch_that_is_run_again_is_no_progress_but_may_hold_the_best_result() -> None:
    before = take(TrialStatus(), 4, {"accuracy": 0.4})
    after = take(before, 3, {"accuracy": 0.9})
    assert (after.iteration, after.progress, after.last_result) == (4, "4.0", before.last_result)
    assert after.best_value == "0.9"


@pytest.mark.parametrize("value", [math.nan, math.inf, "none"])
def test_what_is_no_finite_number_is_never_the_best(value: MetricValue) -> None:
    status = take(take(TrialStatus(), 1, {"accuracy": 0.1}), 2, {"accuracy": value})
    assert status.best_value == "0.1"
    assert status.last_result["accuracy"] == str(value)


def test_a_result_without_the_time_attribute_is_new_and_leaves_the_progress() -> None:
    before = take(TrialStatus(), 4, {"accuracy": 0.4})
    result = Result(5, 0.0, {"accuracy": 0.5}, 5)
    assert results.is_new(before, result, STEPS)
    after = results.add_result(before, result, ACCURACY, STEPS)
    assert (after.iteration, after.progress) == (5, "4.0")
    assert after.last_result == {"accuracy": "0.5"}


@pytest.mark.parametrize(("missing", "last"), [("strict", "2"), ("lenient", "1")])
def test_a_result_that_lacks_a_metric_stands_for_the_trial_only_where_that_is_an_error(missing: str, last: str) -> None:
    objective = Objective.model_validate({"metric": "accuracy", "mode": "max", "missing": missing})
    status = take(take(TrialStatus(), 1, {"accuracy": 0.4}, objective), 2, {"loss": 1.0}, objective)
    assert status.last_result[STEPS] == last
    assert status.iteration == 2


def test_an_iterations_time_is_told_only_where_something_goes_by_it() -> None:
    metrics = {"accuracy": 0.4, "time_this_iter_s": 2.5}
    assert "time_this_iter_s" not in take(TrialStatus(), 1, metrics).last_result
    quick = Objective(metric="accuracy", mode="max", others=[Criterion(metric="time_this_iter_s", mode="min")])
    assert take(TrialStatus(), 1, metrics, quick).last_result["time_this_iter_s"] == "2.5"
