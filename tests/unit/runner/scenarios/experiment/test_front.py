"""Several objectives: what the searcher is told of them, and the Pareto front in the status."""

from __future__ import annotations

import math
from typing import Any

from podtune.api.resources.experiment import ExperimentSpec
from podtune.runner.actions import Propose
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import Simulation, Weather, spec

OBJECTIVE = {"metric": "accuracy", "mode": "max", "others": [{"metric": "latency", "mode": "min"}]}
VALUES = [(0.5, 5.0), (0.7, 9.0), (0.4, 6.0), (0.9, 20.0), (0.5, 4.0), (0.3, 4.0), (0.9, 30.0), (0.6, 4.5)]
"""Accuracy and latency by trial; 3, 1, 7 and 4 are not beaten."""


def several(**search: Any) -> ExperimentSpec:
    algorithm = {"algorithm": "nsga2", "maxTrials": 8, "seed": 7, "nsga2": {"populationSize": 3}, **search}
    return spec(objective=OBJECTIVE, search=algorithm, maxConcurrentTrials=3)


def program(**fields: Any) -> Program:
    """Reports the values by and by: a trial is judged by its last result."""
    return Program(
        metric=lambda trial, step: VALUES[trial % 8][0] - (4 - step),
        further=lambda trial, step: {"latency": VALUES[trial % 8][1] + (4 - step)},
        **fields,
    )


def front(simulation: Simulation) -> list[tuple[str, dict[str, str]]]:
    return [(entry.trial, dict(entry.values)) for entry in simulation.api.experiment.status.pareto_front]


WHOLE = [
    ("e-3", {"accuracy": "0.9", "latency": "20.0"}),
    ("e-1", {"accuracy": "0.7", "latency": "9.0"}),
    ("e-7", {"accuracy": "0.6", "latency": "4.5"}),
    ("e-4", {"accuracy": "0.5", "latency": "4.0"}),
]


def test_the_status_shows_the_trials_that_no_other_one_beats() -> None:
    simulation = Simulation(several(), program()).run()
    assert front(simulation) == WHOLE


def test_a_trial_that_a_person_has_added_stands_in_the_front_by_its_name() -> None:
    simulation = Simulation(several(), program()).run(1.0)
    simulation.api.add_trial("e-100003", parameters={"learning_rate": "0.05"})
    simulation.run()
    assert simulation.api.trials["e-100003"].status.last_result["accuracy"] == "0.9", "as that of e-3, latency too"
    assert len({name for name, _ in front(simulation)} & {"e-3", "e-100003"}) >= 1
    assert {name for name, _ in front(simulation)} <= simulation.api.trials.keys()


def test_the_front_is_the_same_after_restarts_in_bad_weather() -> None:
    stormy = Weather(latency=0.5, watch_delay=1.0, fails=0.1, loses_reply=0.1, restarts=(3, 4, 5), downtime=1)
    assert front(Simulation(several(), program(), stormy).run()) == WHOLE


def test_the_searcher_is_told_all_values() -> None:
    simulation = Simulation(several(), program()).run()
    observations = simulation.actions(Propose)[-1].observations
    assert {observation.number: (observation.value, *observation.others) for observation in observations} == dict(
        enumerate(VALUES)
    )


def test_failed_trials_and_those_that_lack_a_value_are_not_on_the_front() -> None:
    latency = program().further
    lacking = Program(
        metric=program().metric,
        further=lambda trial, step: {} if trial == 1 else {"latency": math.nan} if trial == 7 else latency(trial, step),
        faults={3: (ScheduledFault(Fault.CRASH, 2),) * 4},
    )
    simulation = Simulation(several(), lacking).run()
    assert [trial for trial, _ in front(simulation)] == ["e-6", "e-4"]
    told = {observation.number: observation.value for observation in simulation.actions(Propose)[-1].observations}
    assert told[1] is told[3] is None


def test_repeats_stand_on_the_front_with_their_mean() -> None:
    simulation = Simulation(several(repeats=2), program()).run()
    assert [trial for trial, _ in front(simulation)] == ["e-6", "e-2", "e-0", "e-4"]
    assert front(simulation)[0] == ("e-6", {"accuracy": "0.75", "latency": "17.25"})


def test_with_one_objective_there_is_no_front() -> None:
    assert front(Simulation(spec(), program()).run()) == []
