"""A person has a trial go back to an earlier checkpoint of its own (`spec.retry.step`)."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, DesiredState, TrialReason, TrialState
from podtune.api.resources.trial_requests import RetryRequest
from podtune.runner.actions import Action, CreatePod, WriteTrialStatus
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.scenarios.trial.test_retry_requests import ONE, SLOW_RETRY, STEPS, count_failures
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, Weather, spec

BACK = 3
KEPT: dict[str, Any] = {"checkpoints": {"store": STORE, "keep": {"count": 8}}}


def start_keeping(weather: Weather | None = None, **fields: Any) -> Simulation:
    """A trial that keeps its last eight checkpoints, one of each iteration."""
    return make(Program(steps=STEPS, upload=0.5, checkpoint_every=1), weather, **fields).run(9.2)


def make(program: Program, weather: Weather | None = None, **fields: Any) -> Simulation:
    return Simulation(spec(**{**ONE, **KEPT, **fields}), program, weather or Weather())


def go_back(simulation: Simulation, attempt: int = 1, step: int = BACK) -> None:
    simulation.api.edit_trial("e-0", retry=RetryRequest(attempt=attempt, step=step))


def list_steps(simulation: Simulation) -> list[int]:
    return [checkpoint.step for checkpoint in simulation.status().checkpoints]


def assert_went_back(simulation: Simulation) -> None:
    """Its second attempt has started from the checkpoint that was chosen, and the trial has lost nothing."""
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.TERMINATED, TrialReason.COMPLETED)
    assert (status.attempt, status.iteration, status.retried_attempt) == (2, STEPS, 1)
    assert count_failures(status) == 0
    assert status.lost_checkpoint is None
    assert simulation.pods["e-0-2"].restored.step == BACK
    assert [entry.action for entry in status.ledger] == ["RETRY"]
    assert status.checkpoint is not None
    assert status.checkpoint.step == STEPS


def test_it_goes_on_from_the_chosen_checkpoint_and_not_from_the_last() -> None:
    simulation = start_keeping()
    assert simulation.status().iteration > BACK + 1
    go_back(simulation)
    simulation.run()
    assert_went_back(simulation)
    (entry,) = simulation.status().ledger
    assert entry.message == "attempt 1 is retried by request (spec.retry), from the checkpoint of iteration 3"
    assert_made_anew_agrees(simulation)


def test_what_the_attempt_stores_after_the_request_is_not_gone_on_from() -> None:
    simulation = start_keeping()
    go_back(simulation)
    simulation.run(until=lambda: simulation.status().last_attempt is not None)
    assert list_steps(simulation)[-1] == BACK
    assert simulation.status().message.endswith("goes on from the checkpoint of iteration 3")


def test_an_attempt_that_fails_before_its_first_checkpoint_is_retried_from_the_same_one() -> None:
    crashed = {0: (None, ScheduledFault(Fault.CRASH, BACK))}
    failures = {"maxFailures": 1, "backoff": {"initial": "1s", "max": "1s"}}
    program = Program(steps=STEPS, upload=1.5, checkpoint_every=1, faults=crashed)
    simulation = make(program, failures=failures).run(9.2)
    go_back(simulation)
    simulation.run()
    assert (simulation.status().attempt, simulation.status().failures) == (3, 1)
    assert simulation.pods["e-0-3"].restored.step == BACK


def test_results_that_were_told_before_are_not_told_again() -> None:
    """The scheduler has ranked them: a second value of the same iteration would stand for another trial."""
    simulation = start_keeping()
    go_back(simulation)
    simulation.run(until=lambda: simulation.status().last_attempt is not None)
    reached, best = simulation.status().iteration, simulation.status().best
    simulation.run(until=lambda: simulation.status().attempt == 2 and simulation.status().state is TrialState.RUNNING)
    assert simulation.status().iteration == reached
    assert simulation.status().best == best


@pytest.mark.parametrize("state", ["backing off", "paused", "suspended"])
def test_a_trial_without_a_pod_starts_from_there(state: str) -> None:
    faults = {0: (ScheduledFault(Fault.CRASH, 8),)} if state == "backing off" else {}
    program = Program(steps=STEPS, upload=0.5, checkpoint_every=1, faults=faults)
    simulation = make(program, **{**SLOW_RETRY, **KEPT}).run(9.2)
    if state == "paused":
        simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    elif state == "suspended":
        simulation.edit_spec(suspend=True)
    simulation.run(20.0)
    assert simulation.status().state is not TrialState.RUNNING
    go_back(simulation, attempt=2)
    simulation.run(until=lambda: simulation.status().retried_attempt == 2)
    assert list_steps(simulation)[-1] == BACK
    simulation.api.edit_trial("e-0", desired_state=DesiredState.RUNNING)
    simulation.edit_spec(suspend=False)
    simulation.run()
    assert simulation.pods["e-0-2"].restored.step == BACK
    assert simulation.status().iteration == STEPS


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (KEPT, "with its present parameters, the checkpoints of these iterations are kept: "),
        ({"checkpoints": {}}, "no checkpoint with its present parameters is kept"),
    ],
    ids=["no such checkpoint", "no checkpoint at all"],
)
def test_a_checkpoint_that_is_not_there_is_told_and_the_trial_trains_on(fields: dict[str, Any], said: str) -> None:
    simulation = start_keeping(**fields)
    go_back(simulation, step=99)
    simulation.run(2.0)
    told = find_condition(simulation.status().conditions, ConditionType.RETRY_ACCEPTED)
    assert told is not None
    assert (told.status, told.reason) == ("False", TrialReason.NO_SUCH_CHECKPOINT)
    assert told.message.startswith(f"can't go back to iteration 99 (spec.retry.step): {said}")
    assert (simulation.status().state, simulation.status().attempt) == (TrialState.RUNNING, 1)
    simulation.run()
    assert simulation.status().attempt == 1
    told = find_condition(simulation.status().conditions, ConditionType.RETRY_ACCEPTED)
    assert told is not None
    assert told.status == "False", "it never went back"


def test_a_corrected_request_is_carried_out() -> None:
    simulation = start_keeping()
    go_back(simulation, step=99)
    simulation.run(1.0)
    go_back(simulation)
    simulation.run()
    assert_went_back(simulation)
    told = find_condition(simulation.status().conditions, ConditionType.RETRY_ACCEPTED)
    assert told is None or told.status == "True"


@pytest.mark.parametrize("tenths", range(0, 100, 3))
def test_an_operator_that_dies_neither_repeats_nor_loses_the_request(tenths: int) -> None:
    simulation = start_keeping(Weather(latency=0.2, watch_delay=0.2))
    go_back(simulation)
    simulation.run(tenths / 10)
    simulation.restart()
    simulation.run()
    assert_went_back(simulation)


@pytest.mark.parametrize("count", range(1, 9))
def test_nor_does_one_that_dies_right_after_a_write(count: int) -> None:
    simulation = start_keeping()
    left = count

    def dies(action: Action) -> bool:
        nonlocal left
        left -= isinstance(action, (WriteTrialStatus, CreatePod))
        if left == 0:
            left = -1
            simulation.after(0.0, simulation.restart)
            return True
        return False

    simulation.loses_reply = dies
    go_back(simulation)
    simulation.run()
    assert_went_back(simulation)


@pytest.mark.parametrize("template", [{"replicas": 2}, {"reuse": True}], ids=["gangs", "warm pods"])
def test_gangs_and_warm_pods_go_back_too(template: dict[str, Any]) -> None:
    containers = [{"name": "trial", "image": "none"}]
    simulation = start_keeping(trialTemplate={**template, "spec": {"containers": containers}})
    go_back(simulation)
    simulation.run(until=lambda: simulation.status().last_attempt is not None)
    assert list_steps(simulation)[-1] == BACK
    simulation.run()
    status = simulation.status()
    assert (status.state, status.attempt, status.iteration, count_failures(status)) == (
        TrialState.TERMINATED,
        2,
        STEPS,
        0,
    )
