from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.api.names import ExperimentReason
from podtune.tuning.stoppers.base import ExperimentProgress
from podtune.tuning.stoppers.experiment import ExperimentStopDecision, ExperimentStopper
from podtune.tuning.stoppers.factory import make_experiment_stopper
from podtune.tuning.stoppers.plateau import compute_standard_deviation
from tests.unit.tuning.manifests import experiment

GPU = {"spec": {"containers": [{"name": "trial", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
START = ExperimentProgress(elapsed=0.0)


def stopper(*rules: dict[str, Any], mode: str = "max", **fields: Any) -> ExperimentStopper:
    stop = {"experiment": list(rules), **fields.pop("stop", {})}
    objective = {"metric": "accuracy", "mode": mode}
    return make_experiment_stopper(experiment(objective=objective, stop=stop, trialTemplate=GPU, **fields))


def ending(made: ExperimentStopper, **known: Any) -> ExperimentStopDecision:
    found = made.check(replace(START, **known))
    assert found is not None
    return found


def goes_on(made: ExperimentStopper, **known: Any) -> bool:
    return made.check(replace(START, **known)) is None


def test_without_rules_an_experiment_goes_on() -> None:
    assert goes_on(stopper(), elapsed=1e12, best=1.0, ended=10**6, errors=10**6, pod_seconds=1e12, gpu_seconds=1e12)
    assert stopper().find_deadline(START) is None
    assert not stopper().is_decided_by(math.inf)


class TestTime:
    @pytest.mark.parametrize(("elapsed", "over"), [(0, False), (5399.9, False), (5400, True)])
    @pytest.mark.parametrize(
        "made", [stopper({"time": "1h30m"}), stopper(stop={"totalTime": "1h30m"})], ids=["rule", "totalTime"]
    )
    def test_the_experiment_ends_after_it(self, made: ExperimentStopper, elapsed: float, over: bool) -> None:
        assert goes_on(made, elapsed=elapsed) is not over
        assert made.find_deadline(START) == 5400.0

    def test_the_reason_holds_the_numbers(self) -> None:
        assert ending(stopper(stop={"totalTime": "90s"}), elapsed=91.5) == ExperimentStopDecision(
            ExperimentReason.TIME_LIMIT,
            "stopped: 91.5 s since the first trial was made are at least 90 s, as stop.totalTime asks",
            {"elapsed": 91.5, "limit": 90.0},
            good=True,
        )


class TestTarget:
    @pytest.mark.parametrize(
        ("mode", "best", "over"),
        [("max", 0.98, False), ("max", 0.99, True), ("min", 0.99, True), ("min", 1.0, False), ("max", None, False)],
    )
    def test_the_best_value_has_to_be_that_good(self, mode: str, best: float | None, over: bool) -> None:
        assert goes_on(stopper({"target": 0.99}, mode=mode), best=best) is not over

    def test_a_result_that_may_decide_is_known(self) -> None:
        assert stopper({"target": 0.99}).is_decided_by(0.99)
        assert not stopper({"target": 0.99}).is_decided_by(0.98)
        assert stopper({"all": [{"time": "1h"}, {"target": 0.1}]}, mode="min").is_decided_by(0.05)
        assert not stopper({"target": 0.99}).is_decided_by(math.nan)

    def test_the_reason_holds_the_numbers(self) -> None:
        end = ending(stopper({"target": 0.99}), best=0.991, best_trial="digits-7")
        assert (end.reason, end.good) == (ExperimentReason.TARGET_REACHED, True)
        assert end.message == (
            "stopped: the best accuracy, 0.991 of digits-7, is at least 0.99, as stop.experiment[0].target asks"
        )


class TestFailures:
    @pytest.mark.parametrize(("errors", "over"), [(0, False), (2, False), (3, True), (4, True)])
    def test_so_many_trials_in_error_fail_it(self, errors: int, over: bool) -> None:
        assert goes_on(stopper({"failures": {"count": 3}}), errors=errors, ended=9) is not over

    @pytest.mark.parametrize(
        ("errors", "ended", "over"), [(3, 3, False), (1, 4, False), (2, 4, True), (2, 5, False), (3, 5, True)]
    )
    def test_a_share_counts_from_some_ended_trials_on(self, errors: int, ended: int, over: bool) -> None:
        assert goes_on(stopper({"failures": {"share": 0.5, "after": 4}}), errors=errors, ended=ended) is not over

    def test_without_a_word_that_is_ten(self) -> None:
        made = stopper({"failures": {"share": 0.1}})
        assert goes_on(made, errors=9, ended=9)
        assert not goes_on(made, errors=1, ended=10)

    def test_it_is_a_failure(self) -> None:
        end = ending(stopper({"failures": {"share": 0.5}}), errors=6, ended=10)
        assert (end.reason, end.good) == (ExperimentReason.FAILURE_BUDGET_EXCEEDED, False)
        assert end.message == (
            "stopped: 6 of 10 ended trials are in ERROR, a share of 0.6 that is at least 0.5, "
            "as stop.experiment[0].failures asks"
        )
        end = ending(stopper({"failures": {"count": 2}}), errors=3)
        assert end.message == "stopped: 3 trials are in ERROR, at least 2, as stop.experiment[0].failures asks"

    def test_fail_fast_is_the_first_one(self) -> None:
        made = stopper({"failures": {"count": 1}}, failures={"failFast": True})
        assert goes_on(made)
        end = ending(made, errors=1, ended=1)
        assert (end.reason, end.good) == (ExperimentReason.FAIL_FAST, False)
        assert end.message == "stopped: 1 trial is in ERROR, at least 1, as failures.failFast asks"


class TestBudgets:
    def test_gpu_hours(self) -> None:
        made = stopper({"gpuHours": 10})
        assert goes_on(made, gpu_seconds=35999.0)
        end = ending(made, gpu_seconds=36000.0)
        assert (end.reason, end.good) == (ExperimentReason.BUDGET_EXHAUSTED, True)
        assert end.message == "stopped: 10 GPU-hours are at least 10, as stop.experiment[0].gpuHours asks"

    def test_what_runs_now_tells_when_they_are_used_up(self) -> None:
        progress = replace(START, elapsed=100.0, gpu_seconds=6 * 3600.0, gpus=8.0, pods=4)
        assert stopper({"gpuHours": 10}).find_deadline(progress) == pytest.approx(100.0 + 1800.0)
        assert stopper({"gpuHours": 10}).find_deadline(replace(progress, gpus=0.0)) is None

    def test_a_cost_is_made_of_gpus_and_pods(self) -> None:
        made = stopper({"cost": {"budget": 50, "perGpuHour": 2.5, "perPodHour": 0.5}})
        assert goes_on(made, gpu_seconds=3600.0 * 16, pod_seconds=3600.0 * 19)
        end = ending(made, gpu_seconds=3600.0 * 16, pod_seconds=3600.0 * 20)
        assert end.reason == ExperimentReason.BUDGET_EXHAUSTED
        assert end.message == (
            "stopped: 16 GPU-hours and 20 pod-hours cost 50, at least 50, as stop.experiment[0].cost asks"
        )
        assert end.inputs == {"cost": 50.0, "budget": 50.0, "gpuHours": 16.0, "podHours": 20.0}

    def test_what_runs_now_tells_when_the_money_is_spent(self) -> None:
        made = stopper({"cost": {"budget": 50, "perGpuHour": 2.5, "perPodHour": 0.5}})
        progress = replace(START, elapsed=60.0, gpu_seconds=3600.0 * 16, pods=2, gpus=4.0)
        assert made.find_deadline(progress) == pytest.approx(60.0 + 10 / 11 * 3600)
        assert made.find_deadline(START) is None


class TestExpression:
    def test_it_is_about_the_best_result(self) -> None:
        made = stopper({"expression": "accuracy > 0.9 and latency < 20"})
        assert goes_on(made)
        assert goes_on(made, best_result={"accuracy": 0.95})
        assert goes_on(made, best_result={"accuracy": 0.95, "latency": 30})
        end = ending(made, best_result={"accuracy": 0.95, "latency": 12}, best_trial="digits-7")
        assert (end.reason, end.good) == (ExperimentReason.CRITERIA_MET, True)
        assert end.message == (
            "stopped: of the best result, digits-7's, accuracy > 0.9 and latency < 20 holds "
            "(accuracy 0.95, latency 12), as stop.experiment[0].expression asks"
        )


class TestPlateau:
    def told(self, values: list[float | None], mode: str = "max", **settings: Any) -> list[bool]:
        """After which of the values the experiment would end."""
        made = stopper({"plateau": {"top": 3, "tolerance": 0.1, **settings}}, mode=mode)
        over = []
        for value in values:
            made.on_trial_end(value)
            over.append(not goes_on(made))
        return over

    def test_the_best_have_to_be_close_together(self) -> None:
        assert self.told([0.2, 0.9, 0.1, 0.85, 0.95]) == [False] * 4 + [True]
        assert self.told([0.2, 0.9, 0.1, 0.15], mode="min") == [False] * 3 + [True]

    def test_it_has_to_last(self) -> None:
        assert self.told([0.5, 0.5, 0.5, 0.1, 0.9, 0.9, 0.9, 0.1], patience=2) == [
            *(False, False, False, True),  # twice in a row
            *(False, False, False, True),  # and anew after a better one
        ]
        for patience in (0, 1):
            assert self.told([0.5, 0.5, 0.5], patience=patience) == [False, False, True]

    def test_trials_without_a_value_do_not_count(self) -> None:
        assert self.told([0.5, None, math.nan, 0.5, None, 0.5]) == [False] * 5 + [True]
        assert self.told([0.5, 0.5, 0.5, None, None, 0.5], patience=2) == [False] * 5 + [True]

    def test_infinite_values_are_no_plateau(self) -> None:
        assert self.told([math.inf] * 5) == [False] * 5

    def test_the_reason_holds_the_numbers(self) -> None:
        made = stopper({"plateau": {"top": 2, "tolerance": 0.1}})
        for value in (0.5, 0.1, 0.6):
            made.on_trial_end(value)
        end = ending(made)
        assert (end.reason, end.good) == (ExperimentReason.PLATEAU_REACHED, True)
        assert end.message == (
            "stopped: the best 2 of 3 trials have a standard deviation of 0.05, at most 0.1, and have had it for 1, "
            "as stop.experiment[0].plateau asks"
        )

    @given(
        st.lists(st.integers(0, 6).map(lambda n: n / 8), max_size=40),
        st.integers(2, 6),
        st.sampled_from([0.0, 0.0625, 0.125, 0.3]),
        st.integers(0, 4),
        st.sampled_from(["min", "max"]),
    )
    def test_it_ends_when_rays_stopper_does(
        self, values: list[float], top: int, tolerance: float, patience: int, mode: str
    ) -> None:
        """The rule of Ray 2.60's ExperimentPlateauStopper, written down anew, on one value a trial."""
        best: list[float] = []
        iterations, expected = 0, []
        for value in values:
            ranked = sorted([*best, value])
            best = ranked[:top] if mode == "min" else ranked[-top:]
            plateaued = len(best) == top and np.std(best) <= tolerance + 1e-12
            iterations = iterations + 1 if plateaued else 0
            expected.append(plateaued and iterations >= patience)
        settings = {"top": top, "tolerance": tolerance + 1e-12, "patience": patience}
        assert self.told(list(values), mode=mode, **settings) == expected


class TestGroups:
    def test_all_have_to_hold_at_the_same_time(self) -> None:
        made = stopper({"all": [{"target": 0.9}, {"time": "1h"}]})
        assert goes_on(made, best=0.95, elapsed=3599.0)
        assert goes_on(made, best=0.85, elapsed=3600.0)
        end = ending(made, best=0.95, best_trial="t", elapsed=3600.0)
        assert end.reason == ExperimentReason.CRITERIA_MET
        assert end.message == (
            "stopped: the best accuracy, 0.95 of t, is at least 0.9 and 3600 s since the first trial was made are at "
            "least 3600 s, as stop.experiment[0].all asks"
        )

    def test_one_of_any_is_enough_and_gives_the_reason(self) -> None:
        made = stopper({"any": [{"target": 0.9}, {"failures": {"count": 1}}]})
        assert ending(made, best=0.95).reason == ExperimentReason.TARGET_REACHED
        end = ending(made, errors=1)
        assert (end.reason, end.good) == (ExperimentReason.FAILURE_BUDGET_EXCEEDED, False)
        assert end.message.endswith("as stop.experiment[0].any[1].failures asks")

    def test_a_failure_among_all_makes_a_failure_of_the_end(self) -> None:
        made = stopper({"all": [{"failures": {"share": 0.5}}, {"time": "1h"}]})
        end = ending(made, errors=9, ended=12, elapsed=3600.0)
        assert (end.reason, end.good) == (ExperimentReason.CRITERIA_MET, False)

    def test_parts_of_one_kind_keep_their_reason(self) -> None:
        made = stopper({"all": [{"gpuHours": 1}, {"cost": {"budget": 1, "perPodHour": 1}}]})
        assert ending(made, gpu_seconds=3600.0, pod_seconds=3600.0).reason == ExperimentReason.BUDGET_EXHAUSTED

    def test_time_completes_a_group_at_the_last_of_its_deadlines(self) -> None:
        made = stopper({"all": [{"time": "1h"}, {"gpuHours": 1}]}, {"all": [{"time": "10s"}, {"target": 0.9}]})
        assert made.find_deadline(replace(START, gpus=2.0)) == 3600.0
        assert made.find_deadline(replace(START, gpus=0.5)) == 7200.0
        assert made.find_deadline(replace(START, gpus=0.5, elapsed=3600.0)) == 10800.0
        assert made.find_deadline(START) is None
        assert made.find_deadline(replace(START, best=0.95)) == 10.0


RULES = [
    {"time": "1h"},
    {"target": 0.9},
    {"failures": {"count": 2}},
    {"gpuHours": 3},
    {"cost": {"budget": 5, "perGpuHour": 1, "perPodHour": 0.5}},
]


@given(
    st.lists(
        st.one_of(
            st.sampled_from(RULES),
            st.lists(st.sampled_from(RULES), min_size=2, max_size=3).map(lambda parts: {"all": parts}),
        ),
        max_size=3,
    ),
    st.builds(
        ExperimentProgress,
        elapsed=st.floats(0, 7200),
        best=st.none() | st.floats(0, 1),
        errors=st.integers(0, 3),
        pod_seconds=st.floats(0, 20000),
        gpu_seconds=st.floats(0, 20000),
        pods=st.integers(0, 4),
        gpus=st.sampled_from([0.0, 1 / 7, 1.0, 4.0]),
    ),
)
def test_a_deadline_is_when_it_ends_and_not_before(rules: list[dict[str, Any]], progress: ExperimentProgress) -> None:
    """With what runs now going on."""

    def after(seconds: float) -> ExperimentProgress:
        return replace(
            progress,
            elapsed=progress.elapsed + seconds,
            pod_seconds=progress.pod_seconds + progress.pods * seconds,
            gpu_seconds=progress.gpu_seconds + progress.gpus * seconds,
        )

    made = stopper(*rules)
    if made.check(progress) is not None:
        return
    deadline = made.find_deadline(progress)
    if deadline is None:
        assert made.check(after(1e9)) is None
    else:
        seconds = deadline - progress.elapsed
        assert seconds > 0
        assert made.check(after(seconds + 0.001)) is not None
        assert seconds < 0.001 or made.check(after(seconds - 0.001)) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_the_standard_deviation_is_numpys(values: list[float]) -> None:
    assert compute_standard_deviation(values) == pytest.approx(float(np.std(values)), rel=1e-9, abs=1e-9)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 50))
def test_equal_values_do_not_deviate_at_all(value: float, count: int) -> None:
    assert compute_standard_deviation([value] * count) == 0.0
