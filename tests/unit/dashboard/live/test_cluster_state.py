from __future__ import annotations

import pytest

from podtune.api.names import EXPERIMENT_PLURAL, TRIAL_PLURAL
from podtune.cli.client.api_client import Change
from podtune.dashboard.live import cluster_state
from podtune.dashboard.live.cluster_state import ClusterState
from podtune.kube.manifests import Manifest
from tests.unit.dashboard.live.live_api import NOON, TEAM, Clock, team_experiment, team_trial

DIGITS = (TEAM, "digits")


def _list(state: ClusterState, plural: str, *items: Manifest) -> None:
    state.apply(plural, Change("RELISTED", {}))
    for item in items:
        state.apply(plural, Change("ADDED", item))
    state.apply(plural, Change("SYNCED", {}))


@pytest.fixture
def state() -> ClusterState:
    known = ClusterState(Clock())
    _list(known, EXPERIMENT_PLURAL, team_experiment())
    _list(known, TRIAL_PLURAL, team_trial(10), team_trial(2), team_trial(0))
    return known


def test_trials_stand_by_their_index_and_stay_the_same_objects_until_one_changes(state: ClusterState) -> None:
    before = state.list_trials(DIGITS)
    assert [trial.index for trial in before] == [0, 2, 10]
    assert state.list_trials(DIGITS) is before
    state.apply(TRIAL_PLURAL, Change("MODIFIED", team_trial(2, "2", state="RUNNING")))
    after = state.list_trials(DIGITS)
    assert [trial.state for trial in after] == ["PENDING", "RUNNING", "PENDING"]
    assert (after[0] is before[0], after[1] is before[1]) == (True, False)


def test_a_change_has_its_own_revision_and_is_no_news_of_another_experiment(state: ClusterState) -> None:
    _list(state, EXPERIMENT_PLURAL, team_experiment(), team_experiment("words"))
    words, digits, overall = state.find_revision((TEAM, "words")), state.find_revision(DIGITS), state.revision
    state.apply(TRIAL_PLURAL, Change("DELETED", team_trial(2, "3")))
    assert state.find_revision(DIGITS) > digits
    assert state.revision > overall
    assert state.find_revision((TEAM, "words")) == words
    assert [trial.index for trial in state.list_trials(DIGITS)] == [0, 10]


def test_the_same_list_again_is_no_news(state: ClusterState) -> None:
    trials, revision = state.list_trials(DIGITS), state.revision
    _list(state, EXPERIMENT_PLURAL, team_experiment())
    _list(state, TRIAL_PLURAL, team_trial(0), team_trial(2), team_trial(10))
    assert state.revision == revision
    assert state.list_trials(DIGITS) is trials


def test_what_is_missing_from_a_later_list_was_deleted_meanwhile(state: ClusterState) -> None:
    _list(state, TRIAL_PLURAL, team_trial(0), team_trial(11))
    assert [trial.index for trial in state.list_trials(DIGITS)] == [0, 11]
    _list(state, EXPERIMENT_PLURAL)
    assert state.find_experiment(DIGITS) is None
    assert state.find_deletion(DIGITS) == NOON


def test_a_list_that_broke_off_deletes_nothing(state: ClusterState) -> None:
    state.apply(TRIAL_PLURAL, Change("RELISTED", {}))
    state.apply(TRIAL_PLURAL, Change("ADDED", team_trial(0)))
    _list(state, TRIAL_PLURAL, team_trial(0), team_trial(2), team_trial(10))
    assert len(state.list_trials(DIGITS)) == 3


def test_an_experiment_that_is_made_again_was_not_deleted(state: ClusterState) -> None:
    state.apply(EXPERIMENT_PLURAL, Change("DELETED", team_experiment()))
    assert state.find_deletion(DIGITS) is not None
    state.apply(EXPERIMENT_PLURAL, Change("ADDED", team_experiment(version="9")))
    assert state.find_deletion(DIGITS) is None


def test_trials_of_the_same_name_in_other_namespaces_are_others(state: ClusterState) -> None:
    state.apply(TRIAL_PLURAL, Change("ADDED", team_trial(0, namespace="other")))
    state.apply(TRIAL_PLURAL, Change("DELETED", team_trial(0, namespace="other")))
    assert len(state.list_trials(DIGITS)) == 3
    assert state.list_trials(("other", "digits")) == ()


@pytest.mark.parametrize(
    "broken", [{"spec": "no map"}, {"spec": {"experiment": "digits", "index": 1}, "status": {"state": []}}]
)
def test_an_object_that_cannot_be_read_takes_no_other_away(state: ClusterState, broken: Manifest) -> None:
    metadata = {"name": "digits-1", "namespace": TEAM, "resourceVersion": "7"}
    state.apply(TRIAL_PLURAL, Change("ADDED", {"metadata": metadata, **broken}))
    state.apply(TRIAL_PLURAL, Change("ADDED", team_trial(12)))
    assert {trial.index for trial in state.list_trials(DIGITS)} >= {0, 2, 10, 12}


def test_of_deleted_experiments_only_the_last_are_remembered(
    state: ClusterState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_state, "MOST_DELETED", 1)
    state.apply(EXPERIMENT_PLURAL, Change("ADDED", team_experiment("words")))
    state.apply(EXPERIMENT_PLURAL, Change("DELETED", team_experiment()))
    state.apply(EXPERIMENT_PLURAL, Change("DELETED", team_experiment("words")))
    assert state.find_deletion(DIGITS) is None
    assert state.find_deletion((TEAM, "words")) is not None
