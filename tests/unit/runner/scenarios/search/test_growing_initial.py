"""`search.initial` grows while the experiment runs, or after its end: what is appended is tried next."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, ExperimentReason, ExperimentState
from podtune.api.resources.trial import ProposalSource
from podtune.api.tuning.prior_knowledge import InitialConfiguration
from podtune.runner.actions import CreateTrial
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import Simulation, spec

INTEGERS = [{"name": "units", "int": {"min": 1, "max": 8}}]
TPE = {"algorithm": "tpe", "maxTrials": 8, "seed": 7, "tpe": {"startupTrials": 2}}
GRID: dict[str, Any] = {"parameters": INTEGERS, "search": {"algorithm": "grid", "maxTrials": 20}}


def append(simulation: Simulation, *entries: dict[str, Any], **search: Any) -> None:
    """A user appends configurations to try, and may raise the limit with it."""
    known = simulation.api.experiment.spec.search
    initial = [*known.initial, *(InitialConfiguration(parameters=entry) for entry in entries)]
    simulation.edit_spec(search=known.model_copy(update={"initial": initial, **search}))


def units(simulation: Simulation) -> list[int]:
    trials = sorted(simulation.api.trials.values(), key=lambda trial: trial.spec.index)
    return [int(trial.spec.parameters["units"]) for trial in trials]


def sources(simulation: Simulation) -> dict[int, int]:
    """Indexes of the trials that come from the manifest, with their places in it."""
    records = [(trial.spec.index, trial.spec.proposal) for trial in simulation.api.trials.values()]
    return {index: proposal.position for index, proposal in records if proposal.source is ProposalSource.INITIAL}


@pytest.mark.parametrize("search", [{"algorithm": "random", "maxTrials": 8, "seed": 7}, TPE], ids=["random", "tpe"])
@pytest.mark.parametrize("restart", [False, True])
def test_what_is_appended_is_tried_next(search: dict[str, Any], restart: bool) -> None:
    simulation = Simulation(spec(search=search), Program(steps=20)).run(10.0)
    before = len(simulation.api.trials)
    assert before == 2, "others are proposed ahead already"
    append(simulation, {"learning_rate": 0.05}, {"learning_rate": 0.07})
    simulation.run(1.0)
    if restart:
        simulation.restart()
    simulation.run()
    assert sources(simulation) == {2: 0, 3: 1}
    assert simulation.api.trials["e-3"].spec.parameters == {"learning_rate": "0.07"}
    assert len(simulation.api.trials) == 8, "they count towards maxTrials"


def test_the_searchers_own_are_the_same_with_and_without_them() -> None:
    plain, simulation = Simulation(spec()).run(), Simulation(spec(), Program(steps=20)).run(10.0)
    append(simulation, {"learning_rate": 0.05}, max_trials=5)
    simulation.run()
    assert sources(simulation) == {2: 0}
    own = [trial.spec.parameters for name, trial in sorted(simulation.api.trials.items()) if name != "e-2"]
    assert own == [trial.spec.parameters for _, trial in sorted(plain.api.trials.items())]


def test_a_grid_stays_complete() -> None:
    simulation = Simulation(spec(**GRID), Program(steps=5))
    simulation.run(until=lambda: "e-3" in simulation.api.trials)
    append(simulation, {"units": 8})
    simulation.run()
    tried = units(simulation)
    assert sorted(tried) == [1, 2, 3, 4, 5, 6, 7, 8, 8]
    assert tried[next(iter(sources(simulation)))] == 8


def test_a_random_search_of_a_finite_space_stays_complete() -> None:
    search = {"algorithm": "random", "maxTrials": 20, "seed": 3}
    simulation = Simulation(spec(parameters=INTEGERS, search=search), Program(steps=5))
    simulation.run(until=lambda: "e-4" in simulation.api.trials)
    append(simulation, {"units": units(simulation)[1]})
    simulation.run(1.0)
    simulation.restart()
    simulation.run()
    assert sorted(set(units(simulation))) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert len(units(simulation)) == 9


def test_what_was_being_made_is_kept_and_the_entry_comes_after_it() -> None:
    search = {"algorithm": "random", "maxTrials": 6, "seed": 7}
    simulation = Simulation(spec(search=search), Program(steps=20)).run(10.0)
    simulation.delay = lambda action: 5.0 if isinstance(action, CreateTrial) else 0.0
    simulation.run(until=lambda: any(action.name == "e-2" for action in simulation.actions(CreateTrial)))
    append(simulation, {"learning_rate": 0.05})
    simulation.run()
    assert sources(simulation) == {4: 0}, "e-2 and e-3 were on their way to the API server"
    assert len(simulation.api.trials) == 6


def test_repeats_that_were_begun_are_completed_first() -> None:
    search = {"algorithm": "random", "maxTrials": 9, "seed": 7, "repeats": 3}
    simulation = Simulation(spec(search=search), Program(steps=5))
    simulation.fail(CreateTrial, when=lambda action: action.spec.index in (1, 2))
    simulation.run(5.0)
    append(simulation, {"learning_rate": 0.05})
    simulation.run(5.0)
    simulation.refuse = lambda action: None
    simulation.run()
    assert len(simulation.api.trials) == 9
    assert set(sources(simulation).values()) == {0}
    assert len(sources(simulation)) == 3
    assert len({simulation.api.trials[f"e-{index}"].spec.parameters["learning_rate"] for index in range(3)}) == 1


def test_a_deleted_trial_of_an_appended_entry_is_made_again() -> None:
    simulation = Simulation(spec(search=TPE), Program(steps=20)).run(10.0)
    append(simulation, {"learning_rate": 0.05})
    simulation.run(until=lambda: "e-3" in simulation.api.trials)
    before = simulation.api.trials["e-2"]
    simulation.delete_trial("e-2")
    simulation.restart()
    simulation.run()
    again = simulation.api.trials["e-2"]
    assert again.uid != before.uid
    assert again.spec.parameters == before.spec.parameters
    assert sources(simulation) == {2: 0}


def test_without_room_in_max_trials_they_wait_and_that_is_said() -> None:
    simulation = Simulation(spec(), Program(steps=20))
    simulation.run(until=lambda: "e-3" in simulation.api.trials)
    append(simulation, {"learning_rate": 0.05})
    simulation.run(5.0)
    remedy = "the last configuration of search.initial had no room in maxTrials; raise it to 5 to try them"
    found = find_condition(simulation.api.experiment.status.conditions, ConditionType.PROPOSALS_MADE)
    assert (found.status, found.reason, found.message) == ("False", ExperimentReason.TRIAL_LIMIT_REACHED, remedy)
    simulation.run()
    status = simulation.api.experiment.status
    assert (status.state, status.message) == (ExperimentState.COMPLETE, f"all 4 trials are done; {remedy}")
    known = simulation.api.experiment.spec.search
    simulation.edit_spec(search=known.model_copy(update={"max_trials": 5}))
    simulation.run(1.0)
    simulation.run()
    assert sources(simulation) == {4: 0}
    assert simulation.api.experiment.status.message == "all 5 trials are done"


def test_an_experiment_that_has_tried_its_space_resumes_for_what_is_appended() -> None:
    simulation = Simulation(spec(**GRID)).run()
    assert len(simulation.api.trials) == 8
    append(simulation, {"units": 3})
    simulation.run(1.0)
    simulation.run()
    assert units(simulation)[8:] == [3]
    status = simulation.api.experiment.status
    assert (status.state, status.resumption.run_generation) == (ExperimentState.COMPLETE, 1)


def test_an_experiment_that_was_stopped_stays_so() -> None:
    simulation = Simulation(spec(stop={"now": True})).run()
    append(simulation, {"learning_rate": 0.05})
    simulation.run(5.0)
    assert simulation.api.experiment.status.resumption is None
    assert sources(simulation) == {}


def test_an_end_of_an_earlier_release_is_not_taken_for_another_one() -> None:
    initial = [{"parameters": {"units": 3}}]
    simulation = Simulation(spec(parameters=INTEGERS, search={**GRID["search"], "initial": initial})).run()
    status = simulation.api.experiment.status
    digest, _, asked = status.ended_by.partition("/")
    old = status.model_copy(update={"ended_by": f"{digest.partition('+')[0]}/{asked}"})
    simulation.api.write_experiment_status(simulation.api.experiment.version, old)
    simulation.restart()
    simulation.run(5.0)
    assert simulation.api.experiment.status.resumption is None


@pytest.mark.parametrize("search", [{"algorithm": "random", "maxTrials": 8, "seed": 7}, TPE], ids=["random", "tpe"])
@pytest.mark.parametrize("moment", [3.0, 10.0, 21.0])
def test_a_machine_made_anew_agrees(search: dict[str, Any], moment: float) -> None:
    simulation = Simulation(spec(search=search), Program(steps=10)).run(moment)
    append(simulation, {"learning_rate": 0.05})
    simulation.run(2.0)
    assert_made_anew_agrees(simulation)
