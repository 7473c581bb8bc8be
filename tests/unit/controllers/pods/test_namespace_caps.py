"""Whoever waits for a pod's place is woken when it comes free, whatever way that becomes known."""

from __future__ import annotations

import pytest

from podtune.controllers.pods.namespace_caps import NamespaceCaps, PodLimits
from podtune.controllers.store.store import Store
from podtune.runner.settings import RunnerSettings
from tests.unit.cluster.objects import experiment_body, pod_body, trial_body

ENDED = {"phase": "Succeeded"}


def test_a_limit_of_a_namespaces_own_comes_before_that_of_all() -> None:
    limits = PodLimits(default=8, namespaces={"a": 2, "b": None})
    assert [limits.find_limit(namespace) for namespace in "abc"] == [2, None, 8]


def test_only_namespaces_with_a_limit_are_kept_to_one() -> None:
    caps = NamespaceCaps(PodLimits(namespaces={"a": 0}), lambda *_: None)
    assert caps.get_quota("a", "e").claim(1)
    assert caps.get_quota("b", "e").claim(1000) == ""


def test_a_claim_that_is_not_wanted_any_more_wakes_the_next() -> None:
    woken: list[tuple[str, str]] = []
    caps = NamespaceCaps(PodLimits(default=1), lambda *key: woken.append(key))
    assert caps.get_quota("team", "first").claim(1) == ""
    assert caps.get_quota("team", "second").claim(1)
    caps.update("elsewhere", "first", None)
    assert woken == []
    caps.update("team", "first", None)
    assert woken == [("team", "second")]


@pytest.mark.parametrize("way", ["it ends", "it is deleted", "a resync misses it"])
def test_the_end_of_a_pod_wakes_who_waits_for_its_place(way: str) -> None:
    changed: list[str] = []
    store = Store(RunnerSettings(), changed.append, pod_limits=PodLimits(default=1))
    store.observe_experiment(experiment_body("busy", "b"))
    store.observe_experiment(experiment_body("waiting", "w"))
    store.observe_trial(trial_body(owner="b", experiment="busy"))
    pod = pod_body(trial="busy-0")
    store.observe_pod(pod)
    store.mark_synced()
    entry = store.find_entry("w")
    assert entry is not None
    assert entry.machine is not None
    for index in range(2):
        store.observe_trial(trial_body(index, uid=f"w-{index}", owner="w", experiment="waiting", state="PENDING"))
    assert not any("CreatePod" in type(action).__name__ for action in entry.machine.decide(0.0).actions)
    assert entry.machine.waits_for_pods
    store.record_decision(entry)
    changed.clear()
    later = {**pod, "metadata": {**pod["metadata"], "resourceVersion": "99"}}
    match way:
        case "it ends":
            store.observe_pod({**later, "status": ENDED})
        case "it is deleted":
            store.observe_pod_deletion(later)
        case _:
            store.on_missing(pod["metadata"]["uid"])
    assert "w" in changed
    started = [action for action in entry.machine.decide(1.0).actions if "CreatePod" in type(action).__name__]
    assert len(started) == 1
