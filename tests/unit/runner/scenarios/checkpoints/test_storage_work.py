"""Work in the bucket without a running trial: when its pods are made, and what becomes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, ExperimentState
from podtune.api.resources.storage_jobs import StorageJob, StorageJobState
from podtune.protocol.storage_job import StoragePurpose
from podtune.runner.actions import (
    ActionResult,
    ActionStatus,
    CreateStoragePod,
    DeletePod,
    EmitEvent,
    Propose,
    WriteExperimentStatus,
)
from podtune.runner.backoff import Backoff
from podtune.runner.settings import RunnerSettings
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import FAIR, STORE, Simulation, Weather, spec

QUICK = RunnerSettings(storage_backoff=Backoff(2.0, 8.0), storage_start_deadline=5.0, storage_tries=3)
STORED: dict[str, Any] = {"checkpoints": {"store": STORE, "keep": {"count": 1}}}
STORMY = Weather(latency=0.3, watch_delay=1.0, fails=0.2, loses_reply=0.2, repeats=0.2, restarts=(3.0, 4.0, 2.5, 1.0))


def simulation(weather: Weather = FAIR, seed: int = 0, **fields: Any) -> Simulation:
    return Simulation(
        spec(**{**STORED, **fields}), Program(steps=4, checkpoint_every=1), weather, seed=seed, settings=QUICK
    )


def job(simulation: Simulation, purpose: StoragePurpose = StoragePurpose.PRUNE) -> StorageJob:
    storage = simulation.api.experiment.status.storage
    found = storage.find_job(purpose)
    assert found is not None
    return found


def settle(simulation: Simulation) -> Simulation:
    """Runs until the experiment is over and its storage jobs are."""
    simulation.run()
    simulation.run(300.0)
    return simulation


def test_an_ended_experiment_leaves_as_many_checkpoints_as_are_to_be_kept() -> None:
    ended = settle(simulation())
    assert ended.api.experiment.status.state is ExperimentState.COMPLETE
    recorded = {c.uri for trial in ended.api.trials.values() for c in trial.status.checkpoints}
    assert set(ended.bucket) == recorded
    assert len(recorded) == 4
    assert job(ended).state is StorageJobState.DONE
    told = find_condition(ended.api.experiment.status.conditions, ConditionType.BUCKET_PRUNED)
    assert told.status == "True"
    assert ended.storage.pods == {}, "its pod is deleted once that is on record"


def test_without_a_store_there_is_nothing_to_do() -> None:
    ended = settle(simulation(checkpoints={}))
    assert ended.storage.made == []
    assert ended.api.experiment.status.storage is None


@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_weather_one_pod_after_the_other_does_it(seed: int) -> None:
    """The simulated API server holds that it is on record before, and that no two are at work."""
    ended = settle(simulation(STORMY, seed))
    assert job(ended).state is StorageJobState.DONE
    assert {c.uri for t in ended.api.trials.values() for c in t.status.checkpoints} == set(ended.bucket)
    assert ended.storage.pods == {}


def test_a_job_that_fails_is_tried_again_later_by_a_pod_of_another_name() -> None:
    failing = simulation()
    failing.storage.failures = {1: "the store does not answer"}
    settle(failing)
    assert [action.number for action in failing.storage.made] == [1, 2]
    assert (job(failing).state, job(failing).tries, job(failing).pod) == (StorageJobState.DONE, 2, 2)


def test_a_job_that_keeps_failing_is_given_up_and_that_is_told() -> None:
    failing = simulation()
    failing.storage.failures = dict.fromkeys(range(1, 9), "there is no bucket")
    settle(failing)
    assert len(failing.storage.made) == QUICK.storage_tries
    assert job(failing).state is StorageJobState.FAILED
    told = find_condition(failing.api.experiment.status.conditions, ConditionType.BUCKET_PRUNED)
    assert (told.status, told.message) == ("False", "there is no bucket")
    events = [event for event in failing.events if event.reason == "StorageWorkFailed"]
    assert [event.message for event in events] == ["Prune failed after 3 tries: there is no bucket"]
    assert events[0].warning


def test_a_pod_that_never_starts_is_given_up_after_a_while() -> None:
    stuck = simulation()
    stuck.storage.failures = {1: None}
    settle(stuck)
    assert [action.number for action in stuck.storage.made] == [1, 2]
    assert job(stuck).state is StorageJobState.DONE
    assert stuck.storage.pods == {}


@pytest.mark.parametrize(
    ("failures", "wait"),
    [({1: None}, 60.0), ({1: "no bucket", 2: "no bucket"}, 10.0), ({1: "no bucket"}, 10.0)],
    ids=["a pod that does not start", "a job that fails twice", "a job that fails once"],
)
def test_an_end_waits_for_its_pod_but_not_for_long(failures: dict[int, str | None], wait: float) -> None:
    patient = replace(QUICK, storage_start_deadline=300.0)
    slow = Simulation(spec(**STORED), Program(steps=4, checkpoint_every=1), settings=patient)
    slow.storage.failures = failures
    slow.run(until=lambda: bool(slow.storage.made))
    begun = slow.now
    slow.run(until=lambda: slow.is_over)
    assert wait / 10 < slow.now - begun < wait + 2.0
    assert job(slow).state.is_finished is (failures == {1: "no bucket"}), "the second try does it in time"
    slow.run(600.0)
    assert job(slow).state is StorageJobState.DONE


def test_no_other_pod_is_made_while_one_that_was_given_up_may_still_start() -> None:
    stuck = simulation()
    stuck.storage.failures = {1: None}
    stuck.fail(DeletePod, when=lambda action: action.name in stuck.storage.pods)
    stuck.run(2000.0)
    assert len(stuck.actions(DeletePod)) > 1
    assert [action.number for action in stuck.storage.made] == [1]
    stuck.refuse = lambda action: None
    settle(stuck)
    assert [action.number for action in stuck.storage.made] == [1, 2]
    assert job(stuck).state is StorageJobState.DONE


def test_a_pod_that_is_refused_counts_as_a_try() -> None:
    refused = simulation()
    answer = ActionResult(ActionStatus.REFUSED, "no such service account")
    refused.refuse = lambda action: answer if isinstance(action, CreateStoragePod) else None
    settle(refused)
    assert refused.storage.made == []
    assert (job(refused).state, job(refused).message) == (StorageJobState.FAILED, "no such service account")


def test_no_pod_is_deleted_while_a_request_may_make_it_once_more() -> None:
    """The answer to its creation is lost, and the second request is long on its way."""
    lost = simulation()
    lost.loses_reply = lambda action: isinstance(action, CreateStoragePod) and len(lost.actions(CreateStoragePod)) == 1
    lost.delay = lambda action: 20.0 if isinstance(action, CreateStoragePod) and lost.storage.made else 0.0
    settle(lost)
    assert len(lost.actions(CreateStoragePod)) > 1
    assert [action.number for action in lost.storage.made] == [1]
    assert job(lost).state is StorageJobState.DONE
    assert lost.storage.pods == {}


def test_a_deleted_pod_is_made_again_under_another_name() -> None:
    deleted = simulation()
    deleted.run(until=lambda: bool(deleted.storage.pods))
    pod = next(iter(deleted.storage.pods.values()))
    deleted.storage.delete(pod.name, pod.uid)
    settle(deleted)
    assert [action.number for action in deleted.storage.made] == [1, 2]
    assert job(deleted).state is StorageJobState.DONE


def test_it_is_written_down_before_the_pod_is_made() -> None:
    held = simulation()
    blocked = True

    def refuse(action: object) -> ActionResult | None:
        begins = isinstance(action, WriteExperimentStatus) and action.status.storage is not None
        return ActionResult(ActionStatus.FAILED, "busy") if begins and blocked else None

    held.refuse = refuse
    held.run(200.0)
    assert held.api.experiment.status.state is ExperimentState.RUNNING
    assert held.storage.made == []
    blocked = False
    settle(held)
    assert len(held.storage.made) == 1


def test_a_machine_made_anew_while_a_pod_works_goes_on_with_it() -> None:
    working = simulation()
    working.run(until=lambda: bool(working.storage.pods))
    working.restart()
    settle(working)
    assert [action.number for action in working.storage.made] == [1]
    assert job(working).state is StorageJobState.DONE


def test_a_job_is_called_off_where_the_experiment_goes_on() -> None:
    """What the pod was told of the trials does not hold any more: nothing runs until it is gone."""
    ended = simulation()
    ended.storage.failures = {1: None}
    ended.run(until=lambda: bool(ended.storage.pods))
    status = ended.api.experiment.status
    conditions = [replace_status(c) for c in status.conditions]
    resumed = status.model_copy(update={"conditions": conditions, "completion_time": None, "state": None})
    search = ended.api.experiment.spec.search.model_copy(update={"max_trials": 6})
    more = ended.api.experiment.spec.model_copy(update={"search": search})
    ended.api.edit_experiment(status=resumed, spec=more)
    ended.restart()
    settle(ended)
    assert len(ended.api.trials) == 6
    assert [action.number for action in ended.storage.made] == [1, 2]
    assert job(ended).state is StorageJobState.DONE
    assert len(ended.bucket) == 6


def replace_status(condition: Any) -> Any:
    over = condition.type in ("Complete", "SuccessCriteriaMet")
    return condition.model_copy(update={"status": "False"}) if over else condition


def test_old_news_of_a_pod_changes_nothing() -> None:
    ended = settle(simulation())
    before = ended.machine.decide(ended.now)
    for made in ended.storage.made:
        old = ended.api.experiment
        ended.machine.observe_experiment(replace(old, version=made.number))
    assert ended.machine.decide(ended.now) == before


@pytest.mark.parametrize("seed", range(24))
def test_a_machine_made_anew_agrees(seed: int) -> None:
    """Wherever the operator has come to rest, one of the same objects plans the same, and no second pod."""
    weather = replace(STORMY, restarts=(), fails=0.0, loses_reply=0.0)  # nothing waits for its next try
    checkpoints = {"store": STORE, "keep": {"count": 1}, "export": {}, "deletionPolicy": "Delete"}
    running = simulation(weather, seed, checkpoints=checkpoints)
    running.storage.failures = {1: "not yet"}
    running.run(6.0 + seed)
    if seed % 3 == 0:
        running.api.edit_experiment(deleting=True)
        running.wake()
        running.run(3.0 + seed / 3)
    running.frozen = True
    running.run(3.0)
    running.run(until=lambda: not running._in_flight and not running._pending)
    assert running.machine is not None
    later = running.now + 1e-6
    made_anew = running.rebuilt().decide(later).actions
    repeated = [action for action in made_anew if isinstance(action, CreateStoragePod)]
    for action in repeated:
        assert f"e-storage-{action.number}" in running.storage.pods, "it only makes sure that nothing is missing"
    rest = [action for action in made_anew if not isinstance(action, EmitEvent | Propose | CreateStoragePod)]
    asked = [action for action in running.machine.decide(later).actions if not isinstance(action, EmitEvent | Propose)]
    assert rest == asked
