"""What tools that wait by kstatus make of Experiments and Trials."""

from __future__ import annotations

import pytest

from tests.gitops import states
from tests.gitops.kstatus import Kstatus, compute_kstatus

EXPERIMENTS = {
    "applied": Kstatus.IN_PROGRESS,
    "running": Kstatus.CURRENT,
    "changed": Kstatus.IN_PROGRESS,
    "suspending": Kstatus.IN_PROGRESS,
    "suspended": Kstatus.CURRENT,
    "resumed": Kstatus.CURRENT,
    "stopping": Kstatus.IN_PROGRESS,
    "stopped": Kstatus.CURRENT,
    "complete": Kstatus.CURRENT,
    "failed": Kstatus.FAILED,
    "stalled": Kstatus.FAILED,
}
TRIALS = {
    "applied": Kstatus.IN_PROGRESS,
    "pending": Kstatus.CURRENT,
    "running": Kstatus.CURRENT,
    "paused": Kstatus.CURRENT,
    "stopped": Kstatus.CURRENT,
    "complete": Kstatus.CURRENT,
    "failed": Kstatus.FAILED,
}


def test_no_state_is_left_out() -> None:
    assert (EXPERIMENTS.keys(), TRIALS.keys()) == (states.EXPERIMENTS.keys(), states.TRIALS.keys())


@pytest.mark.parametrize(("state", "kstatus"), EXPERIMENTS.items())
def test_an_experiment_has_the_status_that_a_person_would_give_it(state: str, kstatus: Kstatus) -> None:
    manifest = states.EXPERIMENTS[state]()
    assert compute_kstatus(manifest) is kstatus
    manifest["metadata"]["deletionTimestamp"] = "2026-11-26T12:00:00Z"
    assert compute_kstatus(manifest) is Kstatus.TERMINATING


@pytest.mark.parametrize(("state", "kstatus"), TRIALS.items())
def test_a_trial_has_the_status_that_a_person_would_give_it(state: str, kstatus: Kstatus) -> None:
    assert compute_kstatus(states.TRIALS[state]()) is kstatus


@pytest.mark.parametrize("state", [state for state in EXPERIMENTS if state != "applied"])
def test_an_experiment_does_not_contradict_itself(state: str) -> None:
    manifest = states.EXPERIMENTS[state]()
    conditions = {condition["type"]: condition for condition in manifest["status"]["conditions"]}
    held = {type_ for type_, condition in conditions.items() if condition["status"] == "True"}
    assert not {"Stalled", "Reconciling"} <= held
    assert ("Ready" in held) is ("Stalled" not in held)
    for type_ in ("Ready", "Stalled"):
        assert conditions[type_]["observedGeneration"] == manifest["status"]["observedGeneration"]


def test_who_waits_for_a_suspension_is_told_what_it_waits_for() -> None:
    manifest = states.EXPERIMENTS["suspending"]()
    [reconciling] = [c for c in manifest["status"]["conditions"] if c["type"] == "Reconciling"]
    assert reconciling["reason"] == "Suspending"
    assert reconciling["message"] == "suspending: 2 trials still have a pod and are storing a checkpoint"


def test_a_failure_says_why_in_the_words_of_its_end() -> None:
    manifest = states.EXPERIMENTS["failed"]()
    [stalled] = [c for c in manifest["status"]["conditions"] if c["type"] == "Stalled"]
    assert (stalled["reason"], stalled["message"]) == ("AllTrialsFailed", "all 2 trials ended in ERROR")
