"""An experiment is deleted some time after its end."""

from __future__ import annotations

from typing import Any

from podtune.api.names import ExperimentState
from podtune.protocol.storage_job import StoragePurpose
from podtune.runner.actions import DeleteExperiment
from podtune.runner.timestamps import parse_rfc3339
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, Weather, spec


def simulation(**fields: Any) -> Simulation:
    return Simulation(spec(**{"ttlSecondsAfterFinished": 60, **fields}), Program(steps=2, checkpoint_every=1))


def run_to_its_end(simulation: Simulation) -> Simulation:
    return simulation.run(until=lambda: simulation.is_over)


def end(simulation: Simulation) -> float:
    ended = parse_rfc3339(simulation.api.experiment.status.completion_time)
    assert ended is not None
    return ended


def test_that_long_after_its_end_and_no_sooner() -> None:
    ended = run_to_its_end(simulation())
    ended.run(end(ended) + 59 - ended.now)
    assert ended.actions(DeleteExperiment) == []
    ended.run(2.0)
    assert ended.api.experiment.deleting
    assert len(ended.actions(DeleteExperiment)) == 1


def test_also_when_the_operator_was_away_meanwhile() -> None:
    ended = run_to_its_end(simulation())
    ended.weather = Weather(downtime=500.0)
    ended.restart()
    ended.run(200.0)
    assert not ended.api.experiment.deleting
    ended.run(until=lambda: ended.machine is not None)
    ended.run(1.0)
    assert ended.api.experiment.deleting


def test_never_where_that_is_not_asked_for() -> None:
    ended = simulation(ttlSecondsAfterFinished=None).run()
    ended.run(10_000_000.0)
    assert ended.actions(DeleteExperiment) == []


def test_not_before_the_bucket_is_pruned() -> None:
    ended = simulation(ttlSecondsAfterFinished=0, checkpoints={"store": STORE})
    ended.run(until=lambda: ended.api.experiment.status.state is ExperimentState.COMPLETE)
    assert not ended.api.experiment.deleting
    ended.run(30.0)
    assert ended.api.experiment.deleting
    assert [action.purpose for action in ended.storage.made] == [StoragePurpose.PRUNE]


def test_decisions_that_no_agent_has_stored_are_given_to_the_storage_pod() -> None:
    ended = simulation(checkpoints={"store": STORE}, stop={"metrics": {"training_iteration": 1}}).run()
    ended.run(30.0)
    (prune,) = ended.storage.made
    recorded = {name: trial.status for name, trial in ended.api.trials.items()}
    for told in prune.trials:
        status = recorded[told.trial]
        left = [entry for entry in status.ledger if entry.number > status.ledger_exported]
        assert len(told.ledger) == len(left)
