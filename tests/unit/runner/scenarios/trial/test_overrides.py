"""Trials whose users change their parameters while they are paused."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, DesiredState, TrialReason, TrialState
from podtune.runner.actions import CreatePod, Propose, WriteTrialStatus
from podtune.tuning.schedulers.base import SchedulerAction, SchedulerDecision
from podtune.tuning.searchers.base import Observation, PendingTrial
from tests.unit.runner.world.scripted_scheduler import Dictated, dictated
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, spec

ONE: dict[str, Any] = {
    "search": {"algorithm": "random", "maxTrials": 1, "seed": 7},
    "checkpoints": {"store": STORE},
    "parameters": [
        {"name": "lr", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
        {"name": "units", "int": {"min": 8, "max": 64}},
    ],
}
LONG = Program(steps=30, checkpoint_every=2)
PAUSED, RUNNING = DesiredState.PAUSED, DesiredState.RUNNING


def paused(**fields: Any) -> Simulation:
    simulation = Simulation(spec(**{**ONE, **fields}), LONG).run(10.0)
    simulation.api.edit_trial("e-0", desired_state=PAUSED)
    simulation.run(20.0)
    assert simulation.status().state is TrialState.PAUSED
    return simulation


def condition(simulation: Simulation) -> tuple[str, str, str]:
    found = find_condition(simulation.status().conditions, ConditionType.OVERRIDES_ACCEPTED)
    return found.status, found.reason, found.message


@pytest.mark.parametrize("restarts", [False, True])
def test_a_trial_goes_on_from_its_checkpoint_with_the_new_values(restarts: bool) -> None:
    simulation = paused()
    step = simulation.status().iteration
    simulation.api.edit_trial("e-0", overrides={"lr": "0.0123"})
    simulation.run(5.0)
    if restarts:
        simulation.restart()
    simulation.api.edit_trial("e-0", desired_state=RUNNING)
    simulation.run()
    status = simulation.status()
    before = simulation.api.trials["e-0"].spec.parameters
    assert simulation.pods["e-0-2"].restored.step == step
    assert simulation.created_pods()[-1].spec.parameters == {**before, "lr": "0.0123"}
    assert status.parameters == {**before, "lr": "0.0123"}
    assert status.iteration == 30
    entry = next(entry for entry in status.ledger if entry.action == "CONFIGURE")
    assert entry.inputs == {"lr": f"{before['lr']} → 0.0123"}
    assert condition(simulation) == ("True", "Accepted", "")


def test_the_new_values_are_recorded_before_the_pod_starts() -> None:
    simulation = paused()
    simulation.fail(WriteTrialStatus, when=lambda action: action.status.overrides)
    simulation.api.edit_trial("e-0", overrides={"lr": "0.0123"}, desired_state=RUNNING)
    simulation.run(100.0)
    assert len(simulation.actions(CreatePod)) == 1
    simulation.refuse = lambda action: None
    simulation.run()
    assert simulation.created_pods()[-1].spec.parameters["lr"] == "0.0123"


def test_what_is_not_in_the_search_space_is_refused_and_the_trial_waits() -> None:
    simulation = paused()
    simulation.api.edit_trial("e-0", overrides={"lr": "7"})
    simulation.run(5.0)
    said = "spec.overrides.lr: '7' is not a value of the parameter; choose one of its domain"
    assert condition(simulation) == ("False", TrialReason.INVALID_OVERRIDES, said)
    simulation.api.edit_trial("e-0", desired_state=RUNNING)
    simulation.run(100.0)
    assert (simulation.status().state, simulation.status().reason) == (
        TrialState.PENDING,
        TrialReason.INVALID_OVERRIDES,
    )
    assert simulation.status().message == said
    assert len(simulation.actions(CreatePod)) == 1
    simulation.api.edit_trial("e-0", overrides={"lr": "0.07"})
    simulation.run()
    assert simulation.status().parameters["lr"] == "0.07"
    assert simulation.status().state is TrialState.TERMINATED


def test_what_is_taken_back_is_what_was_proposed_again() -> None:
    simulation = paused()
    simulation.api.edit_trial("e-0", overrides={"lr": "0.07", "units": "9"})
    simulation.run(5.0)
    simulation.api.edit_trial("e-0", overrides={"units": "9"}, desired_state=RUNNING)
    simulation.run()
    proposed = simulation.api.trials["e-0"].spec.parameters
    assert simulation.status().parameters == {**proposed, "units": "9"}
    assert simulation.pods["e-0-2"].restored.step > 0


def test_a_running_trial_says_that_its_pause_is_waited_for() -> None:
    simulation = Simulation(spec(**ONE), LONG).run(10.0)
    simulation.api.edit_trial("e-0", overrides={"lr": "0.07"})
    simulation.run(5.0)
    assert condition(simulation)[:2] == ("False", "WaitForPod")
    assert simulation.status().parameters == {}


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"zzz": "7"}, "spec.overrides.zzz: is not a parameter"),
        ({"units": "65"}, "spec.overrides.units: '65' is not a value"),
    ],
)
def test_a_running_trial_says_at_once_that_they_are_wrong(overrides: dict[str, str], words: str) -> None:
    simulation = Simulation(spec(**ONE), LONG).run(10.0)
    simulation.api.edit_trial("e-0", overrides=overrides)
    simulation.run(2.0)
    status, reason, message = condition(simulation)
    assert (simulation.status().state, status, reason) == (TrialState.RUNNING, "False", TrialReason.INVALID_OVERRIDES)
    assert words in message
    simulation.restart()
    simulation.run()
    assert simulation.status().state is TrialState.TERMINATED
    assert condition(simulation) == (status, reason, message)


def test_a_correction_while_it_runs_is_seen_and_the_end_does_not_claim_that_they_were_taken_in() -> None:
    simulation = Simulation(spec(**ONE), LONG).run(10.0)
    simulation.api.edit_trial("e-0", overrides={"units": "65"})
    simulation.run(2.0)
    simulation.api.edit_trial("e-0", overrides={"units": "64"})
    simulation.run(2.0)
    assert condition(simulation)[:2] == ("False", "WaitForPod")
    simulation.run()
    assert condition(simulation)[:2] == ("False", "TrialEnded")


def test_a_failed_restore_falls_back_and_keeps_the_new_values() -> None:
    simulation = paused()
    simulation.api.edit_trial("e-0", overrides={"lr": "0.07"})
    newest = simulation.status().checkpoints[-1].uri
    simulation.bucket.damaged.add(newest)
    simulation.api.edit_trial("e-0", desired_state=RUNNING)
    simulation.run()
    assert 0 < simulation.pods["e-0-2"].restored.step < int(newest.rpartition("/")[2])
    assert simulation.status().parameters["lr"] == "0.07"


def test_repeats_of_a_configuration_stay_what_they_are() -> None:
    search = {"algorithm": "random", "maxTrials": 2, "repeats": 2, "seed": 7}
    simulation = paused(search=search)
    simulation.api.edit_trial("e-0", overrides={"lr": "0.07"})
    simulation.run(5.0)
    assert condition(simulation)[2].startswith("spec.overrides: can't be set with search.repeats 2")


def test_the_searcher_and_the_scheduler_are_told() -> None:
    scheduler = Dictated({(0, 4): SchedulerDecision(SchedulerAction.PAUSE, "paused", recorded=True)})
    scheduler.pick = lambda scheduler, waiting: None
    search = {"algorithm": "tpe", "maxTrials": 4, "seed": 7}
    fields = {**ONE, "search": search, "maxConcurrentTrials": 1}
    simulation = Simulation(spec(**fields), LONG, make_scheduler=dictated(scheduler))
    simulation.run(until=simulation.status_exists)
    scheduler.pick = Dictated().pick
    simulation.run(until=lambda: simulation.status().state is TrialState.PAUSED)
    scheduler.pick = lambda scheduler, waiting: None
    simulation.api.edit_trial("e-0", overrides={"lr": "0.07"})
    simulation.run(10.0)
    assert "configuration 0" in scheduler.told
    scheduler.pick = Dictated().pick
    simulation.run()
    last = simulation.actions(Propose)[-1]
    known: list[Observation | PendingTrial] = [*last.observations, *last.pending]
    assert [trial.configuration["lr"] for trial in known if trial.number == 0] == [0.07]
