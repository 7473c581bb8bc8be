from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pytest

from podtune.testing.schedulers import SchedulerConformance
from podtune.tuning.schedulers.base import (
    CONTINUE,
    Exploit,
    MetricMissing,
    RecordError,
    Scheduler,
    SchedulerAction,
    SchedulerDecision,
    StartDecision,
)
from podtune.tuning.schedulers.factory import make_scheduler
from podtune.tuning.searchers.base import Configuration
from tests.unit.tuning.manifests import experiment

Mode = Literal["max", "min"]
PARAMETERS: list[dict[str, Any]] = [
    {"name": "lr", "float": {"min": 0.001, "max": 0.1, "scale": "log"}},
    {"name": "units", "int": {"min": 8, "max": 256}},
    {"name": "optimizer", "choice": {"values": ["adam", "sgd", "rmsprop"]}},
]


def population(
    size: int = 4, *, seed: int = 7, mode: Mode = "max", parameters: list[dict[str, Any]] = PARAMETERS, **settings: Any
) -> Scheduler:
    defaults = {"timeAttribute": "epoch", "interval": 5}
    return make_scheduler(
        experiment(
            objective={"metric": "accuracy", "mode": mode},
            parameters=parameters,
            search={"algorithm": "random", "maxTrials": size, "seed": seed},
            scheduler={"pbt": {**defaults, **settings}},
            checkpoints={"store": {"bucket": "some-bucket"}},
        )
    )


def configuration(trial: int) -> Configuration:
    return {"lr": 0.01, "units": 64 + trial, "optimizer": "sgd"}


def full(size: int = 4, **settings: Any) -> Scheduler:
    """A population that is complete."""
    scheduler = population(size, **settings)
    for trial in range(size):
        scheduler.on_trial_add(trial, configuration(trial))
    scheduler.on_search_over()
    return scheduler


def report(scheduler: Scheduler, trial: int, epoch: float, accuracy: float, *, waiting: int = 0) -> SchedulerDecision:
    return scheduler.on_result(trial, {"epoch": epoch, "accuracy": accuracy}, waiting=waiting)


def exploit_of(decision: SchedulerDecision | StartDecision | None) -> Exploit:
    assert decision.exploit is not None
    return decision.exploit


def rivals(**settings: Any) -> Scheduler:
    """Two trials: trial 0 was among the best when it was last looked at, at epoch 8; trial 1 came by at epoch 5."""
    scheduler = full(2, **settings)
    report(scheduler, 1, 5, 0.5)
    assert report(scheduler, 0, 8, 0.9 if settings.get("mode") != "min" else 0.1).wants_checkpoint
    return scheduler


class PopulationConformance(SchedulerConformance):
    settings: ClassVar[Mapping[str, Any]]

    def make(self, *, seed: int = 7, mode: Mode = "max") -> Scheduler:
        return population(15, seed=seed, mode=mode, **self.settings)

    def configuration(self, trial: int) -> Configuration:
        return configuration(trial)


class TestAsynchronous(PopulationConformance):
    settings: ClassVar = {"interval": 2, "quantile": 0.4}


class TestSynchronous(PopulationConformance):
    settings: ClassVar = {"interval": 4, "quantile": 0.4, "synchronous": True}


class TestSynchronousWithBurnIn(PopulationConformance):
    settings: ClassVar = {"interval": 1, "burnIn": 3, "synchronous": True}


class TestIntervals:
    def test_between_two_looks_nothing_is_decided(self) -> None:
        scheduler = full(interval=5)
        assert report(scheduler, 0, 4, 0.5) == CONTINUE
        assert report(scheduler, 0, 5, 0.5).recorded
        assert report(scheduler, 0, 9, 0.5) == CONTINUE
        assert report(scheduler, 0, 11, 0.5).recorded

    def test_during_the_burn_in_nothing_is_decided(self) -> None:
        scheduler = full(interval=5, burnIn=12)
        assert report(scheduler, 0, 11, 0.5) == CONTINUE
        assert report(scheduler, 0, 12, 0.5).recorded


class TestAsynchronousExploits:
    def test_the_worst_clones_one_of_the_best(self) -> None:
        scheduler = full(4)
        for trial, accuracy in ((1, 0.5), (2, 0.6), (0, 0.9)):
            assert report(scheduler, trial, 5, accuracy).action is SchedulerAction.CONTINUE
        decision = report(scheduler, 3, 5, 0.1)
        assert decision.action is SchedulerAction.PAUSE
        assert decision.recorded
        assert exploit_of(decision).donor == 0
        assert list(exploit_of(decision).configuration) == ["lr", "units", "optimizer"]
        assert exploit_of(decision).configuration != configuration(0)
        assert decision.message.startswith(
            "clones trial 0 (accuracy 0.9) at epoch 5: accuracy 0.1 is rank 4 of 4, among the worst 1; "
            "perturbed: lr 0.01 → "
        )
        assert dict(decision.inputs) == {
            "time": 5,
            "metric": "accuracy",
            "value": 0.1,
            "rank": 4,
            "population": 4,
            "quantile": 1,
            "donor": 0,
            "donorValue": 0.9,
        }

    def test_where_less_is_better_the_greatest_clones_the_least(self) -> None:
        decision = report(rivals(mode="min"), 1, 10, 0.9)
        assert exploit_of(decision).donor == 0
        assert decision.message.startswith("clones trial 0 (accuracy 0.1) at epoch 10: accuracy 0.9 is rank 2 of 2")

    def test_of_the_best_a_checkpoint_is_wanted(self) -> None:
        scheduler = full(4)
        report(scheduler, 0, 5, 0.5)
        assert report(scheduler, 1, 5, 0.9).wants_checkpoint
        decision = report(scheduler, 2, 5, 0.7)
        assert not decision.wants_checkpoint
        assert decision.message == "continued at epoch 5: accuracy 0.7 is rank 2 of 3"

    def test_who_was_not_among_the_best_when_it_came_by_has_nothing_to_clone(self) -> None:
        scheduler = full(2)
        report(scheduler, 0, 5, 0.9)  # there was none to be better than
        decision = report(scheduler, 1, 5, 0.1)
        assert decision.action is SchedulerAction.CONTINUE
        assert decision.exploit is None
        assert decision.message == (
            "continued at epoch 5: accuracy 0.1 is rank 2 of 2, among the worst 1; the drawn donor, trial 0, was not "
            "among the best when last ranked"
        )

    def test_who_clones_takes_over_the_donors_progress(self) -> None:
        scheduler = rivals()
        exploit = exploit_of(report(scheduler, 1, 10, 0.1))
        scheduler.on_configuration(1, exploit.configuration)
        assert report(scheduler, 1, 12, 0.5) == CONTINUE
        assert report(scheduler, 1, 13, 0.5).recorded

    def test_an_exploit_that_was_not_carried_out_changes_nothing(self) -> None:
        scheduler = rivals()
        exploit_of(report(scheduler, 1, 10, 0.1))
        assert report(scheduler, 1, 14, 0.5) == CONTINUE
        assert report(scheduler, 1, 15, 0.5).recorded

    def test_who_has_ended_is_ranked_no_more(self) -> None:
        for end in ("complete", "remove"):
            scheduler = full(3)
            report(scheduler, 0, 5, 0.9)
            report(scheduler, 1, 5, 0.5)
            if end == "complete":
                assert scheduler.on_trial_complete(0, {"epoch": 6, "accuracy": 0.9})
            else:
                scheduler.on_trial_remove(0)
            assert report(scheduler, 2, 5, 0.7).inputs["rank"] == 1

    def test_nan_is_not_ranked(self) -> None:
        scheduler = full(3)
        report(scheduler, 0, 5, 0.9)
        decision = report(scheduler, 1, 5, math.nan)
        assert decision.action is SchedulerAction.CONTINUE
        assert decision.message == "continued at epoch 5: accuracy is NaN, which isn't ranked"
        assert report(scheduler, 2, 5, 0.1).inputs["population"] == 2

    def test_at_most_half_are_the_worst(self) -> None:
        scheduler = full(3, quantile=0.5)
        for trial, accuracy in enumerate([0.9, 0.5]):
            report(scheduler, trial, 5, accuracy)
        assert report(scheduler, 2, 5, 0.7).inputs["quantile"] == 1

    def test_the_same_seed_draws_the_same_and_another_one_something_else(self) -> None:
        exploits = []
        for seed in (1, 1, 2):
            exploits.append(exploit_of(report(rivals(seed=seed), 1, 10, 0.1)))
        assert exploits[0] == exploits[1] != exploits[2]

    @pytest.mark.parametrize("synchronous", [False, True])
    def test_a_trial_whose_exploit_was_skipped_is_no_clone(self, *, synchronous: bool) -> None:
        """What it was to clone is kept for it no longer, and new parameters of a user's leave its progress its own."""
        scheduler = full(2, synchronous=synchronous)
        report(scheduler, 1, 5, 0.5)
        scheduler.on_result(0, {"epoch": 8, "accuracy": 0.9, "training_iteration": 80})
        if synchronous:
            scheduler.choose([0, 1])  # the donor, which is as far
            exploit = exploit_of(scheduler.choose([1]))
        else:
            exploit = exploit_of(report(scheduler, 1, 10, 0.5))
        assert (exploit.donor, exploit.step, scheduler.pinned_steps(0)) == (0, 80, {80})
        scheduler.on_exploit_skipped(1)
        scheduler.on_result(0, {"epoch": 13, "accuracy": 0.95, "training_iteration": 130})
        assert scheduler.pinned_steps(0) == {130}
        before = scheduler.record(1)
        scheduler.on_configuration(1, configuration(7))
        assert scheduler.record(1) == before
        assert "clone" not in before


class TestPlaces:
    def test_while_others_wait_a_trial_that_was_looked_at_is_paused(self) -> None:
        scheduler = full(4)
        decision = report(scheduler, 0, 5, 0.5, waiting=2)
        assert decision.action is SchedulerAction.PAUSE
        assert decision.message == "paused at epoch 5, because 2 others wait: accuracy 0.5 is rank 1 of 1"

    def test_the_trial_that_is_least_far_goes_on(self) -> None:
        scheduler = full(4)
        report(scheduler, 0, 9, 0.5)
        report(scheduler, 1, 5, 0.6)
        report(scheduler, 2, 7, 0.7)
        assert scheduler.choose([0, 1, 2]) == StartDecision(1)
        assert scheduler.choose([0, 2, 3]) == StartDecision(3)

    def test_none_is_resumed_while_there_are_trials_to_be_made(self) -> None:
        scheduler = population(3)
        scheduler.on_trial_add(0, configuration(0))
        report(scheduler, 0, 5, 0.5, waiting=2)
        assert scheduler.choose([0]) is None
        scheduler.on_trial_add(1, configuration(1))
        assert scheduler.choose([0, 1]) == StartDecision(1)
        scheduler.on_search_over()
        assert scheduler.choose([0]) == StartDecision(0)


class TestBarrier:
    def at_the_barrier(self, *accuracies: float, **settings: Any) -> Scheduler:
        scheduler = full(len(accuracies), synchronous=True, **settings)
        for trial, accuracy in enumerate(accuracies):
            assert report(scheduler, trial, 5, accuracy).action is SchedulerAction.PAUSE
        return scheduler

    def test_each_waits_for_the_others(self) -> None:
        scheduler = full(3, synchronous=True)
        decision = report(scheduler, 0, 5, 0.9)
        assert decision.action is SchedulerAction.PAUSE
        assert decision.message == "paused at epoch 5 with accuracy 0.9: 1 of 3 trials have reached the barrier at 5"
        report(scheduler, 1, 5, 0.5)
        assert scheduler.choose([0, 1]) is None

    def test_then_all_go_on_and_the_worst_clones_the_best(self) -> None:
        scheduler = self.at_the_barrier(0.9, 0.1, 0.5, 0.6)
        first = scheduler.choose([0, 1, 2, 3])
        assert first == StartDecision(0, recorded=True)
        start = scheduler.choose([1, 2, 3])
        assert start.trial == 1
        assert exploit_of(start).donor == 0
        assert start.message.startswith(
            "clones trial 0 (accuracy 0.9) at the barrier of epoch 5: accuracy 0.1 is among the worst 1 of 4; "
            "perturbed: "
        )
        scheduler.on_configuration(1, exploit_of(start).configuration)
        assert scheduler.choose([2, 3]) == StartDecision(2)

    def test_it_waits_for_trials_that_are_still_on_their_way_to_a_pause(self) -> None:
        scheduler = self.at_the_barrier(0.9, 0.1, 0.5, 0.6)
        assert scheduler.choose([0, 1, 2]) is None

    def test_it_does_not_wait_for_who_has_ended(self) -> None:
        scheduler = full(3, synchronous=True)
        report(scheduler, 0, 5, 0.9)
        report(scheduler, 1, 5, 0.5)
        scheduler.on_trial_complete(2, {"epoch": 3, "accuracy": 0.7})
        assert scheduler.choose([0, 1]) == StartDecision(0, recorded=True)

    def test_it_waits_for_trials_that_are_to_be_made(self) -> None:
        scheduler = population(3, synchronous=True)
        scheduler.on_trial_add(0, configuration(0))
        report(scheduler, 0, 5, 0.9)
        assert scheduler.choose([0]) is None

    def test_who_has_overshot_the_next_barrier_waits_there(self) -> None:
        scheduler = full(3, synchronous=True)
        for trial, epoch in enumerate([5, 12, 5]):
            report(scheduler, trial, epoch, 0.5 + trial / 10)
        assert scheduler.choose([0, 1, 2]) is not None
        assert scheduler.choose([1, 2]) == StartDecision(2, recorded=False)
        assert scheduler.choose([1]) is None

    def test_where_all_have_overshot_it_is_moved_on(self) -> None:
        """Ray comes to a standstill there."""
        scheduler = full(2, synchronous=True)
        report(scheduler, 0, 30, 0.9)
        report(scheduler, 1, 30, 0.5)
        assert scheduler.choose([0, 1]).trial == 0
        assert "barrier at 35" in report(scheduler, 0, 35, 0.9).message

    def test_the_record_of_the_first_to_go_on_holds_what_was_decided(self) -> None:
        scheduler = self.at_the_barrier(0.9, 0.1)
        start = scheduler.choose([0, 1])
        opened = scheduler.record(start.trial)["opened-1"]
        assert {key: opened[key] for key in ("time", "target", "ranked", "quantile")} == {
            "time": "5",
            "target": "10",
            "ranked": "2",
            "quantile": "1",
        }
        assert opened["0"].startswith("1 0 5 0.9 ")

    def test_it_stays_there_until_all_others_are_past_it(self) -> None:
        scheduler = self.at_the_barrier(0.9, 0.1)
        scheduler.choose([0, 1])
        report(scheduler, 0, 10, 0.9)
        assert "opened-1" in scheduler.record(0)
        start = scheduler.choose([1])
        scheduler.on_configuration(1, exploit_of(start).configuration)
        report(scheduler, 1, 10, 0.1)
        scheduler.choose([0, 1])
        report(scheduler, 0, 15, 0.9)
        assert "opened-1" not in scheduler.record(0)


class TestRecord:
    def test_asynchronous(self) -> None:
        scheduler = full(4)
        report(scheduler, 0, 5, 0.9)
        report(scheduler, 1, 5.5, 0.95)
        assert scheduler.record(0) == {"population": {"number": "1", "score": "0.9", "trained": "5", "perturbed": "5"}}
        assert scheduler.record(1)["population"]["donor"] == "true"
        assert scheduler.record(2) == {}

    @pytest.mark.parametrize(
        "record",
        [
            {"population": {"score": "high"}},
            {"clone": {"donor": "1"}},
            {"opened-1": {"time": "5", "target": "10", "ranked": "2", "quantile": "1", "0": "1 0 5"}},
        ],
    )
    def test_what_nobody_wrote_is_refused(self, record: dict[str, dict[str, str]]) -> None:
        with pytest.raises(RecordError, match=r"trial 4: status\.scheduler can't be read: .*; correct it"):
            population(synchronous=True).restore(4, record, {})


@pytest.mark.parametrize("metrics", [{}, {"epoch": 5}, {"accuracy": 0.5}, {"epoch": math.inf, "accuracy": 0.5}])
@pytest.mark.parametrize("synchronous", [False, True])
def test_a_metric_that_is_missing_is_named(metrics: dict[str, float], *, synchronous: bool) -> None:
    scheduler = full(synchronous=synchronous)
    with pytest.raises(MetricMissing):
        scheduler.on_result(0, metrics)


def test_a_long_list_of_changes_is_cut_where_the_ledger_ends() -> None:
    names = [f"a_rather_long_name_{place}" for place in range(30)]
    parameters = [{"name": name, "float": {"min": 0.0, "max": 1.0}} for name in names]
    scheduler = population(2, parameters=parameters)
    for trial in range(2):
        scheduler.on_trial_add(trial, dict.fromkeys(names, 0.5))
    report(scheduler, 1, 5, 0.1)
    report(scheduler, 0, 5, 0.9)
    message = report(scheduler, 1, 10, 0.1).message
    assert len(message) <= 256
    assert message.endswith(" more")
