"""When and how an experiment comes to its end, and what its status says on the way."""

from __future__ import annotations

import pytest

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, ExperimentReason, ExperimentState, TrialReason, TrialState
from podtune.runner.actions import ActionStatus, CreateTrial, Propose, WriteExperimentStatus
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import START, STORE, Simulation, spec

ERRORS = {"maxFailures": 0}


def condition(simulation: Simulation, type_: ConditionType) -> tuple[str, str]:
    found = find_condition(simulation.api.experiment.status.conditions, type_)
    return found.status, found.reason


def ends(simulation: Simulation) -> tuple[ExperimentState | None, str]:
    status = simulation.api.experiment.status
    return status.state, status.message


def test_an_experiment_is_complete_when_all_trials_are_done() -> None:
    simulation = Simulation(spec()).run()
    assert ends(simulation) == (ExperimentState.COMPLETE, "all 4 trials are done")
    assert condition(simulation, ConditionType.COMPLETE) == ("True", ExperimentReason.TRIALS_COMPLETE)
    assert condition(simulation, ConditionType.FAILED) == ("False", ExperimentReason.TRIALS_COMPLETE)
    assert condition(simulation, ConditionType.READY) == ("True", ExperimentReason.ACCEPTED)
    status = simulation.api.experiment.status
    assert (status.start_time, status.completion_time) == ("2023-11-14T22:13:20Z", "2023-11-14T22:13:31Z")
    assert status.observed_generation == 1
    assert (status.trials.total, status.trials.terminated) == (4, 4)


def test_some_trials_in_error_are_no_failure_of_the_experiment() -> None:
    simulation = Simulation(spec(failures=ERRORS), Program(faults={1: (ScheduledFault(Fault.CRASH),)})).run()
    assert ends(simulation) == (ExperimentState.COMPLETE, "all 4 trials are done")
    assert (simulation.api.experiment.status.trials.terminated, simulation.api.experiment.status.trials.error) == (3, 1)


def test_an_experiment_whose_trials_all_fail_has_failed() -> None:
    program = Program(faults={index: (ScheduledFault(Fault.CRASH),) for index in range(4)})
    simulation = Simulation(spec(failures=ERRORS), program).run()
    assert ends(simulation) == (ExperimentState.FAILED, "all 4 trials ended in ERROR")
    assert condition(simulation, ConditionType.FAILED) == ("True", ExperimentReason.ALL_TRIALS_FAILED)
    assert condition(simulation, ConditionType.COMPLETE)[0] == "False"


def test_fail_fast_stops_the_others() -> None:
    program = Program(steps=50, faults={0: (ScheduledFault(Fault.CRASH, 3),)})
    simulation = Simulation(spec(failures={**ERRORS, "failFast": True}), program).run()
    message = "stopped: 1 trial is in ERROR, at least 1, as failures.failFast asks"
    assert ends(simulation) == (ExperimentState.FAILED, message)
    assert condition(simulation, ConditionType.FAILED) == ("True", ExperimentReason.FAIL_FAST)
    assert simulation.status(0).state is TrialState.ERROR
    assert simulation.status(1).reason == TrialReason.STOPPED_BY_EXPERIMENT
    assert len(simulation.api.trials) == 2


def test_when_time_is_up_running_trials_are_stopped() -> None:
    simulation = Simulation(spec(stop={"totalTime": "30s"}), Program(steps=1000)).run()
    assert 30 <= simulation.now - START <= 33
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
    assert condition(simulation, ConditionType.COMPLETE) == ("True", ExperimentReason.TIME_LIMIT)
    assert simulation.api.experiment.status.message == (
        "stopped: 30 s since the first trial was made are at least 30 s, as stop.totalTime asks"
    )
    for index in range(2):
        assert simulation.status(index).state is TrialState.TERMINATED
        assert simulation.status(index).reason == TrialReason.STOPPED_BY_EXPERIMENT
        assert simulation.status(index).iteration > 20


def test_time_goes_on_while_the_operator_is_away() -> None:
    simulation = Simulation(spec(stop={"totalTime": "30s"}), Program(steps=1000)).run(20.0)
    simulation.restart()
    simulation.run()
    assert 30 <= simulation.now - START <= 32


def test_when_time_is_up_waiting_and_paused_trials_are_stopped() -> None:
    fields = {"checkpoints": {"store": STORE}, "failures": {"backoff": {"initial": "1h", "max": "1h"}}}
    program = Program(steps=1000, faults={0: (ScheduledFault(Fault.CRASH, 3),)})
    simulation = Simulation(spec(stop={"totalTime": "30s"}, **fields), program).run(10.0)
    simulation.api.edit_trial("e-1", desired_state="Paused")
    simulation.run(25.0)
    assert simulation.is_over
    assert {trial.status.reason for trial in simulation.api.trials.values()} == {TrialReason.STOPPED_BY_EXPERIMENT}


def test_a_space_that_is_exhausted_ends_the_experiment() -> None:
    parameters = [{"name": "units", "int": {"min": 1, "max": 3}}]
    fields = {"parameters": parameters, "search": {"algorithm": "grid", "maxTrials": 10}}
    simulation = Simulation(spec(**fields)).run()
    assert ends(simulation) == (ExperimentState.COMPLETE, "all 3 configurations of the space were tried")
    assert condition(simulation, ConditionType.COMPLETE) == ("True", ExperimentReason.SPACE_EXHAUSTED)
    assert [trial.spec.parameters["units"] for trial in simulation.api.trials.values()] == ["1", "2", "3"]


def test_a_number_without_a_trial_is_proposed_again() -> None:
    """The operator died between two creations; a grid must not lose a point."""
    parameters = [{"name": "units", "int": {"min": 1, "max": 3}}]
    fields = {"parameters": parameters, "search": {"algorithm": "grid", "maxTrials": 10}, "maxConcurrentTrials": 3}
    simulation = Simulation(spec(**fields))
    simulation.fail(CreateTrial, when=lambda action: action.name == "e-1")
    simulation.run(until=lambda: simulation.status_exists(2))
    simulation.restart()
    simulation.refuse = lambda action: None
    simulation.run()
    assert {trial.spec.parameters["units"] for trial in simulation.api.trials.values()} == {"1", "2", "3"}


def test_an_end_is_for_good_whatever_else_is_changed() -> None:
    simulation = Simulation(spec()).run()
    simulation.restart()
    simulation.edit_spec(max_concurrent_trials=9, pod_retention="All")
    simulation.run(100.0)
    assert len(simulation.api.trials) == 4
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE


@pytest.mark.parametrize(
    ("limit", "progress"), [(4, "0 of 4 trials done, 2 running"), ("unlimited", "0 trials done, 2 running")]
)
def test_progress_is_counted_out_of_all_trials_that_there_will_be(limit: int | str, progress: str) -> None:
    search = {"algorithm": "random", "maxTrials": limit, "seed": 7}
    simulation = Simulation(spec(search=search, maxConcurrentTrials=2, stop={"totalTime": "1h"}), Program(steps=100))
    simulation.run(10.0)
    assert simulation.api.experiment.status.message == progress
    changed = spec(search={**search, "maxTrials": 1}, maxConcurrentTrials=2)
    simulation.edit_spec(search=changed.search)
    simulation.run(10.0)
    assert simulation.api.experiment.status.message == "0 of 2 trials done, 2 running", "more were made than that"


def test_a_searcher_that_fails_is_told_of_and_asked_again() -> None:
    simulation = Simulation(spec())
    simulation.fail(Propose, "ValueError: boom")
    simulation.run(100.0)
    assert (
        simulation.api.experiment.status.message
        == "0 of 4 trials done, 0 running; the searcher failed: ValueError: boom"
    )
    assert 3 <= len(simulation.actions(Propose)) < 15, "with a growing backoff"
    simulation.refuse = lambda action: None
    simulation.run()
    assert ends(simulation) == (ExperimentState.COMPLETE, "all 4 trials are done")


@pytest.mark.parametrize("status", [ActionStatus.FAILED, ActionStatus.REFUSED])
def test_a_trial_that_can_not_be_made_is_told_of_and_tried_again_with_a_backoff(status: ActionStatus) -> None:
    simulation = Simulation(spec())
    simulation.fail(CreateTrial, "a webhook says no", status=status)
    simulation.run(100.0)
    assert simulation.api.experiment.status.message.endswith("; can't create a Trial: a webhook says no")
    assert len(simulation.actions(CreateTrial)) < 30
    simulation.refuse = lambda action: None
    simulation.run()
    assert ends(simulation) == (ExperimentState.COMPLETE, "all 4 trials are done")


def test_the_best_is_the_same_whoever_reached_it_first() -> None:
    simulation = Simulation(spec(maxConcurrentTrials=4), Program(metric=lambda trial, step: 0.5))
    simulation.run(until=lambda: simulation.api.experiment.status.best is not None)
    simulation.run()
    assert simulation.api.experiment.status.best.trial == "e-0"
    assert simulation.api.experiment.status.best.parameters == simulation.api.trials["e-0"].spec.parameters


def test_trials_that_the_scheduler_stopped_are_counted_as_stopped_early() -> None:
    values = {0: 0.9, 1: 0.8, 2: 0.1, 3: 0.2}
    asha = {"asha": {"maxTime": 3, "gracePeriod": 1, "reductionFactor": 3}}
    simulation = Simulation(
        spec(scheduler=asha, maxConcurrentTrials=1), Program(metric=lambda trial, step: values[trial])
    ).run()
    assert simulation.api.experiment.status.trials.stopped_early == 3
    assert simulation.status(0).reason == TrialReason.MAX_TIME_REACHED
    assert simulation.status(2).reason == TrialReason.STOPPED_BY_SCHEDULER


def test_the_experiments_status_is_written_once_a_second_at_most() -> None:
    simulation = Simulation(spec(maxConcurrentTrials=4), Program(steps=200, seconds=0.05)).run()
    duration = simulation.now - START
    assert len(simulation.actions(WriteExperimentStatus)) <= duration / simulation.settings.experiment_debounce + 2
    assert ends(simulation) == (ExperimentState.COMPLETE, "all 4 trials are done")
