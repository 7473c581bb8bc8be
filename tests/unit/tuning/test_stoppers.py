from __future__ import annotations

import math
from typing import Any

import pytest

from podtune.tuning.schedulers.base import CONTINUE, Action, Metrics, Verdict
from podtune.tuning.stoppers import make_experiment_stopper, make_trial_stopper
from podtune.tuning.stoppers.base import ExperimentStopper, Progress, TrialStopper
from podtune.tuning.stoppers.combination import AnyOfExperiment, AnyOfTrial
from tests.unit.tuning.manifests import experiment


def trial_stopper(metrics: dict[str, float], *, metric: str = "accuracy", mode: str = "max") -> TrialStopper:
    return make_trial_stopper(experiment(objective={"metric": metric, "mode": mode}, stop={"metrics": metrics}))


def experiment_stopper(**stop: Any) -> ExperimentStopper:
    return make_experiment_stopper(experiment(stop=stop))


class TestMetrics:
    @pytest.mark.parametrize(
        ("value", "action"),
        [
            (26, Action.CONTINUE),
            (26.999, Action.CONTINUE),
            (27, Action.STOP),
            (28, Action.STOP),
            (math.inf, Action.STOP),
        ],
    )
    def test_at_least_the_value_is_enough(self, value: float, action: Action) -> None:
        assert trial_stopper({"epoch": 27}).on_result(0, {"epoch": value}).action is action

    @pytest.mark.parametrize(
        ("value", "action"), [(0.2, Action.CONTINUE), (0.1, Action.STOP), (0.05, Action.STOP), (-math.inf, Action.STOP)]
    )
    def test_an_objective_to_be_minimised_has_to_fall_to_it(self, value: float, action: Action) -> None:
        stopper = trial_stopper({"loss": 0.1}, metric="loss", mode="min")
        assert stopper.on_result(0, {"loss": value}).action is action

    def test_other_metrics_rise_whatever_the_objective_does(self) -> None:
        stopper = trial_stopper({"epoch": 27}, metric="loss", mode="min")
        assert stopper.on_result(0, {"epoch": 3, "loss": 0.5}) == CONTINUE
        assert stopper.on_result(0, {"epoch": 27, "loss": 0.5}).action is Action.STOP

    @pytest.mark.parametrize("metrics", [{}, {"other": 99}, {"epoch": math.nan}, {"epoch": "27"}])
    def test_a_result_without_the_number_goes_on(self, metrics: Metrics) -> None:
        assert trial_stopper({"epoch": 27}).on_result(0, metrics) == CONTINUE

    def test_one_of_several_is_enough(self) -> None:
        stopper = trial_stopper({"epoch": 27, "accuracy": 0.99})
        assert stopper.on_result(0, {"epoch": 3, "accuracy": 0.5}) == CONTINUE
        assert stopper.on_result(0, {"epoch": 3, "accuracy": 0.995}).because == {
            "metric": "accuracy",
            "value": 0.995,
            "threshold": 0.99,
        }

    def test_the_reason_holds_the_numbers(self) -> None:
        assert trial_stopper({"epoch": 27}).on_result(0, {"epoch": 28}).message == (
            "stopped: epoch 28 is at least 27, as stop.metrics asks"
        )
        assert trial_stopper({"loss": 0.1}, metric="loss", mode="min").on_result(0, {"loss": 0.0999999999}).message == (
            "stopped: loss 0.0999999999 is at most 0.1, as stop.metrics asks"
        )

    def test_without_thresholds_nothing_stops(self) -> None:
        assert trial_stopper({}).on_result(0, {"epoch": 10**9, "accuracy": 1.0}) == CONTINUE


class TestTotalTime:
    @pytest.mark.parametrize(
        ("elapsed", "action"), [(0, Action.CONTINUE), (5399.9, Action.CONTINUE), (5400, Action.STOP)]
    )
    def test_the_experiment_ends_after_it(self, elapsed: float, action: Action) -> None:
        assert experiment_stopper(totalTime="1h30m").check(Progress(elapsed)).action is action

    def test_the_reason_holds_the_numbers(self) -> None:
        verdict = experiment_stopper(totalTime="90s").check(Progress(91.5))
        assert verdict.message == "stopped after 91.5 s: stop.totalTime allows 90 s"
        assert verdict.because == {"elapsed": 91.5, "totalTime": 90.0}

    def test_it_says_when_to_look_again(self) -> None:
        assert experiment_stopper(totalTime="2m").deadline() == 120.0
        assert experiment_stopper().deadline() is None

    def test_without_a_limit_the_experiment_goes_on(self) -> None:
        assert experiment_stopper().check(Progress(1e12)) == CONTINUE


class Fixed(TrialStopper, ExperimentStopper):
    """Answers the same to everything, and counts the questions."""

    def __init__(self, verdict: Verdict, deadline: float | None = None) -> None:
        self.verdict = verdict
        self.asked = 0
        self._deadline = deadline

    def on_result(self, trial: int, metrics: Metrics) -> Verdict:
        self.asked += 1
        return self.verdict

    def check(self, progress: Progress) -> Verdict:
        self.asked += 1
        return self.verdict

    def deadline(self) -> float | None:
        return self._deadline


class TestAny:
    def test_the_first_that_stops_gives_the_reason_and_all_see_the_result(self) -> None:
        """A part that looks for a plateau must not miss a result because another one stopped first."""
        first, second = Verdict(Action.STOP, "first"), Verdict(Action.STOP, "second")
        parts = [Fixed(CONTINUE), Fixed(first), Fixed(second)]
        assert AnyOfTrial(parts).on_result(0, {}) == first
        assert AnyOfExperiment(parts).check(Progress(0)) == first
        assert [part.asked for part in parts] == [2, 2, 2]

    def test_the_earliest_deadline_counts(self) -> None:
        parts = [Fixed(CONTINUE, None), Fixed(CONTINUE, 50.0), Fixed(CONTINUE, 20.0)]
        assert AnyOfExperiment(parts).deadline() == 20.0
