"""An Experiment that is deleted, and what is done about its checkpoints before it goes."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.names import FINALIZER, ExperimentReason
from podtune.runner.actions import ActionResult, ActionStatus, CreatePod, CreateStoragePod, DeletePod, WriteMetadata
from podtune.runner.backoff import Backoff
from podtune.runner.settings import RunnerSettings
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import FAIR, STORE, Simulation, Weather, spec

QUICK = RunnerSettings(storage_backoff=Backoff(2.0, 8.0), storage_start_deadline=5.0, storage_tries=3)
DELETE: dict[str, Any] = {"checkpoints": {"store": STORE, "deletionPolicy": "Delete"}}
RETAIN: dict[str, Any] = {"checkpoints": {"store": STORE}}
STORMY = Weather(latency=0.3, watch_delay=1.0, fails=0.2, loses_reply=0.2, repeats=0.2, restarts=(3.0, 4.0, 5.0, 1.0))


def simulation(weather: Weather = FAIR, seed: int = 0, **fields: Any) -> Simulation:
    fields = {**DELETE, **fields}
    return Simulation(spec(**fields), Program(steps=50, checkpoint_every=1), weather, seed=seed, settings=QUICK)


def delete(simulation: Simulation) -> None:
    simulation.api.allowed_alive = None
    simulation.api.edit_experiment(deleting=True)
    simulation.wake()


def is_gone(simulation: Simulation) -> bool:
    return FINALIZER not in simulation.api.experiment.finalizers


def test_it_has_the_finalizer_before_the_first_pod_is_made() -> None:
    running = simulation().run(until=lambda: False, seconds=5.0)
    kinds = [type(action) for action in running.log]
    assert kinds.index(WriteMetadata) < kinds.index(CreatePod)
    assert running.api.experiment.finalizers == (FINALIZER,)


def test_no_pod_is_made_where_the_finalizer_can_not_be_put() -> None:
    refused = simulation()
    answer = ActionResult(ActionStatus.FAILED, "forbidden")
    refused.refuse = lambda action: answer if isinstance(action, WriteMetadata) else None
    refused.run(60.0)
    assert refused.actions(CreatePod) == []


def test_with_retain_there_is_none() -> None:
    running = simulation(**RETAIN).run(10.0)
    assert running.actions(WriteMetadata) == []


def test_the_finalizer_follows_the_policy() -> None:
    running = simulation().run(5.0)
    retain = running.api.experiment.spec.checkpoints.model_copy(update={"deletion_policy": "Retain"})
    running.api.edit_experiment(spec=running.api.experiment.spec.model_copy(update={"checkpoints": retain}))
    running.wake()
    running.run(5.0)
    assert running.api.experiment.finalizers == ()


def test_its_pods_end_then_the_bucket_is_emptied_then_it_goes() -> None:
    running = simulation().run(10.0)
    assert running.bucket
    others = ("somebody.example/else", FINALIZER)
    running.api.edit_experiment(finalizers=others)
    delete(running)
    running.run(until=lambda: bool(running.storage.pods))
    assert all(pod.is_over for pod in running.api.pods.values())
    running.run(60.0)
    assert len(running.bucket) == 0
    assert running.api.experiment.finalizers == ("somebody.example/else",)
    assert [action.purpose for action in running.storage.made] == ["Purge"]


@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_weather_nothing_is_left(seed: int) -> None:
    running = simulation(STORMY, seed)
    running.run(6.0)
    delete(running)
    running.run(400.0)
    assert is_gone(running)
    assert len(running.bucket) == 0


def test_an_ended_experiment_is_emptied_too() -> None:
    ended = simulation(search={"algorithm": "random", "maxTrials": 1})
    ended.run()
    ended.run(60.0)
    assert ended.bucket
    delete(ended)
    ended.run(60.0)
    assert is_gone(ended)
    assert len(ended.bucket) == 0


def test_where_the_bucket_can_not_be_emptied_it_goes_all_the_same_and_says_what_is_left() -> None:
    running = simulation().run(10.0)
    running.storage.failures = dict.fromkeys(range(1, 9), "the credentials are wrong")
    delete(running)
    running.run(300.0)
    assert is_gone(running)
    assert len(running.storage.made) == QUICK.storage_tries
    (event,) = [event for event in running.events if event.reason == ExperimentReason.CHECKPOINTS_LEFT]
    assert event.warning
    assert event.message == (
        "checkpoints may remain at s3://bucket/demo/e-uid/ (the credentials are wrong); delete them there"
    )


def test_in_a_namespace_that_is_deleted_it_goes_at_once() -> None:
    running = simulation().run(10.0)
    answer = ActionResult(ActionStatus.REFUSED, "being terminated", ExperimentReason.NAMESPACE_ENDING)
    running.refuse = lambda action: answer if isinstance(action, CreateStoragePod) else None
    delete(running)
    running.run(until=lambda: is_gone(running))
    assert running.storage.made == []
    assert len(running.actions(CreateStoragePod)) == 1
    (event,) = [event for event in running.events if event.reason == ExperimentReason.CHECKPOINTS_LEFT]
    assert event.left_at == "s3://bucket/demo/e-uid/"


def test_a_user_who_changes_his_mind_on_the_way_keeps_the_checkpoints() -> None:
    running = simulation().run(10.0)
    running.storage.failures = {1: None}
    delete(running)
    running.run(until=lambda: bool(running.storage.pods))
    retain = running.api.experiment.spec.checkpoints.model_copy(update={"deletion_policy": "Retain"})
    running.api.edit_experiment(spec=running.api.experiment.spec.model_copy(update={"checkpoints": retain}))
    running.wake()
    running.run(10.0)
    assert is_gone(running)
    assert running.bucket


@pytest.mark.parametrize(("every", "grace"), [(0, 30), (1, None)])
def test_its_pods_have_the_templates_grace_period_alone_where_nothing_is_left_to_store(
    every: int, grace: int | None
) -> None:
    program = Program(steps=50, checkpoint_every=every, upload=4.5)
    running = Simulation(spec(**DELETE), program, settings=QUICK).run(10.0)
    delete(running)
    running.run(1.0)
    assert {action.grace for action in running.actions(DeletePod)} == {grace}
