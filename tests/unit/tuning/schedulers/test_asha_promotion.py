from __future__ import annotations

import math
from collections import Counter
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import AshaPromotionSettings
from podtune.testing.scheduler_driver import SchedulerDriver
from podtune.testing.schedulers import SchedulerConformance
from podtune.tuning.schedulers.asha_promotion import AshaPromotion, compute_bracket_weights
from podtune.tuning.schedulers.base import (
    CONTINUE,
    MetricMissing,
    RecordError,
    Scheduler,
    SchedulerAction,
    SchedulerDecision,
)

Mode = Literal["max", "min"]


def promotion(*, mode: Mode = "max", seed: int = 7, **fields: Any) -> AshaPromotion:
    defaults = {"time_attribute": "epoch", "max_time": 27, "grace_period": 1, "reduction_factor": 3}
    given = AshaPromotionSettings(**{**defaults, **fields})
    return AshaPromotion(given, Objective(metric="accuracy", mode=mode), seed)


def report(scheduler: AshaPromotion, trial: int, epoch: float, accuracy: float) -> SchedulerDecision:
    return scheduler.on_result(trial, {"epoch": epoch, "accuracy": accuracy})


def arrive(scheduler: AshaPromotion, *values: float, epoch: float = 1) -> None:
    """Has as many new trials come to a rung, one after the other."""
    for trial, value in enumerate(values):
        scheduler.on_trial_add(trial, {})
        assert report(scheduler, trial, epoch, value).action is SchedulerAction.PAUSE


class TestPromotion(SchedulerConformance):
    def make(self, *, seed: int = 7, mode: Mode = "max") -> Scheduler:
        return promotion(seed=seed, mode=mode)


class TestPromotionWithBrackets(SchedulerConformance):
    def make(self, *, seed: int = 7, mode: Mode = "max") -> Scheduler:
        return promotion(seed=seed, mode=mode, brackets=3, reduction_factor=2, max_time=20)


class TestPauses:
    def test_a_trial_is_paused_at_every_rung(self) -> None:
        scheduler = promotion()
        arrive(scheduler, 0.9, 0.8, *[0.1] * 6)
        starts = [scheduler.choose(range(8)), scheduler.choose(range(1, 8))]
        assert [start.trial for start in starts if start] == [0, 1]
        for trial in (0, 1):
            assert report(scheduler, trial, 2, 0.9) == CONTINUE
            assert report(scheduler, trial, 3, 0.9 - trial / 10).action is SchedulerAction.PAUSE
        assert scheduler.choose(range(8)).trial == 0
        assert report(scheduler, 0, 8, 0.9) == CONTINUE
        assert report(scheduler, 0, 9, 0.9).action is SchedulerAction.PAUSE
        assert list(scheduler.record(0)["rungs"]) == ["1", "3", "9"]

    def test_a_result_beyond_the_rung_counts_there(self) -> None:
        scheduler = promotion()
        scheduler.on_trial_add(0, {})
        decision = report(scheduler, 0, 5, 0.5)
        assert decision.action is SchedulerAction.PAUSE
        assert decision.milestone == 1
        assert scheduler.record(0) == {"rungs": {"1": "0.5"}, "arrivals": {"1": "0"}}

    def test_at_max_time_it_is_stopped_unrecorded_wherever_it_comes_from(self) -> None:
        scheduler = promotion()
        scheduler.on_trial_add(0, {})
        decision = report(scheduler, 0, 27, 0.5)
        assert decision.action is SchedulerAction.STOP
        assert decision.full
        assert not decision.recorded
        assert decision.message == "stopped at epoch 27: maxTime 27 is reached"
        assert scheduler.record(0) == {}

    def test_before_the_rung_nothing_is_decided(self) -> None:
        scheduler = promotion(grace_period=3)
        scheduler.on_trial_add(0, {})
        assert report(scheduler, 0, 2.5, 0.5) == CONTINUE

    def test_it_says_how_the_trial_compares(self) -> None:
        scheduler = promotion(grace_period=3)
        arrive(scheduler, 0.5, 0.9, 0.5, epoch=3)
        scheduler.on_trial_add(9, {})
        decision = report(scheduler, 9, 3, 0.7)
        assert decision.message == "paused at rung 3: accuracy 0.7 is number 2 of 4 there"
        assert decision.inputs == {"rung": 3, "metric": "accuracy", "value": 0.7, "rank": 2, "arrived": 4}
        scheduler.on_trial_add(10, {})
        assert report(scheduler, 10, 3, math.nan).message == (
            "paused at rung 3: accuracy is NaN, which ranks last of 5 there"
        )

    @pytest.mark.parametrize("metrics", [{"accuracy": 0.5}, {"epoch": 3}, {"epoch": 3, "accuracy": "high"}])
    def test_a_metric_that_is_missing_is_named(self, metrics: dict[str, Any]) -> None:
        scheduler = promotion()
        scheduler.on_trial_add(0, {})
        with pytest.raises(MetricMissing, match=r"'epoch' \(scheduler\.ashaPromotion\.timeAttribute\)|'accuracy'"):
            scheduler.on_result(0, metrics)


class TestChoice:
    def test_one_trial_at_a_rung_is_not_promoted(self) -> None:
        scheduler = promotion()
        arrive(scheduler, 0.5)
        assert scheduler.choose([0]) is None

    def test_of_two_the_better_one_is(self) -> None:
        scheduler = promotion()
        arrive(scheduler, 0.5, 0.6)
        start = scheduler.choose([0, 1])
        assert (start.trial, start.recorded) == (1, True)
        assert scheduler.record(1)["promoted"] == {"from": "1"}
        assert scheduler.choose([0]) is None

    def test_where_less_is_better_the_lower_one_is(self) -> None:
        scheduler = promotion(mode="min")
        arrive(scheduler, 0.5, 0.6)
        start = scheduler.choose([0, 1])
        assert start.trial == 0
        assert start.message == (
            "promoted from rung 1 to 3: accuracy 0.5 is the best of 2 paused there and not above the cutoff 0.533333 "
            "(top 0.333 of 2)"
        )

    def test_it_says_why_with_its_numbers(self) -> None:
        scheduler = promotion()
        arrive(scheduler, 0.1, 0.2, 0.3, 0.9)
        start = scheduler.choose([0, 1, 2, 3])
        assert start.message == (
            "promoted from rung 1 to 3: accuracy 0.9 is the best of 4 paused there and not below the cutoff 0.3 "
            "(top 0.333 of 4)"
        )
        assert start.inputs == {
            "rung": 1,
            "target": 3,
            "metric": "accuracy",
            "value": 0.9,
            "cutoff": pytest.approx(0.3),
            "arrived": 4,
            "paused": 4,
        }

    def test_the_promoted_ones_still_count(self) -> None:
        """Of four, about one in three goes on: after the best, none is good enough until more have come."""
        scheduler = promotion()
        arrive(scheduler, 0.1, 0.2, 0.3, 0.9)
        assert scheduler.choose([0, 1, 2, 3]) is not None
        assert scheduler.choose([0, 1, 2]).trial == 2  # it equals the cutoff
        assert scheduler.choose([0, 1]) is None

    def test_the_highest_rung_comes_first(self) -> None:
        scheduler = promotion()
        arrive(scheduler, 0.9, 0.8)
        for trial, rung in ((2, 0.3), (3, 0.4)):
            scheduler.restore(
                trial,
                {
                    "rungs": {"1": "0.7", "3": str(rung)},
                    "arrivals": {"1": str(trial), "3": str(trial)},
                    "promoted": {"from": "1"},
                },
                {},
            )
        assert scheduler.choose([0, 1, 2, 3]).trial == 3

    def test_of_equals_the_first_to_come_is_promoted(self) -> None:
        scheduler = promotion()
        for trial in (5, 3, 4):
            scheduler.on_trial_add(trial, {})
            report(scheduler, trial, 1, 0.5)
        assert scheduler.choose([3, 4, 5]).trial == 5

    def test_a_promotion_comes_before_a_new_trial(self) -> None:
        scheduler = promotion()
        arrive(scheduler, 0.5, 0.6)
        scheduler.on_trial_add(2, {})
        starts = [scheduler.choose([0, 1, 2]), scheduler.choose([0, 2])]
        assert [start.trial for start in starts if start] == [1, 2]

    def test_new_trials_start_in_the_order_of_the_queue(self) -> None:
        scheduler = promotion()
        for trial in range(4):
            scheduler.on_trial_add(trial, {})
        start = scheduler.choose([3, 0, 2])
        assert (start.trial, start.message, start.recorded) == (3, "", False)

    def test_a_promoted_trial_that_failed_comes_before_another_promotion(self) -> None:
        scheduler = promotion()
        arrive(scheduler, 0.5, 0.6, 0.7, 0.1, 0.1, 0.1)
        first = scheduler.choose(range(6))
        scheduler.on_trial_error(first.trial)
        again = scheduler.choose(range(6))
        assert (again.trial, again.recorded) == (first.trial, False)
        assert again.message == "continues to epoch 3: already promoted from rung 1"

    def test_the_best_that_is_still_on_its_way_to_its_pause_is_passed_over_for_now(self) -> None:
        scheduler = promotion()
        arrive(scheduler, 0.9, 0.8, 0.1, 0.1, 0.1, 0.1)
        assert scheduler.choose([1, 2, 3, 4, 5]).trial == 1
        assert scheduler.choose([0, 2, 3, 4, 5]).trial == 0

    def test_one_that_was_stopped_by_its_user_is_still_compared_with(self) -> None:
        scheduler = promotion()
        arrive(scheduler, 0.9, 0.1)
        scheduler.on_trial_remove(0)
        assert scheduler.choose([1]) is None

    def test_nan_is_never_promoted_but_counts(self) -> None:
        scheduler = promotion()
        arrive(scheduler, math.nan, math.nan)
        assert scheduler.choose([0, 1]) is None
        scheduler.on_trial_add(2, {})
        report(scheduler, 2, 1, -5)
        assert scheduler.choose([0, 1, 2]).trial == 2
        assert scheduler.choose([0, 1]) is None

    def test_from_the_highest_rung_a_trial_runs_to_max_time(self) -> None:
        scheduler = promotion(max_time=4)
        for trial, value in ((0, "0.3"), (1, "0.4")):
            scheduler.restore(
                trial,
                {
                    "rungs": {"1": value, "3": value},
                    "arrivals": {"1": str(trial), "3": str(trial)},
                    "promoted": {"from": "1"},
                },
                {},
            )
        start = scheduler.choose([0, 1])
        assert start.message.startswith("promoted from rung 3 to 4: ")
        assert "(top 0.75 of 2)" in start.message
        assert report(scheduler, 1, 3.5, 0.5) == CONTINUE
        assert report(scheduler, 1, 4, 0.5).full


class TestRungsPassed:
    def test_they_are_those_that_it_was_promoted_from(self) -> None:
        scheduler = promotion()
        arrive(scheduler, 0.5, 0.6)
        assert scheduler.rungs_passed(1) == 0
        scheduler.choose([0, 1])
        assert scheduler.rungs_passed(1) == 1
        report(scheduler, 1, 3, 0.6)
        assert scheduler.rungs_passed(1) == 1

    def test_those_that_its_bracket_skips_do_not_count(self) -> None:
        scheduler = promotion(brackets=3)
        for trial in range(40):
            scheduler.on_trial_add(trial, {})
        assert {scheduler.rungs_passed(trial) for trial in range(40)} == {0}


class TestBrackets:
    def test_a_trial_of_bracket_s_is_first_paused_at_the_sth_rung(self) -> None:
        scheduler = promotion(brackets=10)
        first: dict[str, set[int | None]] = {}
        for trial in range(400):
            scheduler.on_trial_add(trial, {})
            paused_at = next(
                (
                    epoch
                    for epoch in range(1, 27)
                    if report(scheduler, trial, epoch, 0.5).action is SchedulerAction.PAUSE
                ),
                None,
            )
            first.setdefault(scheduler.record(trial)["bracket"]["index"], set()).add(paused_at)
        assert first == {"0": {1}, "1": {3}, "2": {9}, "3": {None}}

    def test_they_are_drawn_as_often_as_hyperband_has_trials_in_them(self) -> None:
        scheduler = promotion(brackets=2)
        for trial in range(4000):
            scheduler.on_trial_add(trial, {})
        drawn = Counter(scheduler.record(trial)["bracket"]["index"] for trial in range(4000))
        # 4 levels: 4 / (4 * 1) to 4 / (3 * 3)
        assert compute_bracket_weights([1, 3, 9, 27], 2) == (1.0, pytest.approx(4 / 9))
        assert drawn["1"] / drawn["0"] == pytest.approx(4 / 9, abs=0.05)

    def test_all_of_them_are_compared_with_each_other(self) -> None:
        scheduler = promotion(brackets=2)
        came = []
        for trial in range(40):
            scheduler.on_trial_add(trial, {})
            if scheduler.record(trial)["bracket"]["index"] == "1":
                report(scheduler, trial, 3, 0.5)
                came.append(trial)
        scheduler.restore(
            99,
            {
                "rungs": {"1": "0.9", "3": "0.9"},
                "arrivals": {"1": "0", "3": "99"},
                "promoted": {"from": "1"},
                "bracket": {"index": "0"},
            },
            {},
        )
        assert scheduler.choose([*came, 99]).trial == 99


class TestRestore:
    @pytest.mark.parametrize(
        ("record", "message"),
        [
            ({"rungs": {"5": "0.1"}}, r"rungs\['5'\] is '0.1', but its rungs are 1, 3, 9"),
            ({"rungs": {"1": "high"}, "arrivals": {"1": "0"}}, r"rungs\['1'\] is 'high', which is not a number"),
            ({"rungs": {"1": "0.1"}}, r"arrivals\['1'\] is missing"),
            ({"rungs": {"1": "0.1"}, "arrivals": {"1": "-1"}}, r"arrivals\['1'\] is '-1', which is not a whole number"),
            ({"rungs": {"3": "0.1"}, "arrivals": {"3": "0"}}, r"rungs\['1'\] is missing"),
            (
                {"rungs": {"1": "0.1", "3": "0.1"}, "arrivals": {"1": "0", "3": "0"}},
                r"promoted\['from'\] is missing, but the highest rung is 3",
            ),
            ({"rungs": {"1": "0.1"}, "arrivals": {"1": "0"}, "promoted": {"from": "9"}}, "but the highest rung is 1"),
            ({"bracket": {"index": "2"}}, r"bracket\['index'\] is '2', but at most 1 is possible"),
            ({"bracket": {"index": "first"}}, r"bracket\['index'\] is 'first', which is not a whole number"),
        ],
    )
    def test_nonsense_is_refused_by_name(self, record: dict[str, dict[str, str]], message: str) -> None:
        with pytest.raises(RecordError, match=rf"trial 4: status\.scheduler\.{message}|{message}"):
            promotion(brackets=2 if "bracket" in record else 1).restore(4, record, {})

    def test_between_a_promotion_and_the_start_the_same_trial_is_chosen_again(self) -> None:
        uncut = promotion()
        arrive(uncut, 0.9, 0.8, 0.1, 0.1, 0.1, 0.1)
        chosen = uncut.choose(range(6))
        rebuilt = promotion()
        for trial in (4, 0, 2, 5, 1, 3):
            rebuilt.restore(trial, uncut.record(trial), {})
        again = rebuilt.choose(range(6))
        assert (again.trial, again.recorded) == (chosen.trial, False)

    def test_the_first_trial_of_equals_stays_the_first_in_whatever_order_they_are_restored(self) -> None:
        uncut = promotion()
        for trial in (5, 3, 4):
            uncut.on_trial_add(trial, {})
            report(uncut, trial, 1, 0.5)
        rebuilt = promotion()
        for trial in (3, 4, 5):
            rebuilt.restore(trial, uncut.record(trial), {})
        assert rebuilt.choose([3, 4, 5]).trial == 5


@given(seed=st.integers(0, 10**6), brackets=st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_in_the_end_only_paused_trials_are_left(seed: int, brackets: int) -> None:
    """Whatever happens, all that could run has run: those that are left are paused, and none is good enough."""
    driver = SchedulerDriver(promotion(seed=seed, brackets=brackets), seed)
    for _ in range(3000):
        driver.step()
    assert driver.world.is_over
    assert not driver.world.running
    assert driver.scheduler.choose(driver.world.queue) is None if driver.world.queue else True
    for trial in driver.world.queue:
        record = driver.scheduler.record(trial)
        assert int(list(record["rungs"])[-1]) > int(record.get("promoted", {}).get("from", 0))


@pytest.mark.parametrize("trials", [10_000])
def test_ten_thousand_trials_at_one_rung_cost_no_more_each_than_a_hundred(trials: int) -> None:
    """Counted, not timed: how many comparisons a decision makes."""
    scheduler = promotion(max_time=10**9, reduction_factor=100)

    class Waiting(list[int]):
        """A queue that counts how often it is walked or asked."""

        asked = 0

        def __contains__(self, trial: object) -> bool:
            Waiting.asked += 1
            return True

        def __iter__(self) -> Any:
            raise AssertionError("nobody should walk through ten thousand paused trials")

    for trial in range(trials):
        scheduler.on_trial_add(trial, {})
        report(scheduler, trial, 1, (trial * 7919) % 10_007)
    waiting = Waiting(range(trials))
    for _ in range(50):
        start = scheduler.choose(waiting)
        report(scheduler, start.trial, 100, 0.5)
    assert Waiting.asked <= 50 * 5
