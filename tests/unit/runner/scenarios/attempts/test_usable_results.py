"""Trials and experiments that come to no usable result: no finite number of what is optimised."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, DesiredState, ExperimentReason, ExperimentState, TrialReason, TrialState
from podtune.api.resources.trial import TrialStatus
from podtune.runner.actions import EmitEvent, Propose
from podtune.runner.trial.results import find_best_value
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, Weather, spec

ONE: dict[str, Any] = {"search": {"algorithm": "random", "maxTrials": 1, "seed": 7}}
SCHEDULERS: dict[str, Any] = {
    "fifo": {},
    "asha": {"maxTime": 9},
    "ashaPromotion": {"maxTime": 9, "gracePeriod": 3},
    "hyperband": {"maxTime": 9},
    "median": {},
}
NAN = math.nan


def reports(value: Callable[[int, int], Any], **fields: Any) -> Program:
    """Reports a value of the objective that need not be a number."""
    return Program(metric=value, **fields)


def ends(simulation: Simulation) -> tuple[ExperimentState | None, str]:
    status = simulation.api.experiment.status
    return status.state, status.message


def holds(simulation: Simulation, type_: ConditionType) -> str:
    found = find_condition(simulation.api.experiment.status.conditions, type_)
    return "" if found is None else f"{found.status} {found.reason}"


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_trial_without_a_usable_value_is_an_error_under_every_scheduler(name: str) -> None:
    fields = {"scheduler": {name: SCHEDULERS[name]}, "checkpoints": {"store": STORE}}
    simulation = Simulation(spec(**ONE, **fields), reports(lambda trial, step: NAN, steps=2)).run()
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.NO_USABLE_RESULT)
    assert ends(simulation)[0] is ExperimentState.FAILED
    assert holds(simulation, ConditionType.FAILED) == f"True {ExperimentReason.NO_USABLE_RESULT}"
    assert holds(simulation, ConditionType.COMPLETE).startswith("False")
    assert not holds(simulation, ConditionType.SUCCESS_CRITERIA_MET).startswith("True")


def test_a_trial_that_was_trained_to_the_end_without_a_value_is_an_error_too() -> None:
    fields = {"scheduler": {"asha": {"maxTime": 3}}}
    simulation = Simulation(spec(**ONE, **fields), reports(lambda trial, step: NAN, steps=100)).run()
    status = simulation.status()
    assert (status.state, status.reason, status.iteration) == (TrialState.ERROR, TrialReason.NO_USABLE_RESULT, 3)
    assert "accuracy was never a finite number (last: nan)" in status.message


def test_a_trial_that_its_user_stops_before_it_has_a_value_is_no_error() -> None:
    simulation = Simulation(spec(**ONE), reports(lambda trial, step: NAN, steps=100)).run(5.0)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.STOPPED)
    simulation.run()
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.TERMINATED, TrialReason.STOPPED_BY_USER)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "accuracy was never reported; metrics seen: training_iteration"),
        ("low", "accuracy was never a number (last: 'low')"),
        ("0.4", "accuracy was never a number (last: '0.4')"),
        (True, "accuracy was never a number (last: 'true')"),
        (NAN, "accuracy was never a finite number (last: nan)"),
        (math.inf, "accuracy was never a finite number (last: inf)"),
    ],
)
def test_the_message_says_what_was_reported_instead(value: object, words: str) -> None:
    simulation = Simulation(spec(**ONE), reports(lambda trial, step: value)).run()
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.NO_USABLE_RESULT)
    remedy = "report a finite number for accuracy, or correct objective.metric"
    said = f"the program exited successfully, but {words}; {remedy}"
    assert status.message == f"{said} (last line of its log: ValueError: boom)"
    assert (status.last_attempt.failure_class, status.last_attempt.exit_code) == ("unusable", 0)
    assert ends(simulation) == (
        ExperimentState.FAILED,
        "the only trial is done, but no trial has reported a finite number for accuracy; "
        "see each trial's message for what it reported",
    )


@pytest.mark.parametrize(
    ("results", "remedy"),
    [
        (
            {},
            "report accuracy by podtune.trial.report or as a line of JSON in $PODTUNE_DIR/results.jsonl, or set",
        ),
        ({"stdout": {"pattern": "acc=(?P<accuracy>.*)"}}, "correct results.stdout.pattern, which has matched nothing"),
        ({"huggingFace": {}}, "train with transformers 5 or later, with an eval_strategy, for results.huggingFace"),
        ({"mlflow": {}}, "have the program log to the tracking server in MLFLOW_TRACKING_URI"),
        (
            {"scrape": {"port": 8000}},
            "have the program serve its metrics at port 8000, path /metrics, for results.scrape",
        ),
        ({"tensorBoard": {}}, "have the program log to $PODTUNE_DIR/tensorboard, where results.tensorBoard has found"),
        (
            {"wandb": {}},
            "have the program log by wandb in the directory WANDB_DIR, where results.wandb has found no run",
        ),
    ],
)
def test_of_a_program_that_reports_nothing_the_message_says_how_to_report(results: Any, remedy: str) -> None:
    simulation = Simulation(spec(**ONE, results=results), Program(steps=0)).run()
    assert simulation.status().reason == TrialReason.NO_USABLE_RESULT
    assert f"accuracy was never reported; metrics seen: none; {remedy}" in simulation.status().message


@pytest.mark.parametrize("written", ["inf", "-inf", "nan"])
def test_what_is_not_finite_is_no_best_value_whoever_wrote_it(written: str) -> None:
    assert find_best_value(TrialStatus(best={"accuracy": written}), "accuracy") is None


def test_it_is_not_tried_again() -> None:
    simulation = Simulation(spec(**ONE, failures={"maxFailures": 5}), reports(lambda trial, step: None)).run()
    status = simulation.status()
    assert (status.attempt, status.failures) == (1, 1)
    events = [event for event in simulation.actions(EmitEvent) if event.trial == "e-0"]
    assert [(event.reason, event.warning) for event in events] == [(TrialReason.NO_USABLE_RESULT, True)]


def test_a_rule_may_have_it_tried_again() -> None:
    failures = {
        "maxFailures": 1,
        "backoff": {"initial": "1s", "max": "1s"},
        "rules": [{"reason": "NoUsableResult", "action": "Retry"}],
    }
    simulation = Simulation(spec(**ONE, failures=failures), reports(lambda trial, step: None)).run()
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.MAX_FAILURES_EXCEEDED)
    assert (status.attempt, status.failures) == (2, 2)


def test_one_finite_value_is_enough() -> None:
    simulation = Simulation(spec(**ONE), reports(lambda trial, step: 0.5 if step == 1 else NAN)).run()
    assert simulation.status().reason == TrialReason.COMPLETED
    assert ends(simulation)[0] is ExperimentState.COMPLETE


def test_a_criterion_that_ends_trials_does_not_make_them_good() -> None:
    simulation = Simulation(
        spec(**ONE, stop={"metrics": {"training_iteration": 2}}), reports(lambda trial, step: None, steps=100)
    ).run()
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.NO_USABLE_RESULT)
    assert "accuracy was never reported" in status.message


def test_every_objective_is_needed() -> None:
    objective = {"metric": "accuracy", "mode": "max", "others": [{"metric": "latency", "mode": "min"}]}
    program = Program(further=lambda trial, step: {"latency": math.inf if trial else 3.0})
    simulation = Simulation(spec(objective=objective), program).run()
    assert simulation.status(0).reason == TrialReason.COMPLETED
    assert simulation.status(1).reason == TrialReason.NO_USABLE_RESULT
    assert "latency was never a finite number (last: inf)" in simulation.status(1).message
    assert simulation.status(1).message.endswith("(last line of its log: ValueError: boom)")
    assert ends(simulation)[0] is ExperimentState.COMPLETE
    assert [point.trial for point in simulation.api.experiment.status.pareto_front] == ["e-0"]


def test_lenient_passes_over_the_trial_but_not_an_experiment_without_any_result() -> None:
    objective = {"metric": "accuracy", "mode": "max", "missing": "lenient"}
    some = Simulation(spec(objective=objective), reports(lambda trial, step: 0.5 if trial else None)).run()
    assert (some.status(0).state, some.status(0).reason) == (TrialState.TERMINATED, TrialReason.COMPLETED)
    assert some.status(0).message == (
        "ended by itself, but accuracy was never reported; metrics seen: training_iteration"
    )
    assert ends(some) == (ExperimentState.COMPLETE, "all 4 trials are done")
    none = Simulation(spec(objective=objective), reports(lambda trial, step: None)).run()
    message = "all 4 trials are done, but no trial has reported a finite number for accuracy"
    assert ends(none) == (ExperimentState.FAILED, message)


def test_trials_that_crash_and_trials_without_a_value() -> None:
    program = reports(lambda trial, step: None, faults={0: (ScheduledFault(Fault.CRASH),)})
    simulation = Simulation(spec(failures={"maxFailures": 0}), program).run()
    assert ends(simulation) == (ExperimentState.FAILED, "all 4 trials ended in ERROR")
    assert holds(simulation, ConditionType.FAILED) == f"True {ExperimentReason.ALL_TRIALS_FAILED}"


def test_a_good_end_by_a_rule_is_none_without_a_result() -> None:
    program = reports(lambda trial, step: None, steps=1000)
    simulation = Simulation(spec(stop={"totalTime": "10s"}), program).run()
    assert holds(simulation, ConditionType.FAILED) == f"True {ExperimentReason.NO_USABLE_RESULT}"
    assert ends(simulation)[1].endswith("but no trial has reported a finite number for accuracy")


def test_a_restart_finds_the_same_end() -> None:
    stormy = Weather(latency=0.3, watch_delay=0.5, fails=0.1, loses_reply=0.1, restarts=(2, 3, 4), downtime=1)
    simulation = Simulation(spec(), reports(lambda trial, step: NAN), stormy).run()
    assert {simulation.status(index).reason for index in range(4)} == {TrialReason.NO_USABLE_RESULT}
    assert holds(simulation, ConditionType.FAILED) == f"True {ExperimentReason.NO_USABLE_RESULT}"


@pytest.mark.parametrize(("mode", "infinity"), [("max", math.inf), ("min", -math.inf)])
def test_an_infinity_that_nothing_could_beat_never_wins(mode: str, infinity: float) -> None:
    program = reports(lambda trial, step: infinity if (trial, step) == (1, 4) else 0.5 + trial / 100)
    objective = {"metric": "accuracy", "mode": mode}
    simulation = Simulation(spec(objective=objective, search={"algorithm": "tpe", "maxTrials": 4}), program).run()
    best = simulation.api.experiment.status.best
    assert (best.trial, best.value) == (("e-3", "0.53") if mode == "max" else ("e-0", "0.5"))
    told = {observation.number: observation.value for observation in simulation.actions(Propose)[-1].observations}
    assert math.isnan(told[1] if told[1] is not None else 0.0)
    assert simulation.status(1).best["accuracy"] == "0.51"


def test_people_get_four_digits_and_programs_all_of_them() -> None:
    simulation = Simulation(spec(), reports(lambda trial, step: (0.9 + trial / 100) / 1.0123456)).run()
    best = simulation.api.experiment.status.best
    assert (best.value, best.text) == (repr((0.9 + 3 / 100) / 1.0123456), "0.9187")
    assert [simulation.status(index).best_text for index in range(4)] == ["0.889", "0.8989", "0.9088", "0.9187"]
    assert simulation.status(3).best_value == best.value


@pytest.mark.parametrize(("mode", "infinity"), [("max", math.inf), ("min", -math.inf)])
def test_a_scheduler_is_shown_nan_in_its_place(mode: str, infinity: float) -> None:
    def values(diverged: float) -> list[tuple[str, int, list[str]]]:
        program = reports(lambda trial, step: diverged if trial == 1 else 0.5 + trial / 100, steps=9)
        fields = {"objective": {"metric": "accuracy", "mode": mode}, "scheduler": {"asha": {"maxTime": 9}}}
        simulation = Simulation(spec(**fields, maxConcurrentTrials=1), program).run()
        others = [simulation.status(index) for index in (0, 2, 3)]
        return [(trial.reason, trial.iteration, [entry.message for entry in trial.ledger]) for trial in others]

    assert values(infinity) == values(NAN)
