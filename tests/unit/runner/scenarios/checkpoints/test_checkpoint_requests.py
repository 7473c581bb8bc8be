"""A person asks a running trial for a checkpoint, without a pause."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.names import DesiredState, TrialState
from podtune.api.resources.trial import RequestedCheckpoint
from podtune.api.resources.trial_requests import CheckpointRequest
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, Weather, spec

ONE: dict[str, Any] = {
    "search": {"algorithm": "random", "maxTrials": 1, "seed": 7},
    "checkpoints": {"store": STORE, "keep": {"count": 9}},
}
STEPS = 14
AT_ONCE = Weather(latency=0.2, watch_delay=0.2)


def start(weather: Weather | None = None, program: Program | None = None, **fields: Any) -> Simulation:
    program = program or Program(steps=STEPS, upload=0.5)
    return Simulation(spec(**{**ONE, **fields}), program, weather or Weather())


def ask(simulation: Simulation, number: int = 1) -> int:
    """Asks for a checkpoint; returns the iteration that is on record."""
    simulation.api.edit_trial("e-0", checkpoint_request=CheckpointRequest(id=str(number)))
    return simulation.status().iteration


def find_answer(simulation: Simulation) -> RequestedCheckpoint:
    answer = simulation.status().checkpoint_request
    assert answer is not None
    return answer


def test_a_running_trial_stores_a_checkpoint_and_goes_on() -> None:
    simulation = start().run(4.2)
    reached = ask(simulation)
    simulation.run(4.0)
    answer = find_answer(simulation)
    assert answer.checkpoint is not None
    assert (answer.id, answer.attempt, answer.seq >= reached) == ("1", 1, True)
    assert answer.seq <= answer.checkpoint.step <= answer.seq + 3
    assert simulation.status().state is TrialState.RUNNING
    simulation.run()
    status = simulation.status()
    assert (status.state, status.attempt, status.iteration) == (TrialState.TERMINATED, 1, STEPS)
    assert status.checkpoints == [answer.checkpoint], "it was asked once, and has stored one"
    assert_made_anew_agrees(simulation)


def test_each_request_is_answered_once_by_a_later_checkpoint() -> None:
    simulation = start().run(3.2)
    ask(simulation, 1)
    simulation.run(4.0)
    first = find_answer(simulation)
    ask(simulation, 2)
    simulation.run()
    second = find_answer(simulation)
    assert first.checkpoint is not None
    assert second.checkpoint is not None
    assert (first.id, second.id) == ("1", "2")
    assert second.checkpoint.step > first.checkpoint.step
    assert simulation.status().checkpoints == [first.checkpoint, second.checkpoint]


def test_a_checkpoint_of_the_last_iteration_answers_at_once() -> None:
    simulation = start(program=Program(steps=3, seconds=100.0, checkpoint_every=1)).run(150.0)
    ask(simulation)
    simulation.run(3.0)
    answer = find_answer(simulation)
    assert answer.checkpoint is not None
    assert answer.checkpoint.step == simulation.status().iteration == 1


def test_an_attempt_that_fails_before_leaves_the_answer_to_the_next_one() -> None:
    faults = {0: (ScheduledFault(Fault.CRASH, 6),)}
    program = Program(steps=STEPS, upload=3.0, faults=faults)
    simulation = start(program=program, failures={"backoff": {"initial": "1s", "max": "1s"}})
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().iteration >= 3)
    ask(simulation)
    simulation.run(until=lambda: simulation.status().checkpoint_request is not None)
    assert find_answer(simulation).attempt == 1
    simulation.run()
    answer = find_answer(simulation)
    assert answer.checkpoint is not None
    assert simulation.status().checkpoints == [answer.checkpoint], "and the next one stores no further"


def test_a_trial_that_is_paused_is_asked_when_it_goes_on() -> None:
    simulation = start().run(4.2)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    simulation.run(20.0)
    ask(simulation)
    simulation.run(20.0)
    assert simulation.status().checkpoint_request is None
    simulation.api.edit_trial("e-0", desired_state=DesiredState.RUNNING)
    simulation.run()
    assert find_answer(simulation).checkpoint is not None


def test_without_a_store_nothing_is_asked() -> None:
    simulation = start(checkpoints={}).run(4.2)
    ask(simulation)
    simulation.run()
    assert simulation.status().checkpoint_request is None


def test_a_request_that_a_pause_overtakes_is_answered_by_its_checkpoint() -> None:
    simulation = start().run(4.2)
    ask(simulation)
    simulation.run(0.3)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    simulation.run(20.0)
    assert simulation.status().state is TrialState.PAUSED
    assert find_answer(simulation).checkpoint in simulation.status().checkpoints


@pytest.mark.parametrize("tenths", range(0, 60, 3))
def test_an_operator_that_dies_neither_repeats_nor_loses_the_request(tenths: int) -> None:
    simulation = start(AT_ONCE).run(4.2)
    ask(simulation)
    simulation.run(tenths / 10)
    simulation.restart()
    simulation.run()
    answer = find_answer(simulation)
    assert answer.checkpoint is not None
    assert simulation.status().checkpoints == [answer.checkpoint]
    assert simulation.status().attempt == 1
