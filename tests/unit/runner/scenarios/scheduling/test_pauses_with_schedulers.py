"""What users pause and stop, with every scheduler: nobody waits for a trial of which nobody knows when it goes on."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.names import DesiredState, ExperimentState, TrialReason, TrialState
from tests.unit.runner.scenarios.scheduling.test_schedulers import EVERY_SCHEDULER, PATIENT, STEPS
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, spec

WAITING = ("hyperband", "bohb", "generations")
"""Those whose trials wait for each other."""
TRIALS = 12


def start(scheduler: str, **fields: Any) -> Simulation:
    defaults = {
        "checkpoints": {"store": STORE},
        "search": {"algorithm": "bohb" if scheduler == "bohb" else "random", "maxTrials": TRIALS, "seed": 7},
        "maxConcurrentTrials": 3,
        "scheduler": EVERY_SCHEDULER[scheduler],
    }
    return Simulation(spec(**defaults | fields), Program(steps=STEPS + 3, checkpoint_every=1), settings=PATIENT)


def pause(simulation: Simulation, index: int, desired: DesiredState = DesiredState.PAUSED) -> None:
    simulation.api.edit_trial(f"e-{index}", desired_state=desired)


def unfinished(simulation: Simulation) -> list[int]:
    trials = simulation.api.trials.values()
    return sorted(trial.spec.index for trial in trials if trial.status.completion_time is None)


@pytest.mark.parametrize("moment", [1.0, 6.0, 11.0, 15.0])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("scheduler", WAITING)
def test_the_others_go_on_without_a_trial_that_its_user_has_paused(
    scheduler: str, restarts: bool, moment: float
) -> None:
    simulation = start(scheduler).run(moment)
    held = unfinished(simulation)[0]
    pause(simulation, held)
    for _ in range(4):
        simulation.run(100.0)
        if restarts:
            simulation.restart()
    assert len(simulation.api.trials) == TRIALS
    assert unfinished(simulation) in ([held], []), "none waits for it, and its bracket may have ended without it"
    if unfinished(simulation):
        assert simulation.status(held).state is TrialState.PAUSED
        pause(simulation, held, DesiredState.RUNNING)
    simulation.run()
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE


@pytest.mark.parametrize("moment", [2.0, 8.0, 14.0])
@pytest.mark.parametrize("scheduler", EVERY_SCHEDULER)
def test_a_paused_trial_goes_on_whenever_its_user_says_so(scheduler: str, moment: float) -> None:
    """Paused while it runs, waits, or is paused by the scheduler already."""
    simulation = start(scheduler).run(moment)
    chosen = unfinished(simulation)[:3]
    for index in chosen:
        pause(simulation, index)
    simulation.run(60.0)
    assert all(simulation.status(index).state is not TrialState.RUNNING for index in chosen)
    for index in chosen:
        if index in unfinished(simulation):
            pause(simulation, index, DesiredState.RUNNING)
    simulation.run()
    assert simulation.api.experiment.status.trials.terminated == TRIALS


@pytest.mark.parametrize("moment", [2.0, 8.0, 14.0])
@pytest.mark.parametrize("scheduler", EVERY_SCHEDULER)
def test_whatever_its_user_stops_is_stopped_and_the_others_go_on(scheduler: str, moment: float) -> None:
    simulation = start(scheduler).run(moment)
    chosen = unfinished(simulation)[::2]
    for index in chosen:
        pause(simulation, index, DesiredState.STOPPED)
    simulation.run()
    assert simulation.api.experiment.status.trials.terminated == TRIALS
    assert any(simulation.status(index).reason == TrialReason.STOPPED_BY_USER for index in chosen)


@pytest.mark.parametrize("moment", [3.0, 9.0, 15.0])
@pytest.mark.parametrize("scheduler", EVERY_SCHEDULER)
def test_a_machine_made_anew_agrees_while_trials_are_held(scheduler: str, moment: float) -> None:
    simulation = start(scheduler).run(moment)
    for index in unfinished(simulation)[:2]:
        pause(simulation, index)
    simulation.run(moment)
    assert_made_anew_agrees(simulation)


def test_a_trial_that_the_scheduler_and_its_user_have_paused_says_so() -> None:
    simulation = start("promotion")
    simulation.run(until=lambda: any(t.status.state is TrialState.PAUSED for t in simulation.api.trials.values()))
    name = next(t.name for t in simulation.api.trials.values() if t.status.state is TrialState.PAUSED)
    index = simulation.api.trials[name].spec.index
    pause(simulation, index)
    simulation.run(200.0)
    status = simulation.status(index)
    assert (status.state, status.reason) == (TrialState.PAUSED, TrialReason.PAUSED_BY_SCHEDULER)
    assert status.message.startswith("paused at rung 1: ")
    assert status.message.endswith("; also paused by its user (spec.desiredState)")
    pause(simulation, index, DesiredState.RUNNING)
    simulation.run(until=lambda: "its user" not in simulation.status(index).message)
    simulation.run()
    assert simulation.api.experiment.status.trials.terminated == TRIALS
