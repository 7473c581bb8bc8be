from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import BohbSettings, HyperbandSettings
from podtune.testing.scheduler_driver import SchedulerDriver
from podtune.testing.schedulers import SchedulerConformance
from podtune.tuning.schedulers.base import (
    CONTINUE,
    MetricMissing,
    RecordError,
    Scheduler,
    SchedulerAction,
    SchedulerDecision,
)
from podtune.tuning.schedulers.bohb import Bohb
from podtune.tuning.schedulers.hyperband import Hyperband

Mode = Literal["max", "min"]


def hyperband(*, mode: Mode = "max", max_time: int = 9, reduction_factor: int = 3) -> Hyperband:
    """With 9 and 3, a band is a bracket of 3 trials that run to 9, one of 5 from 3 on and one of 9 from 1 on."""
    given = HyperbandSettings(time_attribute="epoch", max_time=max_time, reduction_factor=reduction_factor)
    return Hyperband(given, Objective(metric="accuracy", mode=mode))


def bohb(*, mode: Mode = "max", max_time: int = 9, reduction_factor: int = 3) -> Bohb:
    given = BohbSettings(time_attribute="epoch", max_time=max_time, reduction_factor=reduction_factor)
    return Bohb(given, Objective(metric="accuracy", mode=mode))


def add(scheduler: Hyperband, *trials: int) -> None:
    for trial in trials:
        scheduler.on_trial_add(trial, {})


def report(scheduler: Hyperband, trial: int, epoch: float, accuracy: float) -> SchedulerDecision:
    return scheduler.on_result(trial, {"epoch": epoch, "accuracy": accuracy})


def nine(*, mode: Mode = "max") -> Bohb:
    """Nine trials, which fill the first bracket."""
    scheduler = bohb(mode=mode)
    add(scheduler, *range(9))
    return scheduler


def come_in(scheduler: Hyperband, trials: Iterable[int], epoch: float = 1) -> None:
    """Has trials report, each more than the one before it."""
    for trial in trials:
        report(scheduler, trial, epoch, trial / 10)


def played() -> Bohb:
    """Nine trials, of which six have lost and three go on."""
    scheduler = nine()
    come_in(scheduler, range(9))
    return scheduler


def rebuilt_from(uncut: Hyperband, *removed: int) -> Hyperband:
    rebuilt = bohb()
    for trial in (4, 0, 8, 2, 6, 1, 3, 7, 5):
        rebuilt.restore(trial, uncut.record(trial), {})
    for trial in removed:
        rebuilt.on_trial_remove(trial)
    return rebuilt


def bracket_of(scheduler: Hyperband, trial: int) -> tuple[str, str]:
    bracket = scheduler.record(trial)["bracket"]
    return bracket["band"], bracket["s"]


def choices(scheduler: Hyperband, *waiting: int) -> list[int]:
    """Which of the trials would be started, one after the other."""
    left, chosen = list(waiting), []
    while left and (start := scheduler.choose(left)) is not None:
        chosen.append(start.trial)
        left.remove(start.trial)
    return chosen


def trials_to_stop(scheduler: Hyperband) -> list[int]:
    return [stop.trial for stop in scheduler.trials_to_stop()]


class TestHyperband(SchedulerConformance):
    def make(self, *, seed: int = 7, mode: Mode = "max") -> Scheduler:
        return hyperband(mode=mode)


class TestHyperbandOfManyRounds(SchedulerConformance):
    def make(self, *, seed: int = 7, mode: Mode = "max") -> Scheduler:
        return bohb(mode=mode, max_time=16, reduction_factor=2)


class TestBohb(SchedulerConformance):
    def make(self, *, seed: int = 7, mode: Mode = "max") -> Scheduler:
        return bohb(mode=mode)


class TestBrackets:
    def test_the_smallest_are_filled_first(self) -> None:
        scheduler = hyperband()
        add(scheduler, *range(20))
        expected = [("0", "0")] * 3 + [("0", "1")] * 5 + [("0", "2")] * 9 + [("1", "0")] * 3
        assert [bracket_of(scheduler, trial) for trial in range(20)] == expected

    def test_for_bohb_the_largest_are(self) -> None:
        scheduler = bohb()
        add(scheduler, *range(20))
        expected = [("0", "2")] * 9 + [("0", "1")] * 5 + [("0", "0")] * 3 + [("1", "2")] * 3
        assert [bracket_of(scheduler, trial) for trial in range(20)] == expected

    def test_one_whose_first_milestone_would_be_below_1_is_left_out(self) -> None:
        """729 * 3**-6 comes out below 1."""
        scheduler = bohb(max_time=729)
        add(scheduler, 0)
        assert bracket_of(scheduler, 0) == ("0", "5")

    def test_one_that_fails_for_good_makes_room_in_the_bracket_that_is_being_filled(self) -> None:
        scheduler = hyperband()
        add(scheduler, 0, 1, 2)
        scheduler.on_trial_error(1)
        scheduler.on_trial_remove(1)
        add(scheduler, 3, 4)
        assert bracket_of(scheduler, 3) == ("0", "0")
        assert bracket_of(scheduler, 4) == ("0", "1")

    def test_one_that_is_retried_keeps_its_place(self) -> None:
        scheduler = hyperband()
        add(scheduler, 0, 1, 2)
        scheduler.on_trial_error(1)
        add(scheduler, 3)
        assert bracket_of(scheduler, 3) == ("0", "1")

    def test_after_its_first_round_a_bracket_takes_no_more(self) -> None:
        scheduler = nine()
        for trial in range(9):
            report(scheduler, trial, 1, trial)
        scheduler.on_trial_remove(8)
        add(scheduler, 9)
        assert bracket_of(scheduler, 9) == ("0", "1")


class TestRounds:
    def test_until_all_have_come_in_they_are_paused(self) -> None:
        scheduler = nine()
        decision = report(scheduler, 0, 1, 0.5)
        assert decision.action is SchedulerAction.PAUSE
        assert decision.recorded
        assert decision.milestone == 1
        assert decision.message == "paused at rung 1: accuracy 0.5; 1 of 9 trials of its bracket have arrived"
        assert choices(scheduler, *range(9)) == [1, 2, 3, 4, 5, 6, 7, 8]

    def test_the_last_one_to_come_in_decides_for_all(self) -> None:
        scheduler = nine()
        come_in(scheduler, range(8))
        decision = report(scheduler, 8, 1, 0.65)
        assert decision.action is SchedulerAction.CONTINUE
        assert decision.message == "continued from rung 1 to 3: accuracy 0.65 is number 2 of 9, and the best 3 continue"
        assert trials_to_stop(scheduler) == [0, 1, 2, 3, 4, 5]
        start = scheduler.choose(range(8))
        assert (start.trial, start.recorded) == (6, True)
        assert start.message == (
            "continues from rung 1 to 3: accuracy 0.6 is among the best 3 of 9 (the last of them has 0.6)"
        )

    def test_if_it_is_not_among_the_best_it_is_stopped(self) -> None:
        scheduler = nine(mode="min")
        come_in(scheduler, range(8))
        decision = report(scheduler, 8, 1, 0.25)
        assert decision.action is SchedulerAction.STOP
        assert not decision.full
        assert decision.message == "stopped at rung 1: accuracy 0.25 is number 4 of 9, and the best 3 continue"
        assert scheduler.on_trial_complete(8, {"epoch": 1, "accuracy": 0.25}) is False
        assert choices(scheduler, *range(8)) == [0, 1, 2]

    def test_a_paused_trial_that_is_stopped_hears_why(self) -> None:
        scheduler = played()
        stop = scheduler.trials_to_stop()[0]
        assert stop.message == ("stopped at rung 1: accuracy 0 is not among the best 3 of 9 (the last of them has 0.6)")
        assert not stop.full
        scheduler.on_trial_remove(0)
        assert trials_to_stop(scheduler) == [1, 2, 3, 4, 5]

    def test_of_equals_the_later_ones_go_on(self) -> None:
        scheduler = nine()
        for trial in range(9):
            report(scheduler, trial, 1, 0.5)
        assert choices(scheduler, *range(9)) == [6, 7, 8]

    def test_nan_ranks_last(self) -> None:
        scheduler = nine()
        for trial, value in enumerate([-math.inf, -1e9, -2e9, *[math.nan] * 6]):
            report(scheduler, trial, 1, value)
        assert choices(scheduler, *range(9)) == [0, 1, 2]

    def test_at_the_last_milestone_they_wait_for_each_other_too(self) -> None:
        scheduler = hyperband()
        add(scheduler, 0, 1, 2)
        assert report(scheduler, 0, 9, 0.5).action is SchedulerAction.PAUSE
        assert report(scheduler, 1, 9, 0.6).action is SchedulerAction.PAUSE
        decision = report(scheduler, 2, 9, 0.7)
        assert decision.action is SchedulerAction.STOP
        assert decision.full
        assert decision.message == "stopped at epoch 9: all trials of its bracket have reached rung 9"
        assert [(end.trial, end.full, end.message) for end in scheduler.trials_to_stop()] == [
            (0, True, "stopped at rung 9: all trials of its bracket have reached it"),
            (1, True, "stopped at rung 9: all trials of its bracket have reached it"),
        ]

    def test_one_that_fails_for_good_is_not_waited_for(self) -> None:
        scheduler = bohb()
        add(scheduler, *range(10))
        come_in(scheduler, range(8))
        scheduler.on_trial_error(8)
        assert choices(scheduler, *range(8)) == []
        scheduler.on_trial_remove(8)
        assert choices(scheduler, *range(8)) == [5, 6, 7]

    def test_nor_is_one_that_comes_to_its_own_end_in_a_later_round(self) -> None:
        """Ray's bracket would wait for ever."""
        scheduler = played()
        report(scheduler, 6, 3, 0.6)
        report(scheduler, 7, 3, 0.7)
        assert choices(scheduler, 6, 7) == []
        assert scheduler.on_trial_complete(8, {"epoch": 2, "accuracy": 0.8}) is True
        assert choices(scheduler, 6, 7) == [7]
        assert trials_to_stop(scheduler)[-1] == 6

    def test_one_that_went_beyond_the_next_milestone_waits_there(self) -> None:
        scheduler = nine()
        come_in(scheduler, range(8))
        decision = report(scheduler, 8, 4, 0.9)
        assert decision.action is SchedulerAction.PAUSE
        assert decision.message == (
            "paused at epoch 4: accuracy 0.9 is number 1 of 9, and the best 3 continue from rung 1; it is already "
            "beyond rung 3, the next rung of its bracket"
        )
        assert choices(scheduler, *range(9)) == [6, 7]
        report(scheduler, 6, 3, 0.95)
        assert report(scheduler, 7, 3, 0.7).action is SchedulerAction.STOP
        assert choices(scheduler, 6, 8) == [6]
        assert trials_to_stop(scheduler)[-1] == 8

    def test_if_all_did_the_next_round_ends_at_once(self) -> None:
        scheduler = nine()
        come_in(scheduler, range(9), epoch=4)
        assert choices(scheduler, *range(9)) == [8]
        assert trials_to_stop(scheduler) == [0, 1, 2, 3, 4, 5, 6, 7]

    def test_between_milestones_nothing_is_decided(self) -> None:
        scheduler = hyperband()
        add(scheduler, 0)
        assert report(scheduler, 0, 8.5, 0.5) == CONTINUE

    @pytest.mark.parametrize("metrics", [{"accuracy": 0.5}, {"epoch": 3}, {"epoch": 3, "accuracy": "high"}])
    def test_a_metric_that_is_missing_is_named(self, metrics: dict[str, Any]) -> None:
        scheduler = bohb()
        add(scheduler, 0)
        with pytest.raises(MetricMissing, match=r"'epoch' \(scheduler\.bohb\.timeAttribute\)|'accuracy'"):
            scheduler.on_result(0, metrics)


class TestFilling:
    def test_a_bracket_that_is_not_full_waits_for_more(self) -> None:
        scheduler = bohb()
        add(scheduler, 0, 1)
        report(scheduler, 0, 1, 0.5)
        decision = report(scheduler, 1, 1, 0.6)
        assert decision.action is SchedulerAction.PAUSE
        assert decision.message.endswith("2 of 9 trials of its bracket have arrived")
        assert choices(scheduler, 0, 1) == []

    def test_when_the_search_is_over_it_goes_on(self) -> None:
        scheduler = bohb()
        add(scheduler, 0, 1, 2, 3)
        come_in(scheduler, range(4))
        scheduler.on_search_over()
        assert choices(scheduler, 0, 1, 2, 3) == [1, 2, 3]
        assert trials_to_stop(scheduler) == [0]

    def test_one_that_comes_in_then_may_go_on_at_once(self) -> None:
        scheduler = bohb()
        add(scheduler, 0, 1)
        report(scheduler, 0, 1, 0.5)
        scheduler.on_search_over()
        assert report(scheduler, 1, 1, 0.4).action is SchedulerAction.CONTINUE
        assert choices(scheduler, 0) == [0]


class TestChoice:
    def test_hyperband_serves_the_bracket_that_is_least_far(self) -> None:
        scheduler = hyperband()
        add(scheduler, *range(8))
        report(scheduler, 0, 5, 0.5)  # 5 of 27 against 0 of the next one
        assert scheduler.choose(range(1, 8)).trial == 3
        report(scheduler, 3, 2.9, 0.5)  # 2.9 of 27 or so
        report(scheduler, 4, 2.9, 0.5)
        assert scheduler.choose([1, 2, 5, 6, 7]).trial == 1

    def test_bohb_serves_them_in_their_order(self) -> None:
        scheduler = bohb()
        add(scheduler, *range(14))
        report(scheduler, 0, 0.9, 0.5)
        assert choices(scheduler, *range(13, 0, -1)) == list(range(1, 14))

    def test_an_earlier_band_comes_first(self) -> None:
        scheduler = hyperband()
        add(scheduler, *range(20))
        for trial in range(8, 17):
            report(scheduler, trial, 0.9, 0.5)
        assert scheduler.choose([19, 18, 12]).trial == 12

    def test_after_a_restart_what_is_known_of_the_progress_decides_as_before(self) -> None:
        uncut = hyperband()
        add(uncut, *range(8))
        report(uncut, 0, 5, 0.5)
        rebuilt = hyperband()
        for trial in (5, 0, 3, 7, 1, 4, 2, 6):
            rebuilt.restore(trial, uncut.record(trial), {})
        rebuilt.on_progress(0, 5)
        assert rebuilt.choose([1, 3]) == uncut.choose([1, 3])
        assert rebuilt.choose([1, 3]).trial == 3


class TestRungsPassed:
    def test_they_are_the_halvings_that_it_outlasted(self) -> None:
        scheduler = nine()
        assert scheduler.rungs_passed(8) == 0
        come_in(scheduler, range(9))
        assert [scheduler.rungs_passed(trial) for trial in (0, 7, 8)] == [0, 1, 1]
        come_in(scheduler, (6, 7, 8), epoch=3)
        assert [scheduler.rungs_passed(trial) for trial in (0, 7, 8)] == [0, 1, 2]


class TestRestore:
    def test_before_anybody_has_started_again_the_same_go_on(self) -> None:
        rebuilt = rebuilt_from(played())
        assert choices(rebuilt, *range(8)) == [6, 7]
        assert trials_to_stop(rebuilt) == [0, 1, 2, 3, 4, 5]

    @pytest.mark.parametrize("is_recorded", [True, False])
    def test_a_winner_that_was_stopped_by_its_user_lets_no_loser_in(self, *, is_recorded: bool) -> None:
        uncut = played()
        before = rebuilt_from(uncut, 7)
        uncut.on_trial_remove(7)
        rebuilt = rebuilt_from(uncut, 7) if is_recorded else before
        assert choices(rebuilt, *range(7)) == choices(uncut, *range(7)) == [6]

    def test_a_bracket_that_went_on_for_a_failure_does_so_again(self) -> None:
        """The failure itself leaves no mark in the record."""
        uncut = nine()
        uncut.on_search_over()
        come_in(uncut, range(8))
        records = {trial: uncut.record(trial) for trial in range(9)}
        uncut.on_trial_remove(8)
        rebuilt = bohb()
        for trial, record in records.items():
            rebuilt.restore(trial, record, {})
        rebuilt.on_trial_remove(8)
        rebuilt.on_search_over()
        assert choices(rebuilt, *range(8)) == choices(uncut, *range(8)) == [5, 6, 7]

    def test_trials_without_a_record_get_the_places_that_they_had(self) -> None:
        rebuilt = bohb()
        uncut = bohb()
        add(uncut, *range(15))
        rebuilt.restore(14, {}, {})
        for trial in range(13):
            rebuilt.restore(trial, uncut.record(trial), {})
        add(rebuilt, 13)
        assert {trial: rebuilt.record(trial) for trial in range(15)} == {
            trial: uncut.record(trial) for trial in range(15)
        }
        assert bracket_of(rebuilt, 14) == ("0", "0")

    def test_one_that_came_in_ahead_and_lost_at_once_stays_lost(self) -> None:
        uncut = nine()
        come_in(uncut, range(8), epoch=4)
        assert report(uncut, 8, 4, 0.55).action is SchedulerAction.PAUSE  # third, then not the first
        rebuilt = rebuilt_from(uncut)
        assert choices(rebuilt, *range(9)) == choices(uncut, *range(9)) == [7]
        assert repr(rebuilt.trials_to_stop()) == repr(uncut.trials_to_stop())
        assert 8 in trials_to_stop(rebuilt)

    def test_a_removal_right_after_a_restart_is_recorded_as_ever(self) -> None:
        uncut = played()
        rebuilt = rebuilt_from(uncut)
        uncut.on_trial_remove(0)
        rebuilt.on_trial_remove(0)
        assert rebuilt.record(0) == uncut.record(0)
        assert rebuilt.record(0)["bracket"] == {"band": "0", "s": "2", "round": "1", "time": "1", "ended": "true"}

    def test_how_far_an_ended_trial_had_come_still_counts(self) -> None:
        """Of two brackets the one that is least far is served first; the time of those that ended is part of that."""
        uncut = hyperband()
        add(uncut, *range(8))
        report(uncut, 0, 5, 0.5)
        uncut.on_trial_complete(0, {"epoch": 6, "accuracy": 0.5})
        rebuilt = hyperband()
        for trial in range(8):
            rebuilt.restore(trial, uncut.record(trial), {})
        assert rebuilt.choose([1, 3]) == uncut.choose([1, 3])
        assert rebuilt.choose([1, 3]).trial == 3

    def test_one_whose_coming_in_was_not_recorded_in_time_runs_on(self) -> None:
        """The record of the one that ended the round was faster; nobody has acted on it, but there it is."""
        uncut = played()
        rebuilt = bohb()
        for trial in range(9):
            lost = {"bracket": {"band": "0", "s": "2", "round": "0"}}
            rebuilt.restore(trial, lost if trial == 7 else uncut.record(trial), {})
        assert trials_to_stop(rebuilt) == [0, 1, 2, 3, 4, 5]
        assert choices(rebuilt, 6, 7) == [6, 7]
        assert report(rebuilt, 7, 3, 0.7).action is SchedulerAction.PAUSE

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"bracket": {"s": "3"}}, r"bracket\['s'\] is '3', but at most 2 is possible"),
            ({"bracket": {"band": "-1"}}, r"bracket\['band'\] is '-1', which is not a whole number"),
            ({"bracket": {"round": "4"}}, r"bracket\['round'\] is '4', but at most 3 is possible"),
            ({"bracket": {"time": "late"}}, r"bracket\['time'\] is 'late', which is not a number"),
            ({"rungs": {"2": "0.5"}}, r"rungs\['2'\] is '0.5', but its rungs are 1, 3, 9"),
            ({"rungs": {"1": "good"}}, r"rungs\['1'\] is 'good', which is not a number"),
            ({"lines": {}}, r"lines\['1'\] is missing"),
            ({"lines": {"1": "0.6"}}, r"lines\['1'\] is '0.6', which is not like"),
            ({"lines": {"1": "1.2.3 by trial 6 of 9"}}, "which does not begin with a number"),
        ],
    )
    def test_nonsense_is_refused_by_name(self, change: dict[str, dict[str, str]], message: str) -> None:
        record = {section: dict(values) for section, values in played().record(8).items()}
        for section, values in change.items():
            record[section] = values if section != "bracket" else record[section] | values
        with pytest.raises(RecordError, match=message):
            bohb().restore(8, record, {})

    def test_a_record_reads_well(self) -> None:
        assert played().record(8) == {
            "bracket": {"band": "0", "s": "2", "round": "1", "time": "1"},
            "rungs": {"1": "0.8"},
            "lines": {"1": "0.6 by trial 6 of 9"},
        }


@given(seed=st.integers(0, 10**6), scheduler=st.sampled_from([hyperband, bohb]), factor=st.sampled_from([2, 3]))
@settings(max_examples=40, deadline=None)
def test_every_trial_comes_to_its_end(seed: int, scheduler: Any, factor: int) -> None:
    """Nobody is left waiting for others that will never come."""
    driver = SchedulerDriver(scheduler(reduction_factor=factor), seed)
    for _ in range(3000):
        driver.step()
    assert driver.world.is_over
    assert not driver.world.queue
    assert not driver.world.running
    assert not driver.world.pausing
