from __future__ import annotations

import math
from typing import Any, Literal

import pytest

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import MedianSettings
from podtune.testing.schedulers import SchedulerConformance
from podtune.tuning.schedulers.base import (
    CONTINUE,
    MetricMissing,
    RecordError,
    Scheduler,
    SchedulerAction,
    SchedulerDecision,
    StartDecision,
)
from podtune.tuning.schedulers.factory import make_scheduler
from podtune.tuning.schedulers.median import Median
from tests.unit.tuning.manifests import experiment

Mode = Literal["max", "min"]


def median(*, mode: Mode = "max", **fields: Any) -> Median:
    defaults = {"time_attribute": "epoch", "grace_period": 1, "min_samples": 3}
    return Median(MedianSettings(**{**defaults, **fields}), Objective(metric="accuracy", mode=mode))


def report(scheduler: Median, trial: int, epoch: float, accuracy: float, *, waiting: int = 0) -> SchedulerDecision:
    return scheduler.on_result(trial, {"epoch": epoch, "accuracy": accuracy}, waiting=waiting)


def curves(scheduler: Median, *curves: list[float]) -> int:
    """Has as many new trials report from epoch 1 on; returns the next free index, which is added."""
    for trial, curve in enumerate(curves):
        scheduler.on_trial_add(trial, {})
        for epoch, value in enumerate(curve, start=1):
            report(scheduler, trial, epoch, value)
    scheduler.on_trial_add(len(curves), {})
    return len(curves)


class TestMedian(SchedulerConformance):
    def make(self, *, seed: int = 7, mode: Mode = "max") -> Scheduler:
        return median(mode=mode)


class TestMedianWithSoftStop(SchedulerConformance):
    def make(self, *, seed: int = 7, mode: Mode = "max") -> Scheduler:
        return median(mode=mode, soft_stop=True, min_time=2, grace_period=3)


class TestComparison:
    def test_below_the_median_of_the_others_means_a_trial_is_stopped(self) -> None:
        scheduler = median()
        trial = curves(scheduler, [0.1, 0.3], [0.5, 0.7], [0.8, 1.0])
        report(scheduler, trial, 1, 0.5)
        decision = report(scheduler, trial, 2, 0.59)
        assert decision.action is SchedulerAction.STOP
        assert decision.recorded
        assert decision.inputs == {"time": 2, "metric": "accuracy", "best": 0.59, "median": 0.6, "samples": 3}
        assert decision.message == (
            "stopped at epoch 2: its best accuracy 0.59 is below the median 0.6 of the means of 3 trials up to then"
        )

    def test_at_the_median_it_goes_on(self) -> None:
        scheduler = median()
        trial = curves(scheduler, [0.2], [0.5], [0.8])
        assert report(scheduler, trial, 1, 0.5).action is SchedulerAction.CONTINUE

    def test_of_an_even_number_the_middle_two_are_averaged(self) -> None:
        scheduler = median(min_samples=2)
        trial = curves(scheduler, [0.25], [0.75])
        assert report(scheduler, trial, 1, 0.5).action is SchedulerAction.CONTINUE
        scheduler.on_trial_add(9, {})
        assert report(scheduler, 9, 1, 0.49).action is SchedulerAction.STOP

    def test_where_less_is_better_the_greater_are_stopped(self) -> None:
        scheduler = median(mode="min")
        trial = curves(scheduler, [0.2], [0.5], [0.8])
        decision = report(scheduler, trial, 1, 0.51)
        assert decision.action is SchedulerAction.STOP
        assert "is above the median 0.5" in decision.message

    def test_what_it_had_reached_before_counts(self) -> None:
        scheduler = median(grace_period=2)
        trial = curves(scheduler, [0.2, 0.2], [0.5, 0.5], [0.8, 0.8])
        report(scheduler, trial, 1, 0.9)
        assert report(scheduler, trial, 2, 0.0).action is SchedulerAction.CONTINUE

    def test_the_others_means_begin_at_the_grace_period(self) -> None:
        scheduler = median(grace_period=2)
        trial = curves(scheduler, [0.9, 0.1], [0.9, 0.1], [0.9, 0.1])
        assert report(scheduler, trial, 2, 0.2).action is SchedulerAction.CONTINUE

    def test_before_the_grace_period_nothing_is_compared(self) -> None:
        scheduler = median(grace_period=3)
        trial = curves(scheduler, [0.9] * 5, [0.9] * 5, [0.9] * 5)
        assert report(scheduler, trial, 2, 0.0).action is SchedulerAction.CONTINUE
        assert report(scheduler, trial, 3, 0.0).action is SchedulerAction.STOP

    def test_with_too_few_to_compare_with_all_go_on(self) -> None:
        scheduler = median(min_samples=3)
        trial = curves(scheduler, [0.9, 0.9], [0.9, 0.9], [0.9])
        assert report(scheduler, trial, 2, 0.0).action is SchedulerAction.CONTINUE

    def test_a_trial_that_has_ended_counts_and_its_end_counts_twice(self) -> None:
        scheduler = median(min_samples=1)
        trial = curves(scheduler, [0.0, 0.9])
        assert scheduler.on_trial_complete(0, {"epoch": 2, "accuracy": 0.9}) is True
        assert scheduler.record(0)["curve"] == {"0": "1@0 0.9 2@0.9"}
        assert report(scheduler, trial, 2, 0.59).inputs["median"] == pytest.approx(0.6)

    def test_a_close_one_is_told_of(self) -> None:
        scheduler = median()
        trial = curves(scheduler, [0.2], [0.5], [0.8])
        decision = report(scheduler, trial, 1, 0.6)
        assert decision.message == (
            "continued at epoch 1, by one trial: its best accuracy 0.6 is not below the median 0.5 of the means of 3 "
            "trials up to then"
        )
        scheduler.on_trial_add(9, {})
        assert report(scheduler, 9, 1, 0.75).message == ""


class TestOddValues:
    def test_a_first_value_of_nan_is_worse_than_any_median_for_ever(self) -> None:
        scheduler = median(grace_period=2)
        trial = curves(scheduler, [0.2, 0.2], [0.5, 0.5], [0.8, 0.8])
        report(scheduler, trial, 1, math.nan)
        decision = report(scheduler, trial, 2, 1.0)
        assert decision.action is SchedulerAction.STOP
        assert decision.message.startswith(
            "stopped at epoch 2: its first accuracy was NaN, which is worse than the median"
        )

    def test_a_later_nan_is_passed_over(self) -> None:
        scheduler = median(grace_period=2)
        trial = curves(scheduler, [0.2, 0.2], [0.5, 0.5], [0.8, 0.8])
        report(scheduler, trial, 1, 0.6)
        assert report(scheduler, trial, 2, math.nan).action is SchedulerAction.CONTINUE

    def test_means_that_are_not_finite_are_no_samples(self) -> None:
        scheduler = median()
        trial = curves(scheduler, [0.9], [math.nan], [math.inf], [-math.inf])
        assert report(scheduler, trial, 1, 0.0).action is SchedulerAction.CONTINUE


class TestPauses:
    def test_a_soft_stop_is_a_pause_after_which_it_is_not_judged_again(self) -> None:
        scheduler = median(soft_stop=True)
        trial = curves(scheduler, [0.5], [0.5], [0.5])
        decision = report(scheduler, trial, 1, 0.4)
        assert decision.action is SchedulerAction.PAUSE
        assert decision.message.startswith("paused at epoch 1: its best accuracy 0.4 is below")
        assert report(scheduler, trial, 2, 0.0) == CONTINUE

    def test_a_trial_gives_way_while_there_are_too_few_to_compare_with(self) -> None:
        scheduler = median(min_time=2)
        scheduler.on_trial_add(0, {})
        decision = report(scheduler, 0, 1, 0.5, waiting=4)
        assert decision.action is SchedulerAction.PAUSE
        assert decision.message == "gave way at epoch 1: only 0 of 3 samples to compare with, 4 others wait"
        assert report(scheduler, 0, 3, 0.5, waiting=4).action is SchedulerAction.CONTINUE
        assert report(scheduler, 0, 4, 0.5, waiting=4).action is SchedulerAction.PAUSE

    def test_it_does_not_where_none_waits_or_none_is_to(self) -> None:
        for scheduler, waiting in ((median(min_time=0), 0), (median(), 9)):
            scheduler.on_trial_add(0, {})
            assert report(scheduler, 0, 1, 0.5, waiting=waiting).action is SchedulerAction.CONTINUE

    def test_paused_trials_go_on_when_no_new_one_waits(self) -> None:
        scheduler = median(soft_stop=True)
        trial = curves(scheduler, [0.5], [0.5], [0.5])
        report(scheduler, trial, 1, 0.4)
        scheduler.on_trial_add(7, {})
        assert scheduler.choose([trial, 7]) == StartDecision(7)
        assert scheduler.choose([trial]) == StartDecision(trial)


class TestRecord:
    def test_holds_the_curve_the_best_value_and_the_pauses(self) -> None:
        scheduler = median(min_time=0, grace_period=2)
        scheduler.on_trial_add(0, {})
        for epoch, accuracy in enumerate([0.9, 0.5, 0.6], start=1):
            report(scheduler, 0, epoch, accuracy, waiting=1)
        assert scheduler.record(0) == {"median": {"best": "0.9", "gaveWay": "3"}, "curve": {"0": "2@0.5 0.6"}}

    def test_says_that_it_grows_with_every_result(self) -> None:
        assert median().records_every_result

    @pytest.mark.parametrize("record", [{"median": {"best": "high"}}, {"curve": {"0": "0.5"}}])
    def test_what_nobody_wrote_is_refused(self, record: dict[str, dict[str, str]]) -> None:
        with pytest.raises(RecordError, match=r"trial 4: status\.scheduler can't be read: .*; correct it"):
            median().restore(4, record, {})


@pytest.mark.parametrize("metrics", [{}, {"epoch": 3}, {"accuracy": 0.5}, {"epoch": math.nan, "accuracy": 1}])
def test_a_metric_that_is_missing_is_named(metrics: dict[str, float]) -> None:
    scheduler = median()
    scheduler.on_trial_add(0, {})
    with pytest.raises(MetricMissing):
        scheduler.on_result(0, metrics)


def test_a_manifest_asks_for_it() -> None:
    scheduler = make_scheduler(experiment(scheduler={"median": {"timeAttribute": "epoch"}}))
    assert isinstance(scheduler, Median)
    assert scheduler.time_attribute == "epoch"
