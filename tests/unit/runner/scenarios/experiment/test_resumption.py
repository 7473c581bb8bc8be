"""Experiments that go on after their end."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, ExperimentReason, ExperimentState, TrialReason, TrialState
from podtune.api.resources.resume import Resume
from podtune.runner.actions import (
    Action,
    ActionResult,
    ActionStatus,
    CreatePod,
    WriteExperimentStatus,
    WriteTrialStatus,
)
from podtune.runner.timestamps import parse_rfc3339
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.scenarios.scheduling.test_schedulers import EVERY_SCHEDULER, PATIENT, STEPS
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import START, STORE, Simulation, spec

FIELDS: dict[str, Any] = {
    "search": {"algorithm": "random", "maxTrials": 3, "seed": 7},
    "maxConcurrentTrials": 2,
    "checkpoints": {"store": STORE},
    "failures": {"maxFailures": 0},
}
CRASH = (ScheduledFault(Fault.CRASH, 2),)


def raise_limit(simulation: Simulation, count: int) -> None:
    spec = simulation.api.experiment.spec
    simulation.edit_spec(search=spec.search.model_copy(update={"max_trials": count}))


def condition(simulation: Simulation, type_: ConditionType) -> tuple[str, str]:
    found = find_condition(simulation.api.experiment.status.conditions, type_)
    return found.status, found.reason


def attempts(simulation: Simulation) -> dict[str, int]:
    return {trial.name: trial.status.attempt for trial in simulation.api.trials.values()}


@pytest.mark.parametrize("restarts", [False, True])
def test_more_trials_continue_a_complete_experiment(restarts: bool) -> None:
    simulation = Simulation(spec(**FIELDS)).run()
    before = {name: trial.status for name, trial in simulation.api.trials.items()}
    assert simulation.api.experiment.status.completion_time is not None
    if restarts:
        simulation.restart()
    raise_limit(simulation, 5)
    simulation.run(until=lambda: not simulation.is_over)
    assert condition(simulation, ConditionType.COMPLETE)[0] == "False"
    assert simulation.api.experiment.status.completion_time is None
    simulation.run()
    status = simulation.api.experiment.status
    assert (status.state, status.message) == (ExperimentState.COMPLETE, "all 5 trials are done")
    assert status.trials.terminated == 5
    assert {name: simulation.api.trials[name].status for name in before} == before, "what was done is done"


def test_fewer_trials_continue_nothing() -> None:
    simulation = Simulation(spec(**FIELDS)).run()
    raise_limit(simulation, 2)
    simulation.run(100.0)
    assert simulation.api.experiment.status.resumption is None
    assert simulation.is_over


def test_more_time_lets_stopped_trials_go_on_from_their_checkpoints() -> None:
    program = Program(steps=40, checkpoint_every=1)
    simulation = Simulation(spec(**FIELDS, stop={"totalTime": "30s"}), program).run()
    assert condition(simulation, ConditionType.COMPLETE)[1] == ExperimentReason.TIME_LIMIT
    steps = [simulation.status(index).iteration for index in (0, 1)]
    simulation.run(500.0)
    simulation.edit_spec(stop=spec(**FIELDS, stop={"totalTime": "100s"}).stop)
    simulation.run(until=lambda: simulation.status().state is TrialState.RUNNING)
    assert simulation.pods["e-0-2"].restored.step >= steps[0] - 1
    simulation.run()
    status = simulation.api.experiment.status
    assert condition(simulation, ConditionType.COMPLETE)[1] == ExperimentReason.TRIALS_COMPLETE
    assert [simulation.status(index).iteration for index in range(3)] == [40] * 3
    assert [simulation.status(index).reason for index in range(3)] == [TrialReason.COMPLETED] * 3
    ended = parse_rfc3339(status.completion_time)
    assert ended is not None
    assert ended - START > 500, "the time in which it had ended does not count"


def test_a_limit_that_would_have_ended_it_too_continues_nothing() -> None:
    simulation = Simulation(spec(**FIELDS, stop={"totalTime": "30s"}), Program(steps=40)).run()
    simulation.edit_spec(stop=spec(**FIELDS, stop={"totalTime": "20s"}).stop)
    simulation.run(100.0)
    assert simulation.is_over
    assert simulation.api.experiment.status.resumption is None


def test_a_stop_that_is_taken_back() -> None:
    simulation = Simulation(spec(**FIELDS), Program(steps=30, checkpoint_every=1)).run(10.0)
    simulation.edit_spec(stop=spec(**FIELDS, stop={"now": True}).stop)
    simulation.run()
    assert condition(simulation, ConditionType.COMPLETE)[1] == ExperimentReason.STOPPED_BY_USER
    simulation.edit_spec(stop=spec(**FIELDS).stop)
    simulation.run()
    assert condition(simulation, ConditionType.COMPLETE)[1] == ExperimentReason.TRIALS_COMPLETE
    assert [simulation.status(index).iteration for index in range(3)] == [30] * 3


@pytest.mark.parametrize(
    ("resume", "expected"),
    [
        ({}, {"e-0": 1, "e-1": 1, "e-2": 1}),
        ({"errored": "Resume"}, {"e-0": 1, "e-1": 2, "e-2": 1}),
        ({"errored": "Restart"}, {"e-0": 1, "e-1": 2, "e-2": 1}),
        ({"finished": "Restart"}, {"e-0": 2, "e-1": 1, "e-2": 2}),
    ],
)
def test_policies_say_which_trials_run_once_more(resume: dict[str, Any], expected: dict[str, int]) -> None:
    program = Program(steps=6, checkpoint_every=1, faults={1: CRASH})
    simulation = Simulation(spec(**FIELDS), program).run()
    assert simulation.status(1).state is TrialState.ERROR
    simulation.edit_spec(resume=Resume.model_validate({"id": "again", **resume}))
    simulation.run(300.0)
    assert simulation.is_over
    assert attempts(simulation) == expected
    if resume.get("errored"):
        assert simulation.status(1).state is TrialState.TERMINATED
        restored = simulation.pods["e-1-2"].restored.step
        assert restored == (2 if resume["errored"] == "Resume" else 0)
        assert simulation.status(1).failures == 0
    assert simulation.api.experiment.status.trials.total == 3


def test_a_wish_is_followed_once() -> None:
    simulation = Simulation(spec(**FIELDS), Program(steps=6, faults={1: (*CRASH, *CRASH, *CRASH)})).run()
    simulation.edit_spec(resume=Resume.model_validate({"id": "1", "errored": "Restart"}))
    simulation.run(200.0)
    simulation.restart()
    simulation.run(200.0)
    assert attempts(simulation)["e-1"] == 2, "failed once more, and it is not tried for ever"
    simulation.edit_spec(resume=Resume.model_validate({"id": "2", "errored": "Restart"}))
    simulation.run(200.0)
    assert attempts(simulation)["e-1"] == 3
    assert simulation.api.experiment.status.resumption.run_generation == 2


def test_that_it_goes_on_is_recorded_before_anything_runs() -> None:
    simulation = Simulation(spec(**FIELDS)).run()
    made = len(simulation.actions(CreatePod))
    simulation.fail(WriteExperimentStatus)
    raise_limit(simulation, 5)
    simulation.run(60.0)
    simulation.restart()
    simulation.run(60.0)
    assert (len(simulation.actions(CreatePod)), len(simulation.api.trials)) == (made, 3)
    simulation.refuse = lambda action: None
    simulation.run()
    assert simulation.api.experiment.status.trials.terminated == 5


@pytest.mark.parametrize("restarts", [0, 1, 3, 7])
def test_trials_are_opened_whenever_the_operator_dies(restarts: int) -> None:
    """Half of them are open when it does; none is opened twice, and none is left out."""
    fields = {**FIELDS, "search": {"algorithm": "random", "maxTrials": 6, "seed": 7}}
    program = Program(steps=4, faults=dict.fromkeys(range(6), CRASH))
    simulation = Simulation(spec(**fields), program).run()
    assert simulation.api.experiment.status.state is ExperimentState.FAILED
    written: list[str] = []

    def some(action: Action) -> ActionResult | None:
        if isinstance(action, WriteTrialStatus) and action.status.state is TrialState.PENDING:
            written.append(action.name)
            if 0 < restarts <= len(written) < 2 * restarts:
                return ActionResult(ActionStatus.FAILED, "busy")
        return None

    simulation.refuse = some
    simulation.edit_spec(resume=Resume.model_validate({"id": "again", "errored": "Resume"}))
    simulation.run(until=lambda: len(written) >= max(1, restarts))
    simulation.restart()
    simulation.run(300.0)
    assert attempts(simulation) == {f"e-{index}": 2 for index in range(6)}
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE


def stopped_and_resumed(scheduler: str, moment: float) -> Simulation:
    fields = {
        "checkpoints": {"store": STORE},
        "search": {"algorithm": "bohb" if scheduler == "bohb" else "random", "maxTrials": 12, "seed": 7},
        "maxConcurrentTrials": 3,
        "scheduler": EVERY_SCHEDULER[scheduler],
        "failures": {"maxFailures": 0},
    }
    program = Program(steps=STEPS + 3, checkpoint_every=1, faults={1: CRASH})
    simulation = Simulation(spec(**fields), program, settings=PATIENT).run(moment)
    simulation.edit_spec(stop=spec(**fields, stop={"now": True}).stop)
    simulation.run()
    simulation.edit_spec(stop=spec(**fields).stop, resume=Resume.model_validate({"id": "on", "errored": "Resume"}))
    return simulation


@pytest.mark.parametrize("moment", [4.0, 11.0, 17.0])
@pytest.mark.parametrize("scheduler", EVERY_SCHEDULER)
def test_an_experiment_that_was_stopped_goes_on_with_every_scheduler(scheduler: str, moment: float) -> None:
    simulation = stopped_and_resumed(scheduler, moment).run(600.0)
    status = simulation.api.experiment.status
    assert status.state is ExperimentState.COMPLETE
    assert (status.trials.total, status.trials.terminated) == (12, 12)
    reasons = {trial.status.reason for trial in simulation.api.trials.values()}
    assert TrialReason.STOPPED_BY_EXPERIMENT not in reasons


@pytest.mark.parametrize("moment", [4.0, 11.0, 17.0])
@pytest.mark.parametrize("scheduler", EVERY_SCHEDULER)
def test_a_machine_made_anew_agrees_on_how_it_goes_on(scheduler: str, moment: float) -> None:
    simulation = stopped_and_resumed(scheduler, moment).run(moment)
    assert_made_anew_agrees(simulation)
