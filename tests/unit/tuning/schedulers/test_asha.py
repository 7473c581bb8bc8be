from __future__ import annotations

import math
from collections import Counter
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import AshaSettings
from podtune.testing.schedulers import SchedulerConformance
from podtune.tuning.schedulers.asha import Asha, build_bracket_generator, draw_bracket
from podtune.tuning.schedulers.base import (
    CONTINUE,
    MetricMissing,
    RecordError,
    Scheduler,
    SchedulerAction,
    SchedulerDecision,
)

Mode = Literal["max", "min"]


def asha(*, mode: Mode = "max", seed: int = 7, **fields: Any) -> Asha:
    defaults = {"time_attribute": "epoch", "max_time": 27, "grace_period": 1, "reduction_factor": 3}
    return Asha(AshaSettings(**{**defaults, **fields}), Objective(metric="accuracy", mode=mode), seed)


def with_one_trial(**fields: Any) -> Asha:
    scheduler = asha(**fields)
    scheduler.on_trial_add(0, {})
    return scheduler


def report(scheduler: Asha, trial: int, epoch: float, accuracy: float) -> SchedulerDecision:
    return scheduler.on_result(trial, {"epoch": epoch, "accuracy": accuracy})


def fill(scheduler: Asha, epoch: float, *values: float) -> int:
    """Has as many new trials report at an epoch; returns the next free index."""
    for trial, value in enumerate(values):
        scheduler.on_trial_add(trial, {})
        report(scheduler, trial, epoch, value)
    scheduler.on_trial_add(len(values), {})
    return len(values)


class TestAsha(SchedulerConformance):
    def make(self, *, seed: int = 7, mode: Mode = "max") -> Scheduler:
        return asha(seed=seed, mode=mode)


class TestAshaWithBrackets(SchedulerConformance):
    def make(self, *, seed: int = 7, mode: Mode = "max") -> Scheduler:
        return asha(seed=seed, mode=mode, brackets=5, reduction_factor=2)


class TestCutoff:
    def test_below_the_percentile_of_the_others_a_trial_is_stopped(self) -> None:
        scheduler = asha(reduction_factor=4)
        trial = fill(scheduler, 1, 0.1, 0.2, 0.3, 0.4, 0.5)
        decision = report(scheduler, trial, 1, 0.399)
        assert decision.action is SchedulerAction.STOP
        assert decision.recorded
        assert not decision.full
        assert decision.inputs == {"rung": 1, "metric": "accuracy", "value": 0.399, "cutoff": 0.4, "peers": 5}

    def test_on_the_percentile_it_goes_on(self) -> None:
        scheduler = asha(reduction_factor=4)
        trial = fill(scheduler, 1, 0.1, 0.2, 0.3, 0.4, 0.5)
        assert report(scheduler, trial, 1, 0.4).action is SchedulerAction.CONTINUE

    def test_between_two_trials_the_percentile_is_interpolated(self) -> None:
        scheduler = asha(reduction_factor=4)
        trial = fill(scheduler, 1, 0.0, 1.0)
        assert report(scheduler, trial, 1, 0.74).action is SchedulerAction.STOP
        scheduler.on_trial_add(9, {})
        assert report(scheduler, 9, 1, 0.869).action is SchedulerAction.STOP  # 0.87 is half-way from 0.74 to 1.0

    def test_the_first_at_a_rung_goes_on_however_bad(self) -> None:
        scheduler = with_one_trial()
        assert report(scheduler, 0, 1, -1e300).action is SchedulerAction.CONTINUE

    def test_where_less_is_better_the_greater_are_stopped(self) -> None:
        scheduler = asha(mode="min")
        trial = fill(scheduler, 1, 0.1, 0.1, 0.1)
        assert report(scheduler, trial, 1, 0.11).action is SchedulerAction.STOP
        scheduler.on_trial_add(9, {})
        assert report(scheduler, 9, 1, 0.09).action is SchedulerAction.CONTINUE
        assert scheduler.record(9) == {"rungs": {"1": "0.09"}}

    def test_nan_goes_on_and_is_remembered_and_moves_no_cutoff(self) -> None:
        scheduler = asha()
        trial = fill(scheduler, 1, math.nan, 0.5, 0.5)
        decision = report(scheduler, trial, 1, math.nan)
        assert decision.action is SchedulerAction.CONTINUE
        assert decision.recorded
        assert scheduler.record(trial) == {"rungs": {"1": "nan"}}
        scheduler.on_trial_add(9, {})
        assert report(scheduler, 9, 1, 0.5).action is SchedulerAction.CONTINUE


class TestRungs:
    @pytest.mark.parametrize(
        ("grace_period", "max_time", "reduction_factor", "milestones"),
        [
            (1, 27, 3, ["1", "3", "9", "27"]),
            (1, 26, 3, ["1", "3", "9"]),
            (1, 1000, 10, ["1", "10", "100"]),  # log(1000) / log(10) is 2.9999999999999996
            (10, 1000, 10, ["10", "100", "1000"]),
            (5, 5, 4, ["5"]),
        ],
    )
    def test_milestones(self, grace_period: int, max_time: int, reduction_factor: int, milestones: list[str]) -> None:
        scheduler = with_one_trial(grace_period=grace_period, max_time=max_time, reduction_factor=reduction_factor)
        for epoch in range(1, max_time + 1):
            report(scheduler, 0, epoch, 0.5)
        while scheduler.on_trial_complete(0, {"epoch": max_time, "accuracy": 0.5}):
            pass
        assert list(scheduler.record(0)["rungs"]) == milestones

    def test_before_the_grace_period_nothing_is_recorded(self) -> None:
        scheduler = with_one_trial(grace_period=3)
        assert report(scheduler, 0, 2.99, 0.5) == CONTINUE
        assert scheduler.record(0) == {}

    def test_between_rungs_nothing_is_decided(self) -> None:
        scheduler = with_one_trial()
        report(scheduler, 0, 1, 0.5)
        assert report(scheduler, 0, 2, 0.0) == CONTINUE

    def test_only_the_highest_rung_reached_is_recorded_and_later_results_fill_the_lower_ones(self) -> None:
        scheduler = with_one_trial()
        report(scheduler, 0, 10, 0.5)
        assert scheduler.record(0) == {"rungs": {"9": "0.5"}}
        report(scheduler, 0, 11, 0.6)
        assert scheduler.record(0) == {"rungs": {"3": "0.6", "9": "0.5"}}
        report(scheduler, 0, 12, 0.7)
        assert scheduler.record(0) == {"rungs": {"1": "0.7", "3": "0.6", "9": "0.5"}}

    def test_a_rung_filled_late_may_stop_the_trial(self) -> None:
        scheduler = asha()
        trial = fill(scheduler, 3, 0.9, 0.9, 0.9)
        assert report(scheduler, trial, 10, 0.1).action is SchedulerAction.CONTINUE
        assert report(scheduler, trial, 11, 0.1).action is SchedulerAction.STOP

    def test_at_max_time_a_trial_stops_unrecorded(self) -> None:
        scheduler = with_one_trial()
        decision = report(scheduler, 0, 27, 1.0)
        assert decision.action is SchedulerAction.STOP
        assert decision.full
        assert not decision.recorded
        assert scheduler.record(0) == {}

    def test_the_end_of_a_trial_is_recorded_like_a_result_also_after_a_stop(self) -> None:
        scheduler = with_one_trial()
        report(scheduler, 0, 27, 1.0)
        assert scheduler.on_trial_complete(0, {"epoch": 27, "accuracy": 1.0}) is True
        assert scheduler.record(0) == {"rungs": {"27": "1.0"}}

    @pytest.mark.parametrize("metrics", [{}, {"epoch": 3}, {"accuracy": 0.5}, {"epoch": "three", "accuracy": 0.5}])
    def test_an_end_without_the_metrics_is_passed_over(self, metrics: dict[str, Any]) -> None:
        scheduler = with_one_trial()
        assert scheduler.on_trial_complete(0, metrics) is False


class TestBrackets:
    def test_a_bracket_is_drawn_in_proportion_to_e_to_its_number_of_rungs(self) -> None:
        drawn = Counter(draw_bracket([4, 3, 2], build_bracket_generator(7, trial)) for trial in range(6000))
        total = math.e**4 + math.e**3 + math.e**2
        for bracket, rungs in enumerate([4, 3, 2]):
            assert drawn[bracket] == pytest.approx(6000 * math.e**rungs / total, abs=120)

    def test_bracket_s_starts_at_the_sth_rung(self) -> None:
        scheduler = asha(brackets=3)
        lowest: dict[str, set[str]] = {}
        for trial in range(60):
            scheduler.on_trial_add(trial, {})
            for epoch in range(1, 27):
                report(scheduler, trial, epoch, 0.5)
            record = scheduler.record(trial)
            lowest.setdefault(record["bracket"]["index"], set()).add(next(iter(record["rungs"])))
        assert lowest == {"0": {"1"}, "1": {"3"}, "2": {"9"}}

    def test_a_bracket_that_starts_above_max_time_has_no_rungs_and_stops_nothing(self) -> None:
        scheduler = asha(max_time=2, brackets=10)
        for trial in range(200):
            scheduler.on_trial_add(trial, {})
            if scheduler.record(trial)["bracket"]["index"] == "9":
                assert report(scheduler, trial, 1, 0.0) == CONTINUE
                break
        else:
            pytest.fail("no trial was in the last bracket")

    def test_trials_of_different_brackets_are_not_compared(self) -> None:
        scheduler = asha(brackets=2)
        best_of: dict[str, float] = {}
        for trial in range(40):
            scheduler.on_trial_add(trial, {})
            bracket = scheduler.record(trial)["bracket"]["index"]
            value = 0.9 if bracket == "0" else 0.1
            best_of[bracket] = value
            assert report(scheduler, trial, 3, value).action is SchedulerAction.CONTINUE
        assert set(best_of) == {"0", "1"}

    def test_one_bracket_is_not_worth_recording(self) -> None:
        scheduler = with_one_trial()
        assert scheduler.record(0) == {}


@pytest.mark.parametrize(
    ("mode", "epoch", "others", "value", "sentence"),
    [
        ("max", 9, [0.951] * 12, 0.872, "stopped at rung 9: accuracy 0.872 is below the cutoff 0.951 (top 1/3 of 12)"),
        ("min", 9, [0.1] * 12, 0.2, "stopped at rung 9: accuracy 0.2 is above the cutoff 0.1 (top 1/3 of 12)"),
        # By so little that few digits would hide it.
        (
            "max",
            9,
            [0.951] * 2,
            0.95099999,
            "stopped at rung 9: accuracy 0.95099999 is below the cutoff 0.951 (top 1/3 of 2)",
        ),
        ("max", 3, [0.5], 0.5, "continued at rung 3: accuracy 0.5 is not below the cutoff 0.5 (top 1/3 of 1)"),
        ("max", 1, [], 0.71, "continued at rung 1: accuracy 0.71 is the first there"),
        ("max", 1, [], math.nan, "continued at rung 1: accuracy is NaN, which never stops a trial"),
        ("max", 28, [], 0.5, "stopped at epoch 28: maxTime 27 is reached"),
    ],
)
def test_a_decision_says_why(mode: Mode, epoch: float, others: list[float], value: float, sentence: str) -> None:
    scheduler = asha(mode=mode)
    trial = fill(scheduler, epoch, *others)
    assert report(scheduler, trial, epoch, value).message == sentence


class TestMissingMetrics:
    def test_the_message_names_the_metric_those_seen_and_the_remedy(self) -> None:
        scheduler = with_one_trial()
        with pytest.raises(MetricMissing) as caught:
            scheduler.on_result(0, {"epoch": 3, "acc": 0.5, "time_total_s": 9.0, "time_this_iter_s": 3.0})
        assert caught.value.name == "accuracy"
        assert caught.value.seen == ("acc", "epoch")
        assert str(caught.value) == (
            "metric 'accuracy' (objective.metric) is not in the result; seen: acc, epoch; "
            "report it with every result, or correct objective.metric"
        )

    def test_the_time_attribute_is_named_by_its_own_field(self) -> None:
        scheduler = with_one_trial()
        with pytest.raises(MetricMissing, match=r"'epoch' \(scheduler\.asha\.timeAttribute\) is not in the result"):
            scheduler.on_result(0, {"accuracy": 0.5})

    def test_text_is_no_number(self) -> None:
        scheduler = with_one_trial()
        with pytest.raises(MetricMissing, match="is 'high', which is not a number"):
            scheduler.on_result(0, {"epoch": 1, "accuracy": "high"})


class TestRestore:
    def test_a_record_of_other_rungs_is_refused_by_name(self) -> None:
        with pytest.raises(RecordError, match=r"trial 4: .*rungs\['5'\] .*but its rungs are 1, 3, 9, 27"):
            asha().restore(4, {"rungs": {"5": "0.1"}}, {})

    def test_a_value_that_is_no_number_is_refused_by_name(self) -> None:
        with pytest.raises(RecordError, match=r"trial 4: .*\['3'\] is 'high', which is not a number"):
            asha().restore(4, {"rungs": {"3": "high"}}, {})

    @pytest.mark.parametrize("index", ["2", "-1", "first", ""])
    def test_a_bracket_that_there_is_not_is_refused(self, index: str) -> None:
        with pytest.raises(
            RecordError, match=r"\['index'\] is '.*', (but at most 1 is possible|which is not a whole number)"
        ):
            asha(brackets=2).restore(4, {"bracket": {"index": index}}, {})

    def test_a_trial_without_a_result_has_its_bracket_from_the_seed(self) -> None:
        added, restored = asha(brackets=3), asha(brackets=3)
        for trial in range(20):
            added.on_trial_add(trial, {})
            restored.restore(trial, {}, {})
            assert restored.record(trial) == added.record(trial)


curves = st.lists(st.lists(st.floats(0, 1, allow_nan=False), min_size=27, max_size=27), min_size=1, max_size=12)


class TestInvariants:
    @given(
        curves=curves,
        order=st.randoms(use_true_random=False),
        grace_period=st.integers(1, 9),
        mode=st.sampled_from(["max", "min"]),
    )
    @settings(max_examples=50, deadline=None)
    def test_no_trial_is_stopped_below_the_grace_period_nor_runs_past_max_time(
        self, curves: list[list[float]], order: Any, grace_period: int, mode: Mode
    ) -> None:
        stopped_at = run_all(asha(grace_period=grace_period, mode=mode), curves, order)
        assert all(grace_period <= epoch <= 27 for epoch in stopped_at.values())
        assert stopped_at.keys() == set(range(len(curves)))

    @given(curves=curves, order=st.randoms(use_true_random=False), brackets=st.integers(1, 4))
    @settings(max_examples=50, deadline=None)
    def test_the_trial_that_is_best_at_every_epoch_is_never_stopped_early(
        self, curves: list[list[float]], order: Any, brackets: int
    ) -> None:
        best = len(curves)
        stopped_at = run_all(asha(brackets=brackets), [*curves, [1.1] * 27], order)
        assert stopped_at[best] == 27


def run_all(scheduler: Asha, curves: list[list[float]], order: Any) -> dict[int, int]:
    """Runs trials side by side in a random order; returns the epochs at which they were stopped."""
    running = dict.fromkeys(range(len(curves)), 0)
    stopped_at: dict[int, int] = {}
    for trial in running:
        scheduler.on_trial_add(trial, {})
    while running:
        trial = order.choice(sorted(running))
        running[trial] += 1
        epoch = running[trial]
        if report(scheduler, trial, epoch, curves[trial][epoch - 1]).action is SchedulerAction.STOP:
            stopped_at[trial] = epoch
            del running[trial]
            scheduler.on_trial_complete(trial, {"epoch": epoch, "accuracy": curves[trial][epoch - 1]})
    return stopped_at
