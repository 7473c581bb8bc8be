"""Exports: which checkpoints, when, and what is said of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, ExperimentState
from podtune.api.resources.checkpoints import Export
from podtune.protocol.storage_job import StoragePurpose, StoredTrial
from podtune.runner.backoff import Backoff
from podtune.runner.settings import RunnerSettings
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import FAIR, STORE, Simulation, Weather, spec

QUICK = RunnerSettings(storage_backoff=Backoff(2.0, 8.0), storage_start_deadline=5.0, storage_tries=3)
STORMY = Weather(latency=0.3, watch_delay=1.0, fails=0.2, loses_reply=0.2, repeats=0.2, restarts=(3.0, 4.0, 2.5, 1.0))


def simulation(
    export: dict[str, Any] | None = None, weather: Weather = FAIR, seed: int = 0, **fields: Any
) -> Simulation:
    checkpoints = {"store": STORE, "keep": {"count": 1, "by": "best"}, "export": export or {}}
    program = Program(steps=4, checkpoint_every=1)
    return Simulation(spec(checkpoints=checkpoints, **fields), program, weather, seed=seed, settings=QUICK)


def exported(simulation: Simulation) -> list[StoredTrial]:
    made = [action for action in simulation.storage.made if action.purpose is StoragePurpose.EXPORT]
    return list(made[-1].trials) if made else []


def test_the_best_trials_checkpoint_is_exported_before_the_experiment_is_called_complete() -> None:
    running = simulation()
    running.run(until=lambda: bool(exported(running)))
    status = running.api.experiment.status
    assert status.state is ExperimentState.RUNNING
    assert status.message.startswith("ending: ")
    running.run()
    status = running.api.experiment.status
    assert status.state is ExperimentState.COMPLETE
    assert status.best.exported == "s3://exports/best"
    (trial,) = exported(running)
    assert trial.trial == status.best.trial
    assert trial.export.uri == status.best.checkpoint


def test_its_model_card_says_what_it_is() -> None:
    running = simulation().run()
    (trial,) = exported(running)
    best = running.api.experiment.status.best
    card = json.loads(trial.export.card)
    assert card["experiment"] == {"namespace": "ns", "name": "e", "uid": "e-uid"}
    assert card["parameters"] == best.parameters
    assert (card["trial"], card["objective"]["metric"]) == (best.trial, "accuracy")
    assert card["objective"]["value"] == best.value


def test_on_request_each_trials_best_one() -> None:
    running = simulation({"trials": "All"}).run()
    assert [trial.trial for trial in exported(running)] == ["e-0", "e-1", "e-2", "e-3"]
    best = running.api.experiment.status.best
    assert [t.trial for t in exported(running) if t.export is not None and t.export.is_best] == [best.trial]
    assert best.exported == f"s3://exports/{best.trial}"


def test_an_export_that_keeps_failing_holds_up_the_end_only_so_long() -> None:
    failing = simulation()
    failing.storage.failures = dict.fromkeys(range(1, 4), "access denied")
    failing.run()
    failing.run(60.0)
    status = failing.api.experiment.status
    assert status.state is ExperimentState.COMPLETE
    told = find_condition(status.conditions, ConditionType.EXPORTED)
    assert (told.status, told.message) == ("False", "access denied")
    assert [event.reason for event in failing.events if event.warning] == ["StorageWorkFailed"]
    assert status.best.exported == ""


def test_where_nothing_was_stored_there_is_nothing_to_export() -> None:
    checkpoints = {"store": STORE, "export": {}}
    running = Simulation(spec(checkpoints=checkpoints), Program(steps=2), settings=QUICK).run()
    assert exported(running) == []
    assert running.api.experiment.status.state is ExperimentState.COMPLETE


@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_weather_it_is_exported_once_and_the_end_says_where(seed: int) -> None:
    running = simulation(weather=STORMY, seed=seed)
    running.run()
    running.run(120.0)
    status = running.api.experiment.status
    assert status.state is ExperimentState.COMPLETE
    assert status.best.exported == "s3://exports/best"


def test_an_ended_experiment_exports_what_is_asked_of_it_later() -> None:
    ended = simulation().run()
    ended.run(30.0)
    before = len(ended.storage.made)
    assert ended.api.experiment.spec is not None
    export = Export(to="s3://models/digits")
    checkpoints = ended.api.experiment.spec.checkpoints.model_copy(update={"export": export})
    ended.api.edit_experiment(spec=ended.api.experiment.spec.model_copy(update={"checkpoints": checkpoints}))
    ended.wake()
    ended.run(until=lambda: ended.api.experiment.status.state is not ExperimentState.COMPLETE, seconds=60.0)
    assert ended.api.experiment.status.state is ExperimentState.COMPLETE, "it stays complete meanwhile"
    assert [action.purpose for action in ended.storage.made[before:]] == ["Export"]
