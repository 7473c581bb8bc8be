"""What is stored of an experiment itself: by agents while trials run, by storage pods where there is no agent."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from podtune.api.names import DesiredState, TrialState
from podtune.api.resources.trial import TrialStatus
from podtune.api.validation import parse_experiment
from podtune.protocol.messages import Reply, Report
from podtune.protocol.snapshot import WARM_START, SnapshotRecord, StoredVersions
from podtune.protocol.storage_job import StoragePurpose
from podtune.runner.actions import ActionResult, ActionStatus, CreateStoragePod
from podtune.runner.backoff import Backoff
from podtune.runner.checkpoints import snapshots
from podtune.runner.search import warm_start
from podtune.runner.search.added_trials import complete_spec
from podtune.runner.settings import RunnerSettings
from podtune.tuning.searchers.base import Observation
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import FAIR, STORE, Simulation, Weather, spec

QUICK = RunnerSettings(storage_backoff=Backoff(2.0, 8.0), storage_start_deadline=5.0, storage_tries=3)
STORED: dict[str, Any] = {"checkpoints": {"store": STORE}, "snapshot": {"period": "20s"}}
STORMY = Weather(latency=0.3, watch_delay=1.0, fails=0.2, loses_reply=0.2, repeats=0.2, restarts=(3.0, 4.0, 2.5, 1.0))


def simulation(weather: Weather = FAIR, seed: int = 0, steps: int = 4, **fields: Any) -> Simulation:
    return Simulation(
        spec(**{**STORED, **fields}), Program(steps=steps, checkpoint_every=1), weather, seed=seed, settings=QUICK
    )


def settle(simulation: Simulation) -> Simulation:
    """Runs until the experiment is over and its storage jobs are."""
    simulation.run()
    simulation.run(300.0)
    return simulation


def jobs(simulation: Simulation) -> list[CreateStoragePod]:
    return [job for job in simulation.storage.made if job.purpose is StoragePurpose.SNAPSHOT]


def list_newest(simulation: Simulation) -> dict[str, SnapshotRecord]:
    """By name of the Trial, what storage pods have stored last."""
    newest: dict[str, SnapshotRecord] = {}
    for record in (trial.record for job in simulation.storage.made for trial in job.trials):
        if record is not None and (record.trial not in newest or newest[record.trial].version < record.version):
            newest[record.trial] = record
    return newest


def assert_all_stored(simulation: Simulation) -> None:
    newest = list_newest(simulation)
    assert newest.keys() == {"", *simulation.api.trials}
    for name, trial in simulation.api.trials.items():
        body = json.loads(newest[name].body)
        assert TrialStatus.model_validate(body["status"]) == trial.status, name
        assert newest[name].version == trial.version


def ask(simulation: Simulation, trial: str, stored: StoredVersions | None = StoredVersions()) -> list[SnapshotRecord]:  # noqa: B008
    """What the agent of a running trial is given."""
    assert simulation.machine is not None
    pod = simulation.machine.find_pod(trial, 0)
    assert pod is not None
    reply = simulation.machine.report(trial, pod.name, Report(pod.uid, stored=stored), simulation.now)
    assert isinstance(reply, Reply)
    return list(reply.records)


def until_running(simulation: Simulation, count: int) -> Simulation:
    def runs() -> bool:
        states = [trial.status.state for trial in simulation.api.trials.values()]
        return states.count(TrialState.RUNNING) == count

    return simulation.run(until=runs).run(2.0)  # until the operator has heard of it


def test_an_ended_experiment_is_stored_whole() -> None:
    ended = settle(simulation())
    assert_all_stored(ended)
    assert [job.purpose for job in ended.storage.made] == [StoragePurpose.PRUNE], "one pod does all that is left"
    assert ended.storage.pods == {}


def test_it_can_be_switched_off() -> None:
    ended = settle(simulation(snapshot={"period": "0s"}))
    assert list_newest(ended) == {}


@pytest.mark.parametrize("seed", range(6))
def test_an_experiment_that_says_that_it_is_over_is_stored_whole_already(seed: int) -> None:
    """Whoever waits for the end may throw everything else away."""
    ended = simulation(STORMY, seed)
    ended.run(until=lambda: ended.is_over)
    assert_all_stored(ended)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_weather_nothing_is_left_out(seed: int) -> None:
    assert_all_stored(settle(simulation(STORMY, seed)))


@pytest.mark.parametrize("moment", [3.0, 8.0, 21.0, 23.0, 41.0])
@pytest.mark.parametrize("seed", range(2))
def test_a_machine_made_anew_stores_no_more_and_no_less(moment: float, seed: int) -> None:
    running = simulation(STORMY, seed, steps=12)
    running.run(moment)
    assert_made_anew_agrees(running)


def test_trials_without_a_pod_are_stored_once_a_period() -> None:
    running = simulation(steps=200, search={"algorithm": "random", "maxTrials": 2, "seed": 7})
    until_running(running, 2)
    running.api.edit_trial("e-1", desired_state=DesiredState.PAUSED)
    running.run(until=lambda: running.api.trials["e-1"].status.state is TrialState.PAUSED)
    running.run(30.0)
    newest = list_newest(running)
    assert newest["e-1"].version == running.api.trials["e-1"].version
    assert "e-0" not in newest, "its agent stores it"
    before = len(jobs(running))
    running.run(100.0)
    assert len(jobs(running)) == before, "nothing has changed that no agent stores"


def suspended(**fields: Any) -> Simulation:
    """An experiment of two trials, both stored and paused since somebody has suspended it."""
    search = {"algorithm": "random", "maxTrials": 2, "seed": 7}
    running = until_running(simulation(**{"steps": 200, "search": search, **fields}), 2)
    running.edit_spec(suspend=True)
    return running.run(200.0)


def find_stored_parallelism(simulation: Simulation) -> int:
    """The edit that the store has."""
    served = parse_experiment(json.loads(list_newest(simulation)[""].body))
    return served.max_concurrent_trials


def test_an_edit_is_stored_once_while_no_trial_runs() -> None:
    idle = suspended()
    before = len(jobs(idle))
    for number, limit in enumerate((7, 9), start=1):
        idle.edit_spec(max_concurrent_trials=limit)
        idle.run(500.0)
        assert find_stored_parallelism(idle) == limit
        assert len(jobs(idle)) == before + number
    assert [trial.trial for trial in jobs(idle)[-1].trials] == ["e"], "the trials are stored already"


def test_edits_are_stored_once_a_period_at_most() -> None:
    idle = suspended()
    before = len(jobs(idle))
    for limit in range(3, 13):
        idle.edit_spec(max_concurrent_trials=limit)
        idle.run(2.0)
    idle.run(300.0)
    assert find_stored_parallelism(idle) == 12
    assert len(jobs(idle)) - before <= 3, "edits went on for a period"


def test_an_edit_is_stored_by_an_agent_while_a_trial_runs() -> None:
    running = until_running(simulation(steps=500, search={"algorithm": "random", "maxTrials": 2, "seed": 7}), 2)
    own, experiment = ask(running, "e-0")
    running.edit_spec(max_concurrent_trials=9)
    running.run(200.0)
    assert jobs(running) == [], "no storage pod is needed"
    records = {record.trial: record for record in ask(running, "e-0", StoredVersions(own.version, experiment.version))}
    assert parse_experiment(json.loads(records[""].body)).max_concurrent_trials == 9


def test_an_operator_that_restarts_stores_an_edit_once() -> None:
    idle = suspended()
    before = len(jobs(idle))
    idle.restart()
    idle.run(200.0)
    assert len(jobs(idle)) == before, "nothing was edited"
    idle.edit_spec(max_concurrent_trials=9)
    idle.restart()
    idle.run(200.0)
    idle.restart()
    idle.run(200.0)
    assert len(jobs(idle)) == before + 1
    assert find_stored_parallelism(idle) == 9


def test_an_edit_whose_job_is_given_up_waits_for_the_next_one() -> None:
    idle = suspended()
    made = idle.api.experiment.status.storage
    assert made is not None
    idle.storage.failures = dict.fromkeys(range(made.pods + 1, made.pods + 4), "AccessDenied")
    idle.edit_spec(max_concurrent_trials=7)
    before = len(jobs(idle))
    idle.run(500.0)
    assert len(jobs(idle)) == before + 3, "it is given up"
    idle.edit_spec(max_concurrent_trials=9)
    idle.run(500.0)
    assert len(jobs(idle)) == before + 4
    assert find_stored_parallelism(idle) == 9


def test_an_experiment_that_has_not_begun_is_not_stored() -> None:
    waiting = simulation(suspend=True)
    waiting.run(100.0)
    waiting.edit_spec(max_concurrent_trials=9)
    waiting.run(500.0)
    assert jobs(waiting) == []
    assert waiting.is_quiet


def test_they_are_stored_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "TRIALS_A_JOB", 3)
    ended = settle(simulation(search={"algorithm": "random", "maxTrials": 10, "seed": 7}, snapshot={"period": "1h"}))
    assert_all_stored(ended)
    records = [[trial.record for trial in job.trials if trial.record is not None] for job in ended.storage.made]
    assert all(len(stored) <= 2 * 3 + 1 for stored in records)
    assert [job.purpose for job in ended.storage.made] == [*3 * ["Snapshot"], "Prune"]


def test_what_a_job_that_was_given_up_left_goes_with_the_next_one() -> None:
    running = simulation(steps=200, search={"algorithm": "random", "maxTrials": 2, "seed": 7})
    running.storage.failures = dict.fromkeys(range(1, 4), "AccessDenied")
    until_running(running, 2)
    running.api.edit_trial("e-1", desired_state=DesiredState.PAUSED)
    running.run(150.0)
    assert len(jobs(running)) == 3, "it waits for something new"
    running.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    running.run(100.0)
    assert {trial.trial for trial in jobs(running)[-1].trials} == {"e-0", "e-1", "e"}
    assert list_newest(running)["e-0"].version == running.api.trials["e-0"].version


def test_an_agent_is_given_its_own_trial_and_the_lowest_one_the_experiment() -> None:
    running = until_running(simulation(steps=50), 2)
    assert [record.trial for record in ask(running, "e-0")] == ["e-0", ""]
    assert [record.trial for record in ask(running, "e-1")] == ["e-1"]
    running.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    running.run(until=lambda: running.api.trials["e-0"].status.state is TrialState.PAUSED).run(2.0)
    assert [record.trial for record in ask(running, "e-1")] == ["e-1", ""]


def test_what_an_agent_has_stored_it_is_not_given_again() -> None:
    running = until_running(simulation(steps=50), 2)
    own, experiment = ask(running, "e-0")
    assert ask(running, "e-0", StoredVersions(own.version, experiment.version)) == []
    assert ask(running, "e-0", None) == [], "it does not ask"


def test_the_record_of_a_trial_that_a_person_has_added_is_what_that_person_may_write() -> None:
    """The API server refuses an index, a seed or fixed values of such a Trial, and with it the whole restore."""
    parameters = [
        {"name": "learning_rate", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
        {"name": "depth", "fixed": {"value": 3}},
        {"name": "double", "expression": "learning_rate * 2"},
    ]
    template = {
        "displayName": "lr $(PODTUNE_PARAM_learning_rate)",
        "spec": {"containers": [{"name": "a", "image": "x"}]},
    }
    running = until_running(simulation(steps=50, parameters=parameters, trialTemplate=template), 2)
    running.api.add_trial("e-100000", parameters={"learning_rate": "0.01"})
    running.run(until=lambda: running.api.trials["e-100000"].status.state is TrialState.RUNNING)
    added = next(action for action in running.created_pods() if action.trial == "e-100000").spec
    assert (added.seed is not None, added.display_name, added.parameters["double"]) == (True, "lr 0.01", "0.02")
    own = json.loads(next(record.body for record in ask(running, "e-100000") if record.trial))
    assert own["spec"] == {"experiment": "e", "parameters": {"learning_rate": "0.01"}}
    served = running.api.experiment.spec
    assert served is not None
    assert complete_spec(running.api.trials["e-100000"].spec, served) == added, "it goes on with the same"


def test_a_record_is_what_the_api_server_has() -> None:
    running = until_running(simulation(steps=50), 2)
    own, experiment = (json.loads(record.body) for record in ask(running, "e-0"))
    assert own["metadata"] == {"namespace": "ns", "name": "e-0", "uid": running.api.trials["e-0"].uid, "generation": 1}
    assert TrialStatus.model_validate(own["status"]) == running.api.trials["e-0"].status
    assert replace(running.api.experiment, spec=parse_experiment(experiment)) == running.api.experiment


# What an earlier experiment has found

PRIOR = tuple(Observation(n - 20, {"learning_rate": 0.0005 * (n + 1)}, value=1 - n / 20, step=3) for n in range(20))


def informed(trials: int, **fields: Any) -> Simulation:
    """An experiment that learns from an earlier one, which has ended."""
    search = {"algorithm": "tpe", "maxTrials": trials, "seed": 7, "warmStart": {"experiment": "old"}}
    made = simulation(search=search, **fields)
    made.earlier = ActionResult(ActionStatus.DONE, prior_observations=PRIOR)
    return made


def test_an_agent_that_finds_no_warm_start_in_the_store_is_given_it() -> None:
    running = until_running(informed(4, steps=50), 2)
    own, experiment = ask(running, "e-0")
    assert experiment.has_warm_start
    assert ask(running, "e-0", StoredVersions(own.version, experiment.version)) == [], "it is large"
    (record,) = ask(running, "e-0", StoredVersions(own.version, experiment.version, lacks_warm_start=True))
    data = json.loads(record.body)["data"]
    assert (record.trial, data["experiment"]) == (WARM_START, "old")
    served = running.api.experiment.spec
    assert served is not None
    assert warm_start.read(served, data[warm_start.RESULTS_KEY]) == PRIOR


def test_an_experiment_that_learnt_from_none_has_no_warm_start() -> None:
    running = until_running(simulation(steps=50), 2)
    assert [record.has_warm_start for record in ask(running, "e-0")] == [False, False]
    assert ask(running, "e-0", StoredVersions(lacks_warm_start=True)) == []


def test_of_storage_pods_the_first_and_the_last_store_the_warm_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "TRIALS_A_JOB", 3)
    ended = settle(informed(10, snapshot={"period": "1h"}))
    stored = [[trial.record.trial for trial in job.trials if trial.record is not None] for job in ended.storage.made]
    assert [WARM_START in records for records in stored] == [True, False, False, True]
