"""Experiments that are suspended, and experiments that their users stop."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, DesiredState, ExperimentReason, ExperimentState, TrialReason, TrialState
from podtune.runner.actions import CreatePod, CreateTrial, DeletePod
from podtune.runner.timestamps import parse_rfc3339
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import START, STORE, Simulation, spec

FIELDS: dict[str, Any] = {
    "search": {"algorithm": "random", "maxTrials": 3, "seed": 7},
    "maxConcurrentTrials": 2,
    "checkpoints": {"store": STORE},
}
LONG = Program(steps=30)


def condition(simulation: Simulation, type_: ConditionType = ConditionType.SUSPENDED) -> tuple[str, str] | None:
    found = find_condition(simulation.api.experiment.status.conditions, type_)
    return None if found is None else (found.status, found.reason)


def ended(simulation: Simulation) -> float:
    """When the experiment came to its end, in seconds."""
    moment = parse_rfc3339(simulation.api.experiment.status.completion_time)
    assert moment is not None
    return moment - START


def stop(simulation: Simulation, *, now: bool) -> None:
    spec = simulation.api.experiment.spec
    simulation.edit_spec(stop=spec.stop.model_copy(update={"now": now}))


def states(simulation: Simulation) -> list[tuple[TrialState | None, str]]:
    return [(trial.status.state, trial.status.reason) for trial in simulation.api.trials.values()]


def test_running_trials_are_paused_and_go_on_from_their_checkpoints() -> None:
    simulation = Simulation(spec(**FIELDS), LONG).run(10.0)
    assert condition(simulation) is None, "it is there only after a suspension"
    simulation.edit_spec(suspend=True)
    simulation.run(20.0)
    assert simulation.api.pods == {}
    assert states(simulation) == [(TrialState.PAUSED, TrialReason.SUSPENDED)] * 2
    status = simulation.api.experiment.status
    assert status.state is ExperimentState.SUSPENDED
    assert status.message.startswith("suspended: no trial has a pod; set spec.suspend to false to continue")
    assert condition(simulation) == ("True", ExperimentReason.SUSPENDED)
    steps = [simulation.status(index).iteration for index in (0, 1)]
    made = len(simulation.actions(CreatePod)), len(simulation.actions(CreateTrial))
    simulation.run(1000.0)
    assert (len(simulation.actions(CreatePod)), len(simulation.actions(CreateTrial))) == made
    simulation.edit_spec(suspend=False)
    simulation.run()
    assert condition(simulation) == ("False", ExperimentReason.RESUMED)
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
    assert [simulation.pods[f"e-{index}-2"].restored.step for index in (0, 1)] == steps
    assert [simulation.status(index).iteration for index in range(3)] == [30] * 3
    assert simulation.status().failures == simulation.status().disruptions == 0


def test_the_condition_holds_only_once_no_pod_is_left() -> None:
    simulation = Simulation(spec(**FIELDS), Program(steps=10**6, silent=True)).run(10.0)
    simulation.edit_spec(suspend=True)
    simulation.run(10.0)
    assert condition(simulation) == ("False", ExperimentReason.SUSPENDING)
    assert "2 trials still have a pod" in simulation.api.experiment.status.message
    simulation.run(60.0)
    assert condition(simulation) == ("True", ExperimentReason.SUSPENDED), "a checkpoint is not waited for for ever"


def test_without_a_store_the_pods_go_all_the_same_and_the_trials_start_afresh() -> None:
    simulation = Simulation(spec(**{**FIELDS, "checkpoints": {}}), LONG).run(10.0)
    simulation.edit_spec(suspend=True)
    simulation.run(5.0)
    assert simulation.api.pods == {}
    assert "it will start from scratch (no checkpoints.store)" in simulation.status().message
    simulation.edit_spec(suspend=False)
    simulation.run()
    assert simulation.pods["e-0-2"].restored.step == 0
    assert simulation.status().iteration == 30


def test_an_experiment_that_is_made_suspended_starts_nothing() -> None:
    simulation = Simulation(spec(**FIELDS, suspend=True, stop={"totalTime": "20s"}), LONG).run(1000.0)
    assert simulation.api.trials == {}
    assert simulation.api.experiment.status.start_time is None
    assert condition(simulation) == ("True", ExperimentReason.SUSPENDED)
    simulation.edit_spec(suspend=False)
    simulation.run()
    assert condition(simulation, ConditionType.COMPLETE) == ("True", ExperimentReason.TIME_LIMIT)
    assert 1020 <= ended(simulation) <= 1023, "its time begins when it goes on"


@pytest.mark.parametrize("restarts", [False, True])
def test_time_stands_still(restarts: bool) -> None:
    simulation = Simulation(spec(**FIELDS, stop={"totalTime": "30s"}), Program(steps=1000)).run(20.0)
    simulation.edit_spec(suspend=True)
    for _ in range(3):
        simulation.run(300.0)
        if restarts:
            simulation.restart()
    assert simulation.api.experiment.status.state is ExperimentState.SUSPENDED
    simulation.edit_spec(suspend=False)
    if restarts:
        simulation.restart()
    simulation.run()
    assert condition(simulation, ConditionType.COMPLETE) == ("True", ExperimentReason.TIME_LIMIT)
    assert 930 <= ended(simulation) <= 934
    assert simulation.api.experiment.status.suspended_since is None
    assert 899 <= simulation.api.experiment.status.suspended_seconds <= 901


def test_what_a_user_paused_stays_paused_when_the_experiment_goes_on() -> None:
    simulation = Simulation(spec(**FIELDS), LONG).run(10.0)
    simulation.edit_spec(suspend=True)
    simulation.run(20.0)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    simulation.run(5.0)
    assert simulation.status().reason == TrialReason.PAUSED_BY_USER
    simulation.edit_spec(suspend=False)
    simulation.run(200.0)
    assert simulation.status().state is TrialState.PAUSED
    assert [simulation.status(index).state for index in (1, 2)] == [TrialState.TERMINATED] * 2
    simulation.api.edit_trial("e-0", desired_state=DesiredState.RUNNING)
    simulation.run()
    assert simulation.status().iteration == 30


def test_a_trial_can_be_stopped_while_the_experiment_is_suspended() -> None:
    simulation = Simulation(spec(**FIELDS), LONG).run(10.0)
    simulation.edit_spec(suspend=True)
    simulation.run(20.0)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.STOPPED)
    simulation.run(5.0)
    assert simulation.status().reason == TrialReason.STOPPED_BY_USER


def test_a_pod_that_was_under_way_is_taken_back() -> None:
    simulation = Simulation(spec(**FIELDS), LONG)
    simulation.run(until=lambda: bool(simulation.actions(CreatePod)))
    simulation.edit_spec(suspend=True)
    simulation.run(20.0)
    assert simulation.api.pods == {}
    assert condition(simulation) == ("True", ExperimentReason.SUSPENDED)


def test_a_suspension_that_is_taken_back_at_once_costs_one_attempt() -> None:
    """The decision to pause is recorded: it is carried out, and then the trial goes on."""
    simulation = Simulation(spec(**FIELDS), LONG).run(10.0)
    simulation.edit_spec(suspend=True)
    simulation.run(until=lambda: simulation.status().decision is not None)
    simulation.edit_spec(suspend=False)
    simulation.run()
    assert [simulation.status(index).iteration for index in range(3)] == [30] * 3
    assert len(simulation.actions(DeletePod)) <= 2 + 3


@pytest.mark.parametrize("suspended", [False, True])
def test_a_user_stops_an_experiment(suspended: bool) -> None:
    simulation = Simulation(spec(**FIELDS), LONG).run(10.0)
    if suspended:
        simulation.edit_spec(suspend=True)
        simulation.run(20.0)
    stop(simulation, now=True)
    simulation.run()
    status = simulation.api.experiment.status
    assert (status.state, status.message) == (ExperimentState.COMPLETE, "stopped: spec.stop.now is true")
    assert condition(simulation, ConditionType.COMPLETE) == ("True", ExperimentReason.STOPPED_BY_USER)
    assert condition(simulation, ConditionType.SUSPENDED) in (None, ("False", ExperimentReason.RESUMED))
    assert states(simulation) == [(TrialState.TERMINATED, TrialReason.STOPPED_BY_EXPERIMENT)] * 2
    assert simulation.api.pods == {}


def test_the_last_checkpoints_of_a_stopped_experiment_are_recorded() -> None:
    simulation = Simulation(spec(**FIELDS), Program(steps=1000, checkpoint_every=2, upload=1.5)).run(10.2)
    stop(simulation, now=True)
    simulation.run()
    for trial in simulation.api.trials.values():
        assert trial.status.checkpoint.step >= trial.status.iteration - 2


def test_no_trial_is_made_in_the_place_of_one_that_goes_on() -> None:
    simulation = Simulation(spec(**{**FIELDS, "search": {"algorithm": "random", "maxTrials": 8, "seed": 7}}), LONG)
    simulation.run(10.0)
    simulation.edit_spec(suspend=True)
    simulation.run(30.0)
    made = len(simulation.api.trials)
    simulation.edit_spec(suspend=False)
    simulation.run(10.0)
    assert len(simulation.api.trials) == made == 2
    assert [simulation.status(index).state for index in (0, 1)] == [TrialState.RUNNING] * 2
