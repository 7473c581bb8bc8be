"""Trials that people create: each runs like any other, and takes nothing from the proposals."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, DesiredState, ExperimentState, TrialReason, TrialState
from podtune.api.resources.resume import Resume
from podtune.runner.actions import AdoptTrial, CreatePod, CreateTrial, WriteTrialStatus
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, spec

OWN = "e-100000"
TPE = {"algorithm": "tpe", "maxTrials": 6, "seed": 7, "tpe": {"startupTrials": 2}}
RATE = {"learning_rate": "0.05"}
GRID: dict[str, Any] = {
    "parameters": [{"name": "units", "int": {"min": 1, "max": 6}}],
    "search": {"algorithm": "grid", "maxTrials": 20},
}


def start(program: Program | None = None, **fields: Any) -> Simulation:
    return Simulation(spec(**fields), program or Program(steps=10))


def end(simulation: Simulation) -> tuple[ExperimentState | None, str]:
    status = simulation.api.experiment.status
    return status.state, status.message


def test_one_runs_beside_the_proposals_and_uses_up_no_sample() -> None:
    simulation = start().run(5.0)
    simulation.api.add_trial(OWN, parameters=RATE)
    simulation.run()
    status = simulation.api.trials[OWN].status
    assert (status.state, status.iteration) == (TrialState.TERMINATED, 10)
    assert simulation.api.trials[OWN].owned
    assert [name for name in sorted(simulation.api.trials) if name != OWN] == ["e-0", "e-1", "e-2", "e-3"]
    counts = simulation.api.experiment.status.trials
    assert (counts.total, counts.added, counts.terminated) == (5, 1, 5)
    assert end(simulation) == (ExperimentState.COMPLETE, "all 5 trials are done")
    assert simulation.api.max_alive <= 2, "it takes a slot like any other"


def test_the_proposals_are_those_that_come_without_it() -> None:
    plain = start(**GRID).run()
    simulation = start(**GRID).run(3.0)
    simulation.api.add_trial(OWN, parameters={"units": "3"})
    simulation.run()
    proposed = {name: trial.spec.parameters for name, trial in simulation.api.trials.items() if name != OWN}
    assert proposed == {name: trial.spec.parameters for name, trial in plain.api.trials.items()}


def test_a_searcher_that_learns_hears_of_its_result() -> None:
    simulation = start(search=TPE, maxConcurrentTrials=1).run(1.0)
    simulation.api.add_trial(OWN, parameters=RATE)
    simulation.run()
    place = simulation.api.trials[OWN].status.observation_seq
    assert place is not None
    places = {trial.status.observation_seq for trial in simulation.api.trials.values()}
    assert places == set(range(7)), "each has a place of its own in the order of tells"
    told = simulation.machine._planner._search._log.in_order[place]
    assert (told.number, told.configuration) == (100_000, {"learning_rate": 0.05})


def test_it_is_the_experiments_before_it_runs() -> None:
    simulation = start().run(5.0)
    simulation.api.add_trial(OWN, parameters=RATE)
    simulation.run()
    log = [type(action) for action in simulation.log if getattr(action, "trial", getattr(action, "name", "")) == OWN]
    assert log.index(AdoptTrial) < log.index(CreatePod)
    created = next(action for action in simulation.actions(CreatePod) if action.trial == OWN)
    assert created.spec.seed == simulation.api.trials["e-0"].spec.seed, "all first repeats have one seed"


def test_fixed_and_computed_values_are_added() -> None:
    parameters = [
        {"name": "units", "int": {"min": 1, "max": 8}},
        {"name": "depth", "fixed": {"value": 3}},
        {"name": "half", "expression": "units / 2"},
    ]
    simulation = start(parameters=parameters).run(5.0)
    simulation.api.add_trial(OWN, parameters={"units": "5"})
    simulation.run()
    created = next(action for action in simulation.actions(CreatePod) if action.trial == OWN)
    assert created.spec.parameters == {"units": "5", "depth": "3", "half": "2.5"}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "outside": ({"parameters": {"learning_rate": "7"}}, "spec.parameters.learning_rate: '7' is not a value"),
    "missing": ({"parameters": {}}, "'learning_rate' without a value"),
    "unknown": ({"parameters": {**RATE, "lr": "1"}}, "spec.parameters.lr: is not a parameter"),
    "another experiment's checkpoint": (
        {"parameters": RATE, "restoreFrom": {"experiment": "other", "trial": "other-0"}},
        "spec.restoreFrom.experiment: other is another experiment",
    ),
    "a proposal": ({"parameters": RATE, "proposal": {"number": 3}}, "spec.proposal: is for the operator to set"),
    "a former trial": (
        {"parameters": RATE, "former": {"uid": "x", "lastResult": {"accuracy": "1"}}},
        "spec.former: is for the operator to set",
    ),
    "of another experiment": ({"parameters": RATE, "experiment": "f"}, "spec.experiment: f is not the experiment"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_one_that_cant_run_says_why_and_stops_nothing_else(case: str) -> None:
    fields, words = REFUSED[case]
    simulation = start().run(5.0)
    simulation.api.add_trial(OWN, **fields)
    simulation.run()
    status = simulation.api.trials[OWN].status
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.REFUSED)
    assert words in status.message
    found = find_condition(status.conditions, ConditionType.ACCEPTED)
    assert (found.status, found.message) == ("False", status.message)
    assert not any(action.trial == OWN for action in simulation.actions(CreatePod))
    assert end(simulation) == (ExperimentState.COMPLETE, "all 4 trials are done")
    assert simulation.api.experiment.status.trials.error == 0
    assert_made_anew_agrees(simulation)


def test_one_with_the_index_of_a_proposal_is_not_taken_for_it() -> None:
    simulation = start().run(1.0)
    simulation.api.add_trial("e-70", parameters=RATE)
    simulation.run(5.0)
    trial = simulation.api.trials["e-70"]
    assert not trial.owned
    assert "spec.index: 70 is a proposal's" in trial.status.message
    simulation.run()
    assert end(simulation) == (ExperimentState.COMPLETE, "all 4 trials are done")


def test_it_starts_from_another_trials_checkpoint() -> None:
    fields = {"checkpoints": {"store": STORE}}
    simulation = start(Program(steps=10, checkpoint_every=1), **fields)
    simulation.run(until=lambda: simulation.status_exists(0) and simulation.status(0).checkpoint is not None)
    simulation.api.add_trial(OWN, parameters=RATE, restoreFrom={"trial": "e-0"})
    simulation.run()
    status = simulation.api.trials[OWN].status
    assert "/e-0/" in status.restore_source.uri
    assert (status.state, status.iteration) == (TrialState.TERMINATED, 10)


def test_a_deleted_one_is_not_made_again() -> None:
    simulation = start().run(3.0)
    simulation.api.add_trial(OWN, parameters=RATE)
    simulation.run(2.0)
    simulation.delete_trial(OWN)
    simulation.run(1.0)
    simulation.restart()
    simulation.run()
    assert OWN not in simulation.api.trials
    assert not any(action.name == OWN for action in simulation.actions(CreateTrial))
    assert all(trial.spec.former is None for trial in simulation.api.trials.values())
    assert len(simulation.api.trials) == 4


def test_with_repeats_it_is_a_configuration_of_one() -> None:
    search = {"algorithm": "random", "maxTrials": 4, "seed": 7, "repeats": 2}
    simulation = start(search=search).run(3.0)
    simulation.api.add_trial(OWN, parameters=RATE)
    simulation.run()
    assert len(simulation.api.trials) == 5
    assert simulation.api.experiment.status.best is not None
    assert simulation.api.trials[OWN].status.observation_seq is not None


def test_it_may_become_the_best() -> None:
    """Of trials with the same values, the one with the lowest index is: a person's is not before all others end."""
    simulation = start(Program(steps=2)).run(1.0)
    simulation.api.add_trial(OWN, parameters=RATE)
    simulation.run()
    holders = {name for name, trial in simulation.api.trials.items() if trial.status.best_value}
    assert OWN in holders
    assert simulation.api.experiment.status.best.trial in holders


def test_it_can_be_paused_and_stopped() -> None:
    simulation = start(Program(steps=10, checkpoint_every=1), checkpoints={"store": STORE}).run(2.0)
    simulation.api.add_trial(OWN, parameters=RATE)
    simulation.run(until=lambda: simulation.api.trials[OWN].status.state is TrialState.RUNNING)
    simulation.api.edit_trial(OWN, desired_state=DesiredState.STOPPED)
    simulation.run()
    assert simulation.api.trials[OWN].status.reason == TrialReason.STOPPED_BY_USER


def test_an_ended_experiment_stops_it_and_runs_it_when_it_goes_on() -> None:
    simulation = start().run()
    simulation.api.add_trial(OWN, parameters=RATE)
    simulation.run(5.0)
    status = simulation.api.trials[OWN].status
    assert (status.state, status.reason) == (TrialState.TERMINATED, TrialReason.STOPPED_BY_EXPERIMENT)
    simulation.edit_spec(resume=Resume(id="again"))
    simulation.run(1.0)
    simulation.run()
    assert simulation.api.trials[OWN].status.iteration == 10


@pytest.mark.parametrize("moment", [1.0, 5.0, 12.0])
@pytest.mark.parametrize("scheduler", ["fifo", "asha"])
def test_a_machine_made_anew_agrees(moment: float, scheduler: str) -> None:
    settings = {"asha": {"maxTime": 10, "gracePeriod": 2}} if scheduler == "asha" else {"fifo": {}}
    simulation = start(search=TPE, scheduler=settings).run(moment)
    simulation.api.add_trial(OWN, parameters=RATE)
    simulation.run(2.0)
    assert_made_anew_agrees(simulation)


def test_a_write_that_conflicts_is_made_again() -> None:
    simulation = start().run(3.0)
    simulation.fail(AdoptTrial, "busy")
    simulation.api.add_trial(OWN, parameters=RATE)
    simulation.run(2.0)
    assert not any(action.name == OWN for action in simulation.actions(WriteTrialStatus))
    simulation.refuse = lambda action: None
    simulation.run()
    assert simulation.api.trials[OWN].status.state is TrialState.TERMINATED
