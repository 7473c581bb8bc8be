"""Rules of spec.stop at work: what ends trials and experiments, and that what is recorded of it survives restarts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, DesiredState, ExperimentReason, ExperimentState, TrialReason, TrialState
from podtune.api.tuning.stop import Stop
from podtune.runner.actions import (
    Action,
    CreateTrial,
    WriteExperimentStatus,
    WriteTrialStatus,
)
from podtune.runner.settings import RunnerSettings
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import START, STORE, Simulation, Weather, spec
from tests.unit.runner.world.weather import Faults

ERRORS = {"maxFailures": 0}
SHORT = {"initial": "1s", "max": "1s"}
GPUS = {"spec": {"containers": [{"name": "trial", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 2}}}]}}
FOREVER = 10**6


def condition(simulation: Simulation, type_: ConditionType) -> tuple[str, str, str]:
    found = find_condition(simulation.api.experiment.status.conditions, type_)
    return found.status, found.reason, found.message


def by_trial(*values: float) -> Program:
    """Each trial reports the same value again and again."""
    return Program(steps=3, metric=lambda trial, step: values[trial])


def many(count: int, **fields: Any) -> Any:
    return spec(search={"algorithm": "random", "maxTrials": count, "seed": 7}, **fields)


class TestTarget:
    STOP: ClassVar[dict[str, Any]] = {"experiment": [{"target": 0.9}]}

    def test_the_experiment_ends_when_the_best_reaches_it(self) -> None:
        program = Program(steps=FOREVER, metric=lambda trial, step: step / 10 if trial == 1 else 0.1)
        simulation = Simulation(spec(stop=self.STOP), program).run()
        status = simulation.api.experiment.status
        assert status.state is ExperimentState.COMPLETE
        message = "stopped: the best accuracy, 0.9 of e-1, is at least 0.9, as stop.experiment[0].target asks"
        assert condition(simulation, ConditionType.COMPLETE) == ("True", ExperimentReason.TARGET_REACHED, message)
        assert condition(simulation, ConditionType.FAILED)[0] == "False"
        assert float(status.best.value) >= 0.9
        assert {trial.status.reason for trial in simulation.api.trials.values()} == {TrialReason.STOPPED_BY_EXPERIMENT}
        assert simulation.status(0).message == message

    def test_the_result_is_recorded_at_once_and_before_it_counts(self) -> None:
        program = Program(steps=FOREVER, metric=lambda trial, step: 0.95 if step == 7 else 0.1)
        simulation = Simulation(spec(stop=self.STOP, maxConcurrentTrials=1), program)
        simulation.fail(WriteTrialStatus, when=lambda action: action.status.best_value == "0.95")
        simulation.run(20.0)
        assert simulation.api.experiment.status.state is ExperimentState.RUNNING
        simulation.refuse = lambda action: None
        simulation.run()
        assert simulation.status().best["training_iteration"] == "7"
        quick = Simulation(spec(stop=self.STOP, maxConcurrentTrials=1), program).run()
        assert quick.status().iteration <= 8, "nothing is waited for"

    def test_falling_is_reaching_for_what_is_to_be_minimised(self) -> None:
        program = Program(steps=20, metric=lambda trial, step: 1 / step)
        objective = {"metric": "accuracy", "mode": "min"}
        simulation = Simulation(spec(stop={"experiment": [{"target": 0.25}]}, objective=objective), program).run()
        assert condition(simulation, ConditionType.COMPLETE)[1] == ExperimentReason.TARGET_REACHED


def test_an_end_is_recorded_before_a_trial_is_stopped_for_it() -> None:
    program = Program(steps=FOREVER)
    simulation = Simulation(spec(stop={"experiment": [{"time": "20s"}]}), program)
    simulation.fail(WriteExperimentStatus)
    simulation.run(60.0)
    assert [trial.status.state for trial in simulation.api.trials.values()] == [TrialState.RUNNING] * 2
    simulation.refuse = lambda action: None
    simulation.run(until=lambda: simulation.api.experiment.status.message.startswith("ending"))
    message = "stopped: 20 s since the first trial was made are at least 20 s, as stop.experiment[0].time asks"
    assert condition(simulation, ConditionType.SUCCESS_CRITERIA_MET) == ("True", ExperimentReason.TIME_LIMIT, message)
    assert condition(simulation, ConditionType.COMPLETE)[0] == "False"
    simulation.run()
    assert condition(simulation, ConditionType.COMPLETE) == ("True", ExperimentReason.TIME_LIMIT, message)


def test_an_end_that_is_recorded_stands_whatever_the_trials_come_to() -> None:
    """Of six trials that ended three are in ERROR; with those that are stopped it is no half any more."""
    stop = {"experiment": [{"failures": {"share": 0.5, "after": 6}}]}
    faults = {index: (ScheduledFault(Fault.CRASH, 1),) for index in (0, 2, 4)}
    program = Program(steps=2, faults=faults)
    fields = {"failures": ERRORS, "stop": stop, "maxConcurrentTrials": 3}
    simulation = Simulation(many(30, **fields), program)
    simulation.run(until=lambda: find_failure(simulation))
    made = len(simulation.api.trials)
    simulation.restart()
    simulation.run()
    message = (
        "stopped: 3 of 6 ended trials are in ERROR, a share of 0.5 that is at least 0.5, "
        "as stop.experiment[0].failures asks"
    )
    assert condition(simulation, ConditionType.FAILED) == ("True", ExperimentReason.FAILURE_BUDGET_EXCEEDED, message)
    assert len(simulation.api.trials) == made
    assert simulation.api.experiment.status.trials.error == 3


def find_failure(simulation: Simulation) -> bool:
    found = find_condition(simulation.api.experiment.status.conditions, ConditionType.FAILURE_TARGET)
    return found is not None and found.status == "True"


def test_an_end_that_a_user_takes_back_is_none() -> None:
    simulation = Simulation(spec(stop={"totalTime": "20s"}), Program(steps=40))
    simulation.frozen = False
    simulation.fail(WriteTrialStatus, when=lambda action: action.status.decision is not None)
    simulation.run(25.0)
    assert condition(simulation, ConditionType.SUCCESS_CRITERIA_MET)[0] == "True"
    simulation.edit_spec(stop=Stop())
    simulation.restart()
    simulation.refuse = lambda action: None
    simulation.run()
    assert condition(simulation, ConditionType.COMPLETE)[1] == ExperimentReason.TRIALS_COMPLETE
    assert len(simulation.api.trials) == 4


class TestFailures:
    def test_too_many_errors_fail_the_experiment(self) -> None:
        faults = {index: (ScheduledFault(Fault.CRASH, 1),) for index in range(9)}
        stop = {"experiment": [{"failures": {"count": 3}}]}
        simulation = Simulation(many(9, stop=stop, failures=ERRORS), Program(steps=9, faults=faults)).run()
        assert simulation.api.experiment.status.state is ExperimentState.FAILED
        assert condition(simulation, ConditionType.FAILED)[1] == ExperimentReason.FAILURE_BUDGET_EXCEEDED
        assert 3 <= len(simulation.api.trials) <= 4
        assert condition(simulation, ConditionType.FAILURE_TARGET)[0] == "True"


class TestPlateau:
    STOP: ClassVar[dict[str, Any]] = {"experiment": [{"plateau": {"top": 3, "tolerance": 0.01, "patience": 2}}]}

    def test_trials_that_get_no_better_end_it(self) -> None:
        values = [0.1, 0.8, 0.5, 0.8, 0.8, 0.2, 0.9, 0.9]
        simulation = Simulation(many(8, stop=self.STOP, maxConcurrentTrials=1), by_trial(*values)).run()
        assert len(simulation.api.trials) == 6
        assert condition(simulation, ConditionType.COMPLETE) == (
            "True",
            ExperimentReason.PLATEAU_REACHED,
            "stopped: the best 3 of 6 trials have a standard deviation of 0, at most 0.01, and have had it for 2, "
            "as stop.experiment[0].plateau asks",
        )

    def test_the_order_of_ends_survives_a_restart(self) -> None:
        values = [0.1, 0.8, 0.5, 0.8, 0.8, 0.2, 0.9, 0.9]
        simulation = Simulation(many(8, stop=self.STOP, maxConcurrentTrials=1), by_trial(*values))
        simulation.run(until=lambda: simulation.status_exists(5))
        simulation.restart()
        simulation.run()
        assert len(simulation.api.trials) == 6

    def test_trials_in_error_do_not_count(self) -> None:
        values = [0.8, 0.8, 0.8, 0.8, 0.8]
        program = replace(
            by_trial(*values), faults={2: (ScheduledFault(Fault.CRASH, 2),), 3: (ScheduledFault(Fault.CRASH, 2),)}
        )
        fields = {"stop": self.STOP, "maxConcurrentTrials": 1, "failures": ERRORS}
        simulation = Simulation(many(5, **fields), program).run()
        assert condition(simulation, ConditionType.COMPLETE)[1] == ExperimentReason.TRIALS_COMPLETE


class TestExpression:
    def test_the_best_result_may_end_the_experiment(self) -> None:
        stop = {"experiment": [{"expression": "accuracy >= 0.8 and training_iteration > 2"}]}
        simulation = Simulation(many(9, stop=stop), Program(steps=5, metric=lambda trial, step: step / 5)).run()
        status, reason, message = condition(simulation, ConditionType.COMPLETE)
        assert (status, reason) == ("True", ExperimentReason.CRITERIA_MET)
        assert message.startswith("stopped: of the best result, e-")

    def test_the_last_result_may_stop_a_trial(self) -> None:
        stop = {"trial": [{"expression": "accuracy > 0.5"}]}
        simulation = Simulation(spec(stop=stop), Program(steps=50, metric=lambda trial, step: step / 10)).run()
        status = simulation.status()
        assert (status.state, status.reason) == (TrialState.TERMINATED, TrialReason.STOPPED_BY_CRITERION)
        assert status.message == ("stopped: accuracy > 0.5 holds (accuracy 0.6), as stop.trial[0].expression asks")
        assert condition(simulation, ConditionType.COMPLETE)[1] == ExperimentReason.TRIALS_COMPLETE

    def test_one_that_has_no_value_is_told_of(self) -> None:
        stop = {"trial": [{"expression": "acuracy > 0.5"}]}
        simulation = Simulation(spec(stop=stop), Program(steps=50)).run(10.0)
        assert simulation.status().message.endswith(
            "; stop.trial[0].expression is passed over: there is no 'acuracy' here; "
            "known names: training_iteration, accuracy, time_this_iter_s, time_total_s"
        )


class TestTrialTime:
    STOP: ClassVar[dict[str, Any]] = {"trial": [{"time": "20s"}]}

    def test_a_trial_is_stopped_when_its_time_is_up_though_it_reports_nothing(self) -> None:
        simulation = Simulation(spec(stop=self.STOP, maxConcurrentTrials=1), Program(steps=FOREVER, silent=True))
        simulation.run(until=lambda: simulation.status_exists() and simulation.status().decision is not None)
        began = simulation.api.pods["e-0-1"].training_since
        assert 20.0 <= simulation.now - began <= 20.1
        assert simulation.status().decision.message == (
            "stopped: 20 s of training are at least 20 s, as stop.trial[0].time asks"
        )
        simulation.run()
        status = simulation.status()
        assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.NO_USABLE_RESULT)
        assert status.message.startswith(
            "stopped: 20 s of training are at least 20 s, as stop.trial[0].time asks, but "
        )
        assert simulation.api.experiment.status.state is ExperimentState.FAILED

    def test_attempts_add_up_and_waiting_does_not_count(self) -> None:
        faults = {0: (ScheduledFault(Fault.CRASH, 5), ScheduledFault(Fault.EVICTED, 11))}
        fields = {"checkpoints": {"store": STORE}, "failures": {"backoff": {"initial": "1m", "max": "1m"}}}
        program = Program(steps=FOREVER, checkpoint_every=1, faults=faults)
        simulation = Simulation(many(1, stop=self.STOP, **fields), program)
        simulation.run(until=lambda: simulation.status_exists() and simulation.status().decision is not None)
        assert simulation.status().attempt == 3
        assert 15 <= simulation.status().iteration <= 20
        assert simulation.now - START > 60
        simulation.run()
        usage = simulation.status().usage
        assert usage.training_seconds in (20, 21)
        assert usage.attempt is None

    def test_a_pause_does_not_count(self) -> None:
        simulation = Simulation(many(1, stop=self.STOP, checkpoints={"store": STORE}), Program(steps=FOREVER)).run(10.0)
        simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
        simulation.run(100.0)
        assert simulation.status().state is TrialState.PAUSED
        simulation.api.edit_trial("e-0", desired_state=DesiredState.RUNNING)
        simulation.run()
        assert 17 <= simulation.status().iteration <= 20
        assert simulation.status().reason == TrialReason.STOPPED_BY_CRITERION

    def test_what_a_vanished_pod_had_used_is_not_forgotten(self) -> None:
        """Nobody saw it go: as much counts as was written down last."""
        program = Program(steps=FOREVER)
        simulation = Simulation(many(1, stop=self.STOP, failures={"backoff": SHORT}), program).run(15.0)
        written = simulation.status().usage
        assert 10 <= written.attempt.training_seconds <= 15
        simulation.weather = Weather(downtime=500.0)
        simulation.restart()
        simulation.api.remove_pod("e-0-1")
        simulation.pods["e-0-1"].is_alive = False
        simulation.run(until=lambda: simulation.status().last_attempt is not None)
        usage = simulation.status().usage
        assert usage.training_seconds == written.training_seconds


class TestTrialPlateau:
    STOP: ClassVar[dict[str, Any]] = {"trial": [{"plateau": {"window": 4, "tolerance": 0.01}}]}
    PROGRAM = Program(steps=30, metric=lambda trial, step: min(step, 6) / 10)

    def test_a_trial_that_stands_still_is_stopped(self) -> None:
        simulation = Simulation(spec(stop=self.STOP), self.PROGRAM).run()
        for index in range(4):
            assert simulation.status(index).reason == TrialReason.STOPPED_BY_CRITERION
            assert simulation.status(index).last_result["training_iteration"] == "9"

    @pytest.mark.parametrize("moment", [2.0, 5.0, 7.5, 9.0])
    def test_a_restart_changes_nothing(self, moment: float) -> None:
        simulation = Simulation(spec(stop=self.STOP), self.PROGRAM).run(moment)
        simulation.restart()
        simulation.run()
        assert simulation.status(0).last_result["training_iteration"] == "9"
        assert simulation.status(0).message.startswith("stopped: the last 4 values of accuracy")

    def test_what_it_remembers_stands_in_the_trial_until_its_end(self) -> None:
        simulation = Simulation(spec(stop=self.STOP), self.PROGRAM).run(8.0)
        recorded = simulation.status().stopper
        seen = int(recorded["count"]["accuracy"])
        assert seen >= 4
        assert recorded["window"]["accuracy"].split() == [repr(min(n, 6) / 10) for n in range(seen - 3, seen + 1)]
        simulation.run()
        assert simulation.status().stopper == {}

    def test_a_changed_rule_goes_on_with_what_was_seen(self) -> None:
        simulation = Simulation(many(1, stop=self.STOP), self.PROGRAM).run(8.0)
        simulation.edit_spec(stop=Stop.model_validate({"trial": [{"plateau": {"window": 3, "tolerance": 0.01}}]}))
        simulation.run()
        assert simulation.status().last_result["training_iteration"] in ("8", "9")


class TestBudgets:
    def test_gpu_hours_end_it_when_they_are_used_up(self) -> None:
        """Two pods of two GPUs use 0.01 GPU-hours, 36 seconds, in nine seconds."""
        stop = {"experiment": [{"gpuHours": 0.01}]}
        simulation = Simulation(spec(stop=stop, trialTemplate=GPUS), Program(steps=FOREVER, gpus=2.0))
        simulation.run(until=lambda: simulation.api.experiment.status.message.startswith("ending"))
        began = [pod.started for pod in simulation.api.pods.values()]
        assert simulation.now - max(began) == pytest.approx(9.0, abs=0.1)
        simulation.run()
        status, reason, message = condition(simulation, ConditionType.COMPLETE)
        assert (status, reason) == ("True", ExperimentReason.BUDGET_EXHAUSTED)
        assert message.endswith("GPU-hours are at least 0.01, as stop.experiment[0].gpuHours asks")
        used = simulation.api.experiment.status.usage
        assert used.gpu_hours == pytest.approx(0.01, rel=0.15)
        assert used.pod_hours == pytest.approx(used.gpu_hours / 2, abs=0.0004)

    def test_what_is_used_survives_restarts_and_failures(self) -> None:
        faults = {0: (ScheduledFault(Fault.CRASH, 3), ScheduledFault(Fault.CRASH, 5))}
        stop = {"experiment": [{"cost": {"budget": 1, "perPodHour": 120}}]}
        fields = {"failures": {"backoff": SHORT}, "checkpoints": {"store": STORE}}
        program = Program(steps=FOREVER, checkpoint_every=1, faults=faults)
        simulation = Simulation(many(1, stop=stop, **fields), program)
        while not simulation.is_over:
            simulation.run(4.0)
            simulation.restart()
        usage = simulation.status().usage
        assert usage.pod_seconds == pytest.approx(30, abs=4)
        assert condition(simulation, ConditionType.COMPLETE)[2].startswith("stopped: 0 GPU-hours and 0.008")

    def test_pods_that_wait_use_nothing(self) -> None:
        stop = {"experiment": [{"cost": {"budget": 1, "perPodHour": 3600}}]}
        simulation = Simulation(spec(stop=stop))
        simulation.frozen = True
        simulation.run(100.0)
        assert simulation.api.pods
        assert simulation.api.experiment.status.state is ExperimentState.RUNNING
        assert simulation.api.experiment.status.usage is None


class TestMissingMetrics:
    """Every third result lacks the objective."""

    PROGRAM = Program(steps=9, metric=lambda trial, step: None if step % 3 == 0 else step / 10)
    ASHA: ClassVar[dict[str, Any]] = {"asha": {"maxTime": 100, "gracePeriod": 1, "reductionFactor": 3}}

    def run(self, missing: str, program: Program = PROGRAM, **fields: Any) -> Simulation:
        objective = {"metric": "accuracy", "mode": "max", "missing": missing}
        return Simulation(spec(objective=objective, scheduler=self.ASHA, **fields), program).run()

    def test_strict_fails_the_trial_and_names_what_was_seen(self) -> None:
        status = self.run("strict").status()
        assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.METRIC_MISSING)
        assert "metric 'accuracy' (objective.metric) is not in the result; seen: training_iteration" in status.message
        assert status.message.endswith("(last line of its log: ValueError: boom)")
        assert "Traceback" in status.last_attempt.log_tail

    def test_lenient_passes_them_over_and_counts_them(self) -> None:
        simulation = self.run("lenient")
        for index in range(4):
            status = simulation.status(index)
            assert status.state is TrialState.TERMINATED
            if status.reason == TrialReason.COMPLETED:
                assert status.missing_metrics == 3
                assert status.last_result["accuracy"] == "0.8", "it is what the searcher is told"
                assert status.iteration == 9
                assert status.scheduler["rungs"]["3"] == "0.4", "the next one stands in"
        total = sum(trial.status.missing_metrics for trial in simulation.api.trials.values())
        assert simulation.api.experiment.status.missing_metrics == total >= 3

    def test_a_trial_that_never_has_it_is_told_of(self) -> None:
        simulation = Simulation(
            spec(objective={"metric": "accuracy", "mode": "max", "missing": "lenient"}, scheduler=self.ASHA),
            Program(steps=50, metric=lambda trial, step: None),
        ).run(10.0)
        assert simulation.status().state is TrialState.RUNNING
        assert "results were ignored because they lack a metric" in simulation.status().message

    def test_the_count_survives_a_restart(self) -> None:
        objective = {"metric": "accuracy", "mode": "max", "missing": "lenient"}
        simulation = Simulation(spec(objective=objective, scheduler=self.ASHA, maxConcurrentTrials=1), self.PROGRAM)
        simulation.run(7.0)
        simulation.restart()
        simulation.run()
        assert simulation.status(0).missing_metrics == 3


# Whatever the weather

RULES = st.sampled_from(
    [
        {"trial": [{"plateau": {"window": 3, "tolerance": 0.02}}]},
        {"trial": [{"all": [{"iterations": 3}, {"expression": "accuracy < 0.4"}]}]},
        {"experiment": [{"target": 0.6}]},
        {"experiment": [{"plateau": {"top": 2, "tolerance": 0.1}}]},
        {"experiment": [{"failures": {"share": 0.4, "after": 3}}]},
        {"experiment": [{"gpuHours": 0.004}]},
        {"experiment": [{"all": [{"time": "6s"}, {"expression": "accuracy > 0.3"}]}]},
    ]
)
weathers = st.builds(
    Weather,
    latency=st.sampled_from([0.0, 0.5]),
    watch_delay=st.sampled_from([0.0, 2.0]),
    fails=st.sampled_from([0.0, 0.2]),
    loses_reply=st.sampled_from([0.0, 0.2]),
    loses_report=st.sampled_from([0.0, 0.2]),
    restarts=st.lists(st.floats(0.0, 8.0), max_size=3).map(tuple),
)
any_fault = st.builds(ScheduledFault, st.sampled_from([Fault.CRASH, Fault.EVICTED, Fault.VANISHED]), st.integers(0, 4))
bounded = settings(max_examples=draw(60), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@bounded
@given(RULES, weathers, st.dictionaries(st.integers(0, 4), st.tuples(any_fault), max_size=3), st.integers(0, 2**32))
def test_no_trial_is_stopped_for_an_end_that_is_not_recorded_and_all_come_to_one(
    stop: dict[str, Any], weather: Weather, faults: Faults, seed: int
) -> None:
    program = Program(steps=6, checkpoint_every=1, faults=faults, gpus=2.0)
    fields: dict[str, Any] = {
        "stop": stop,
        "trialTemplate": GPUS,
        "checkpoints": {"store": STORE},
        "failures": {"maxFailures": 0, "backoff": SHORT},
    }
    simulation = Simulation(many(5, **fields), program, weather, seed=seed, settings=RunnerSettings(log_tries=100))
    decided: list[str] = []

    def look(action: Action) -> None:
        experiment = simulation.api.experiment
        ends = {c.type: c.message for c in experiment.status.conditions if c.status == "True"}
        recorded = ends.get(ConditionType.SUCCESS_CRITERIA_MET) or ends.get(ConditionType.FAILURE_TARGET)
        if recorded is not None and recorded not in decided:
            decided.append(recorded)
        if isinstance(action, WriteTrialStatus):
            decision = action.status.decision
            reasons = {action.status.reason, decision.reason if decision else ""}
            assert TrialReason.STOPPED_BY_EXPERIMENT not in reasons or recorded, "stopped before the end was recorded"
        if isinstance(action, CreateTrial) and simulation.now > START + 60:
            assert recorded is None or action.name in simulation.api.trials

    simulation.refuse = look
    simulation.run()
    simulation.run(50.0)
    look(simulation.log[-1])
    assert len(decided) == 1, "an end that is recorded is not taken back"
    assert simulation.api.experiment.status.message == decided[0]
    for trial in simulation.api.trials.values():
        assert trial.status.stopper == {}
        assert trial.status.usage is None or trial.status.usage.attempt is None


@bounded
@given(weathers, st.dictionaries(st.integers(0, 4), st.tuples(any_fault), max_size=3), st.integers(0, 2**32))
def test_what_trials_use_is_what_their_pods_lived(weather: Weather, faults: Faults, seed: int) -> None:
    """While an operator looks, and watches are not late: else a pod's end may be told by its being gone alone."""
    weather = replace(weather, restarts=(), watch_delay=0.0, loses_reply=0.0)
    program = Program(steps=6, checkpoint_every=1, faults=faults, gpus=2.0)
    fields = {"checkpoints": {"store": STORE}, "failures": {"backoff": SHORT}, "trialTemplate": GPUS}
    simulation = Simulation(many(5, **fields), program, weather, seed=seed, settings=RunnerSettings(log_tries=100))
    lived: dict[str, dict[str, float]] = {}
    changed = simulation.api.changed

    def watch(thing: Any) -> None:
        if getattr(thing, "started", 0.0):
            end = thing.ended or simulation.now
            lived.setdefault(thing.trial, {})[thing.name] = max(0.0, end - thing.started)
        changed(thing)

    simulation.api.changed = watch
    simulation.run()
    for name, trial in simulation.api.trials.items():
        usage, pods = trial.status.usage, lived[name]
        assert usage.pod_seconds == pytest.approx(sum(pods.values()), abs=0.6 * len(pods))
        assert usage.gpu_seconds == pytest.approx(2 * sum(pods.values()), abs=0.6 * len(pods))
        assert usage.training_seconds <= usage.pod_seconds + len(pods)
