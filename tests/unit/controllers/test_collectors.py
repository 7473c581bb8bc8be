"""What the leader tells Prometheus of experiments, trials and its backlog."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from podtune.controllers.collectors import BacklogCollector, StoreCollector
from podtune.controllers.store.store import Store
from podtune.runner.settings import RunnerSettings
from tests.unit.cluster.objects import experiment_body, trial_body

SINCE = {"lastTransitionTime": "2026-01-01T00:00:00Z"}


def list_series(store: Store) -> set[str]:
    """The lines that are served, without what is said of them."""
    registry = CollectorRegistry()
    registry.register(StoreCollector(store))
    return {line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")}


def make_store(status: dict[str, Any], *trials: dict[str, Any]) -> Store:
    store = Store(RunnerSettings(), lambda uid: None)
    store.observe_experiment(experiment_body() | {"status": status})
    for trial in trials:
        store.observe_trial(trial)
    return store


def list_of(store: Store, name: str) -> set[str]:
    return {line for line in list_series(store) if line.startswith(f"{name}{{")}


def test_experiments_are_counted_by_namespace_and_state() -> None:
    store = make_store({"state": "Running"})
    store.observe_experiment(experiment_body("other", "e-2", 11) | {"status": {"state": "Running"}})
    store.observe_experiment(experiment_body("new", "e-3", 12))
    assert list_of(store, "podtune_experiments") == {
        'podtune_experiments{namespace="team",state="Running"} 2.0',
        'podtune_experiments{namespace="team",state="Created"} 1.0',
    }


def test_a_condition_that_tells_of_a_problem_has_a_series_and_the_others_have_none() -> None:
    conditions = [
        {"type": "Ready", "status": "False", "reason": "PodsRefused"},
        {"type": "Complete", "status": "False", "reason": "InProgress"},
        {"type": "Stalled", "status": "True", "reason": "PodsRefused"},
        {"type": "Exported", "status": "False", "reason": "StorageWorkFailed"},
    ]
    store = make_store({"conditions": [condition | SINCE for condition in conditions]})
    labels = 'experiment="digits",namespace="team"'
    assert list_of(store, "podtune_experiment_problems") == {
        f'podtune_experiment_problems{{condition="Stalled",{labels},reason="PodsRefused"}} 1.0',
        f'podtune_experiment_problems{{condition="Exported",{labels},reason="StorageWorkFailed"}} 1.0',
    }


def test_an_experiment_that_has_failed_is_no_problem_any_more_but_its_bucket_may_be() -> None:
    conditions = [
        {"type": "Stalled", "status": "True", "reason": "AllTrialsFailed"},
        {"type": "BucketPruned", "status": "False", "reason": "StorageWorkFailed"},
    ]
    store = make_store({"state": "Failed", "conditions": [condition | SINCE for condition in conditions]})
    [series] = list_of(store, "podtune_experiment_problems")
    assert 'condition="BucketPruned"' in series


def test_running_trials_that_cannot_store_are_counted() -> None:
    lost = {"type": "CheckpointsStored", "status": "False", "reason": "StoreUnreachable"} | SINCE
    store = make_store(
        {},
        trial_body(0, "t-0", state="RUNNING", conditions=[lost]),
        trial_body(1, "t-1", state="RUNNING", conditions=[lost | {"status": "True"}]),
        trial_body(2, "t-2", state="ERROR", conditions=[lost]),
        trial_body(3, "t-3", state="RUNNING"),
    )
    assert list_of(store, "podtune_trials_not_storing") == {
        'podtune_trials_not_storing{experiment="digits",namespace="team"} 1.0'
    }
    assert not list_of(make_store({}), "podtune_trials_not_storing")


def test_jobs_in_the_bucket_have_a_series_until_they_are_done() -> None:
    job = {"trigger": "1", "pod": 1, "tries": 3, "startTime": SINCE["lastTransitionTime"]}
    jobs = [
        job | {"purpose": "Snapshot", "state": "Waiting"},
        job | {"purpose": "Export", "state": "Done", "completionTime": SINCE["lastTransitionTime"]},
    ]
    store = make_store({"storage": {"jobs": jobs}})
    assert list_of(store, "podtune_storage_jobs") == {
        'podtune_storage_jobs{experiment="digits",namespace="team",purpose="Snapshot",state="Waiting"} 1.0'
    }


def test_the_backlog_is_what_waits_when_it_is_asked_for() -> None:
    registry = CollectorRegistry()
    registry.register(BacklogCollector(lambda: 3, lambda: {"requests": 40}, lambda: 2.5))
    assert registry.get_sample_value("podtune_experiments_due") == 3
    assert registry.get_sample_value("podtune_actions_waiting", {"pool": "requests"}) == 40
    assert registry.get_sample_value("podtune_watch_lag_seconds") == 2.5
