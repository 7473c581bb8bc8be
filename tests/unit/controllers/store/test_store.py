"""What is known does not depend on the way by which it was heard of, nor on the order."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from podtune.api.names import TrialState
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import TrialStatus
from podtune.controllers.store.store import Store
from podtune.runner.actions import AdoptTrial, CreateTrial, WriteMetadata
from podtune.runner.experiment_machine import ExperimentMachine
from podtune.runner.records import Pod
from podtune.runner.settings import RunnerSettings
from tests.unit.cluster.objects import experiment_body, pod_body, trial_body

Manifest = dict[str, Any]
RUNNING: Manifest = {
    "phase": "Running",
    "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": "2024-05-01T12:00:00Z"}}}],
}


WRITTEN = TrialStatus(state=TrialState.RUNNING)


class Known:
    """A store, and whom it has called."""

    def __init__(self, *, synced: bool = True) -> None:
        self.changed: list[str] = []
        self.store = Store(RunnerSettings(), self.changed.append)
        if synced:
            self.store.mark_synced()

    def machine(self, uid: str = "e-1") -> ExperimentMachine:
        entry = self.store.find_entry(uid)
        assert entry.machine is not None
        return entry.machine

    def pods(self, uid: str = "e-1") -> list[tuple[str, str]]:
        """Trial and UID of all pods that the machine knows."""
        machines = self.machine(uid)._trials.values()
        return sorted((pod.trial, pod.uid) for trial in machines for pod in trial.pods)

    def trials(self, uid: str = "e-1") -> list[str]:
        return sorted(trial.uid for trial in self.machine(uid)._trials.values())


@pytest.fixture
def known() -> Known:
    return Known()


def gone(body: Manifest, version: int = 99) -> Manifest:
    """The body that a deletion comes with."""
    return body | {"metadata": body["metadata"] | {"resourceVersion": str(version)}}


def test_all_machines_are_of_one_crowd(known: Known) -> None:
    known.store.observe_experiment(experiment_body())
    known.store.observe_experiment(experiment_body("letters", "e-2"))
    assert known.machine("e-1")._lasting.throttle is known.machine("e-2")._lasting.throttle


def test_there_are_no_machines_before_everything_has_been_seen() -> None:
    known = Known(synced=False)
    known.store.observe_experiment(experiment_body())
    entry = known.store.find_entry("e-1")
    assert entry.machine is None
    known.changed.clear()
    known.store.mark_synced()
    assert known.changed == ["e-1"]
    assert known.machine()


def test_a_pod_that_comes_before_its_trial_is_kept_for_it(known: Known) -> None:
    known.store.observe_experiment(experiment_body())
    known.machine()
    known.store.observe_pod(pod_body())
    assert known.pods() == []
    known.store.observe_trial(trial_body())
    assert known.pods() == [("digits-0", "p-1")]


def test_a_machine_is_made_of_all_that_came_before_it() -> None:
    known = Known(synced=False)
    known.store.observe_experiment(experiment_body())
    known.store.observe_pod(pod_body())
    known.store.observe_trial(trial_body())
    known.store.mark_synced()
    assert known.pods() == [("digits-0", "p-1")]


def test_a_pod_of_a_namesake_is_not_taken_for_our_own(known: Known) -> None:
    """An Experiment is deleted and made again; its pods still take their grace period."""
    known.store.observe_experiment(experiment_body(uid="e-0"))
    known.store.observe_trial(trial_body(uid="t-0", owner="e-0"))
    known.store.observe_pod(pod_body(uid="p-0", owner="t-0"))
    known.store.observe_experiment_deletion(gone(experiment_body(uid="e-0")))
    known.store.observe_experiment(experiment_body(uid="e-1", version=50))
    known.store.observe_trial(trial_body(uid="t-1", version=51))
    known.store.observe_pod(pod_body(uid="p-0", owner="t-0", version=60, status=RUNNING))
    assert known.pods() == []
    known.store.observe_pod(pod_body(uid="p-1", version=61))
    assert known.pods() == [("digits-0", "p-1")]


def test_a_pod_of_a_trial_that_was_deleted_and_made_again_is_not_taken_for_the_new_ones(known: Known) -> None:
    known.store.observe_experiment(experiment_body())
    known.store.observe_trial(trial_body(uid="t-0"))
    known.store.observe_pod(pod_body(uid="p-0", owner="t-0", status=RUNNING))
    known.store.observe_trial_deletion(gone(trial_body(uid="t-0")))
    known.store.observe_trial(trial_body(uid="t-1", version=50))
    known.store.observe_pod(pod_body(uid="p-0", owner="t-0", version=60))
    assert known.pods() == []
    assert known.trials() == ["t-1"]


def test_a_trial_made_again_may_be_seen_before_the_old_ones_deletion(known: Known) -> None:
    known.store.observe_experiment(experiment_body())
    known.machine()
    known.store.observe_trial(trial_body(uid="t-0"))
    known.store.observe_trial(trial_body(uid="t-1", version=50))
    known.store.observe_trial(trial_body(uid="t-0", version=21))  # a late answer
    known.store.observe_trial_deletion(gone(trial_body(uid="t-0")))
    known.machine().decide(0.0)
    assert known.trials() == ["t-1"]


@pytest.mark.parametrize("late", ["answer", "list"])
def test_late_news_of_what_is_gone_does_not_bring_it_back(known: Known, late: str) -> None:
    store = known.store
    store.observe_experiment(experiment_body())
    store.observe_trial(trial_body())
    store.observe_pod(pod_body())
    store.observe_pod_deletion(gone(pod_body()))
    store.observe_pod(pod_body(version=40))
    assert known.pods() == []
    store.observe_trial_deletion(gone(trial_body()))
    store.observe_trial(trial_body(version=41))
    assert known.trials() == []
    store.observe_experiment_deletion(gone(experiment_body()))
    store.observe_experiment(experiment_body(version=42))
    assert store.find_entry("e-1") is None
    assert store.list_uids() == set()


def test_what_an_ended_pod_left_behind_is_taken_in_although_it_was_never_seen_before(known: Known) -> None:
    known.store.observe_experiment(experiment_body())
    known.store.observe_trial(trial_body())
    ended: Manifest = {"terminated": {"exitCode": 3, "startedAt": "2024-05-01T12:00:00Z"}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": ended}]}
    known.machine()
    known.store.observe_pod_deletion(pod_body(status=status))
    plan = known.machine().decide(1000.0)
    (write,) = [action for action in plan.actions if type(action).__name__ == "WriteTrialStatus"]
    assert write.status.last_attempt.exit_code == 3


def test_nothing_is_left_of_an_experiment_that_is_gone(known: Known) -> None:
    store = known.store
    store.observe_experiment(experiment_body())
    for index in range(5):
        store.observe_trial(trial_body(index, uid=f"t-{index}"))
        store.observe_pod(pod_body(f"digits-{index}", uid=f"p-{index}", owner=f"t-{index}"))
    store.observe_experiment_deletion(gone(experiment_body()))
    for index in range(5):
        store.observe_trial_deletion(gone(trial_body(index, uid=f"t-{index}")))
        store.observe_pod_deletion(gone(pod_body(f"digits-{index}", uid=f"p-{index}", owner=f"t-{index}")))
    assert store.list_uids() == set()
    assert (store._pods, store._trials, store._by_name) == ({}, {}, {})


def test_an_experiment_that_was_made_again_is_found_by_name_when_the_old_one_goes(known: Known) -> None:
    known.store.observe_experiment(experiment_body(uid="e-0"))
    known.store.observe_experiment(experiment_body(uid="e-1", version=50))
    known.store.observe_trial(trial_body())
    known.store.observe_experiment_deletion(gone(experiment_body(uid="e-0")))
    entry = known.store.find_entry_of_trial("team", "digits-0")
    assert entry.experiment.uid == "e-1"


def test_what_is_known_of_an_experiment_goes_with_it_without_a_collection(known: Known) -> None:
    known.store.observe_experiment(experiment_body())
    known.store.observe_trial(trial_body())
    known.store.observe_pod(pod_body(status=RUNNING))
    assert known.machine().decide(1e9).actions
    held: list[weakref.ref[Any]] = [
        weakref.ref(known.machine()._trials["digits-0"]),
        weakref.ref(known.machine()._planner._processor),
    ]
    gc.disable()
    try:
        known.store.observe_experiment_deletion(gone(experiment_body()))
        assert [reference() for reference in held] == [None, None]
    finally:
        gc.enable()


def test_an_echo_of_our_own_write_costs_nothing(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = experiment_body(), trial_body(), pod_body()
    known.store.observe_experiment(bodies[0])
    known.store.observe_trial(bodies[1])
    known.store.observe_pod(bodies[2])
    known.changed.clear()
    for name in ("decode_experiment", "decode_trial", "decode_pod"):
        monkeypatch.setattr(f"podtune.cluster.decoders.{name}", lambda *_, **__: pytest.fail("was read again"))
    known.store.observe_experiment(bodies[0])
    known.store.observe_trial(bodies[1])
    known.store.observe_pod(bodies[2])
    assert known.changed == []


def test_a_status_that_was_written_is_known_without_reading_the_object_again(known: Known) -> None:
    known.store.observe_experiment(experiment_body())
    known.store.observe_trial(trial_body())
    known.machine()
    known.store.observe_trial_status(trial_body(version=22)["metadata"], WRITTEN)
    known.store.observe_experiment_status(
        experiment_body(version=12)["metadata"], ExperimentStatus(message="1 of 3 done")
    )
    (trial,) = known.machine()._trials.values()
    assert (trial.seen.version, trial.saved) == (22, WRITTEN)
    entry = known.store.find_entry("e-1")
    assert (entry.experiment.version, entry.experiment.status.message) == (12, "1 of 3 done")


@pytest.mark.parametrize(
    "metadata",
    [{"resourceVersion": "19"}, {"generation": 2}, {"deletionTimestamp": "2024-05-01T12:00:00Z"}, {"uid": "t-9"}],
    ids=["older", "another spec", "being deleted", "another Trial"],
)
def test_a_status_is_only_put_on_what_is_known(known: Known, metadata: Manifest) -> None:
    """Whatever else has changed of the object, the watch tells of it."""
    known.store.observe_experiment(experiment_body())
    known.store.observe_trial(trial_body())
    known.store.observe_trial_status(trial_body(version=22)["metadata"] | metadata, WRITTEN)
    (trial,) = known.machine()._trials.values()
    assert (trial.seen.version, trial.saved) == (20, TrialStatus())


# What can't be read


def test_a_spec_that_can_not_be_used_is_a_problem_and_has_no_machine(known: Known) -> None:
    known.store.observe_experiment(experiment_body(parameters=[]))
    entry = known.store.find_entry("e-1")
    assert entry.machine is None
    assert "spec.parameters" in entry.experiment.problem


def test_a_spec_that_is_spoilt_later_leaves_the_one_before_in_force(known: Known) -> None:
    known.store.observe_experiment(experiment_body())
    before = known.machine().spec
    spoilt = experiment_body(version=11, maxConcurrentTrials=0)
    spoilt["metadata"]["generation"] = 2
    known.store.observe_experiment(spoilt)
    entry = known.store.find_entry("e-1")
    assert entry.experiment.problem
    assert entry.served.spec is before


def _no_labels(body: Manifest) -> None:
    body["metadata"]["labels"] = {"podtune.dev/attempt": "first"}


def _no_index(body: Manifest) -> None:
    del body["spec"]["index"]


def _no_phase(body: Manifest) -> None:
    body["status"] = {"phase": "Sleeping"}


@pytest.mark.parametrize("spoil", [_no_labels, _no_phase])
def test_a_malformed_pod_is_told_of_once_and_harms_nothing(known: Known, spoil: Callable[[Manifest], None]) -> None:
    known.store.observe_experiment(experiment_body())
    known.store.observe_trial(trial_body())
    with capture_logs() as logs:
        for version in range(40, 45):
            body = pod_body(version=version)
            spoil(body)
            known.store.observe_pod(body)
        known.store.observe_pod_deletion(gone(body))
    assert [entry["event"] for entry in logs] == ["object passed over"]
    assert "team/digits-0-1" in logs[0]["message"]
    assert known.pods() == []


def test_a_malformed_trial_is_told_of_once_and_harms_nothing(known: Known) -> None:
    known.store.observe_experiment(experiment_body())
    known.store.observe_trial(trial_body(1, uid="t-2"))
    with capture_logs() as logs:
        for version in range(40, 45):
            body = trial_body(version=version)
            _no_index(body)
            known.store.observe_trial(body)
    assert len(logs) == 1
    assert known.trials() == ["t-2"]


def fail(pod: Pod) -> None:
    raise ZeroDivisionError(pod.name)


def test_a_machine_that_fails_on_a_fact_is_made_anew_of_all_facts(known: Known) -> None:
    known.store.observe_experiment(experiment_body())
    known.store.observe_trial(trial_body())
    first = known.machine()
    first.observe_pod = fail
    with capture_logs() as logs:
        known.store.observe_pod(pod_body())
    assert "rebuilt" in logs[0]["event"]
    assert known.machine() is not first
    assert known.pods() == [("digits-0", "p-1")]


# Any order


EVENTS: dict[str, Callable[[Store], None]] = {
    "experiment": lambda store: store.observe_experiment(experiment_body()),
    "experiment later": lambda store: store.observe_experiment(experiment_body(version=12)),
    "trial": lambda store: store.observe_trial(trial_body()),
    "trial later": lambda store: store.observe_trial(trial_body(version=22, state="RUNNING")),
    "trial's status written": lambda store: store.observe_trial_status(trial_body(version=22)["metadata"], WRITTEN),
    "pod": lambda store: store.observe_pod(pod_body()),
    "pod later": lambda store: store.observe_pod(pod_body(version=32, status=RUNNING)),
    "namesake's pod": lambda store: store.observe_pod(pod_body(uid="p-0", owner="t-0")),
    "namesake's trial": lambda store: store.observe_trial(trial_body(uid="t-0", owner="e-0")),
}


@settings(deadline=None, max_examples=100)
@given(st.permutations(sorted(EVENTS)), st.lists(st.sampled_from(sorted(EVENTS)), max_size=6))
def test_facts_in_any_order_and_number_lead_to_the_same_knowledge(order: list[str], again: list[str]) -> None:
    known = Known()
    known.store.observe_experiment(experiment_body(version=5))  # Trials of an Experiment come after it
    for name in itertools.chain(order, again):
        EVENTS[name](known.store)
    machine = known.machine()
    assert known.pods() == [("digits-0", "p-1")]
    (trial,) = machine._trials.values()
    assert trial.seen.version == 22
    assert trial.saved == WRITTEN
    assert (trial.pod.version, trial.pod.training) == (32, True)


@settings(deadline=None, max_examples=100)
@given(st.permutations(["trial", "trial later", "pod", "pod later", "pod gone", "trial gone"]))
def test_in_any_order_what_is_gone_is_gone(order: list[str]) -> None:
    known = Known()
    known.store.observe_experiment(experiment_body())
    known.machine()
    events = EVENTS | {
        "pod gone": lambda store: store.observe_pod_deletion(gone(pod_body())),
        "trial gone": lambda store: store.observe_trial_deletion(gone(trial_body())),
    }
    for name in order:
        events[name](known.store)
    assert known.trials() == []
    assert known.store.list_uids() == {"e-1"}


def imported(version: int, **annotations: str) -> Manifest:
    body = experiment_body(version=version)
    body["metadata"]["annotations"] = {f"podtune.dev/{name}": value for name, value in annotations.items()}
    return body


def test_an_experiment_that_is_being_imported_is_let_be_until_all_its_trials_are_here(known: Known) -> None:
    """Each Trial comes by another watch than the Experiment, and first without what it has recorded."""

    def has_machine() -> bool:
        entry = known.store.find_entry("e-1")
        return entry.machine is not None

    known.store.observe_experiment(imported(10, importing="e-0"))
    known.store.observe_trial(trial_body(0, "t-0", 11))
    known.store.observe_trial(trial_body(0, "t-0", 12, state="PAUSED"))
    assert not has_machine()
    known.store.observe_experiment(imported(15, imported="2"))
    assert not has_machine()
    known.store.observe_trial(trial_body(1, "t-1", 13))
    assert not has_machine(), "its status is still to come"
    known.store.observe_trial(trial_body(1, "t-1", 14, state="TERMINATED"))
    assert has_machine()
    actions = known.machine().decide(0.0).actions
    acknowledged = [action for action in actions if isinstance(action, WriteMetadata)]
    assert [action.without for action in acknowledged] == [("podtune.dev/imported",)]
    assert not [action for action in actions if isinstance(action, CreateTrial) and action.name == "digits-0"]


REUSE: Manifest = {"trialTemplate": {"reuse": True, "spec": {"containers": [{"name": "main", "image": "i"}]}}}


def warm_pod(**fields: Any) -> Manifest:
    body = pod_body(**fields)
    body["metadata"] |= {
        "labels": {"podtune.dev/experiment": "digits", "podtune.dev/made-for": "digits-0", "podtune.dev/attempt": "1"},
        "annotations": {"podtune.dev/made-for-uid": "t-1", "podtune.dev/template-hash": "a1"},
        "ownerReferences": [{"kind": "Experiment", "name": "digits", "uid": "e-1", "controller": True}],
    }
    return body


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_warm_pod_is_the_experiments_in_whatever_order_things_are_seen(order: tuple[int, ...]) -> None:
    known = Known(synced=False)
    see = [
        lambda: known.store.observe_experiment(experiment_body(**REUSE)),
        lambda: known.store.observe_trial(trial_body()),
        lambda: known.store.observe_pod(warm_pod(status=RUNNING)),
    ]
    for place in order if order.index(0) < order.index(1) else (0, *(o for o in order if o)):
        see[place]()
    known.store.mark_synced()
    assert known.pods() == [("digits-0", "p-1/0.1")]
    known.store.observe_pod_deletion(warm_pod(status=RUNNING, version=31))
    (pod,) = known.machine()._trials["digits-0"].pods
    assert pod.gone


def test_a_trial_that_belongs_to_nobody_is_that_of_the_experiment_that_it_names(known: Known) -> None:
    known.store.observe_experiment(experiment_body())
    body = trial_body(100_000)
    del body["spec"]["index"]
    owners = body["metadata"].pop("ownerReferences")
    known.store.observe_trial(body)
    assert known.trials() == [], "it is adopted first"
    (adopted,) = [action for action in known.machine().decide(0.0).actions if isinstance(action, AdoptTrial)]
    assert (adopted.name, adopted.version) == ("digits-100000", 20)
    body["metadata"] |= {"ownerReferences": owners, "resourceVersion": "21"}
    known.store.observe_trial(body)
    assert known.trials() == ["t-1"]
    assert known.store.find_entry_of_trial(body["metadata"]["namespace"], "digits-100000") is not None


def test_a_trial_of_another_owner_is_nobodys_business(known: Known) -> None:
    known.store.observe_experiment(experiment_body())
    body = trial_body(100_000)
    body["metadata"]["ownerReferences"] = [{"kind": "Other", "name": "x", "uid": "u"}]
    known.store.observe_trial(body)
    assert not known.store.find_entry("e-1").trials
