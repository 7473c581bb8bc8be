"""A soak keeps experiments coming, and each that does not come to a good end is told of."""

from __future__ import annotations

import json
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from e2e.kubernetes import Kubernetes, Object
from e2e.soak.load import AT_ONCE, MAX_TRIALS, MOST_SECONDS, Load


class FakeNamespace:
    """Experiments, and their trials, as the test has them be."""

    cluster = SimpleNamespace(s3=SimpleNamespace(bucket="runs", cluster_endpoint="http://s3"))

    def __init__(self) -> None:
        self.experiments: dict[str, Object] = {}
        self.trials: dict[str, list[str]] = {}
        self.keeps_deleted = False

    def apply(self, *objects: Object) -> None:
        for made in objects:
            name = made["metadata"]["name"]
            self.experiments[name] = json.loads(json.dumps(made))
            self.trials[name] = ["TERMINATED"] * MAX_TRIALS

    def list(self, kind: str, selector: str = "") -> list[Object]:
        if kind.startswith("experiments"):
            return list(self.experiments.values())
        experiment = selector.removeprefix("podtune.dev/experiment=")
        return [
            {"metadata": {"name": f"{experiment}-{number}"}, "status": {"state": state}}
            for number, state in enumerate(self.trials[experiment])
        ]

    def kubectl(self, verb: str, kind: str, name: str, *_: str) -> str:
        assert verb == "delete"
        if not self.keeps_deleted:
            del self.experiments[name]
        return ""

    def end(self, name: str, condition: str) -> None:
        held = {"type": condition, "status": "True", "reason": "Because", "message": "of it"}
        self.experiments[name]["status"] = {"conditions": [held]}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def namespace() -> FakeNamespace:
    return FakeNamespace()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def load(namespace: FakeNamespace, clock: Clock) -> Load:
    made = Load(cast(Kubernetes, cast(Any, namespace)), Random(1), clock)
    made.begin()
    made.replenish()
    return made


def test_what_came_to_a_good_end_is_counted_and_replaced(load: Load, namespace: FakeNamespace) -> None:
    namespace.end("soak-0", "Complete")
    load.replenish()
    assert set(namespace.experiments) == {"lasting", "soak-1", "soak-2", "soak-3"}
    assert (load.ended, load.problems) == (1, [])


def test_one_that_is_long_in_going_is_counted_once(load: Load, namespace: FakeNamespace) -> None:
    namespace.keeps_deleted = True
    namespace.end("soak-0", "Complete")
    load.replenish()
    load.replenish()
    assert load.ended == 1
    assert len(namespace.experiments) == 1 + AT_ONCE + 1


def test_one_that_never_goes_is_a_problem(load: Load, namespace: FakeNamespace, clock: Clock) -> None:
    namespace.keeps_deleted = True
    namespace.end("soak-0", "Complete")
    load.replenish()
    for name in ("soak-1", "soak-2", "soak-3"):
        del namespace.experiments[name]
        del load._going[name]
    clock.now += MOST_SECONDS + 1
    load.replenish()
    assert load.problems == ["soak-0 was deleted 481 s ago, and is not gone"]


def test_a_failed_experiment_is_a_problem_and_is_replaced(load: Load, namespace: FakeNamespace) -> None:
    namespace.end("soak-1", "Failed")
    load.replenish()
    assert load.problems == ["soak-1 has failed: Because: of it"]
    assert set(namespace.experiments) == {"lasting", "soak-0", "soak-2", "soak-3"}
    assert load.ended == 0


def test_a_stuck_experiment_is_a_problem_once_and_is_replaced(
    load: Load, namespace: FakeNamespace, clock: Clock
) -> None:
    clock.now += MOST_SECONDS
    for name in ("soak-0", "soak-2"):
        namespace.end(name, "Complete")
    load.replenish()
    assert load.problems == []
    clock.now += 1
    load.replenish()
    load.replenish()
    assert load.problems == ["soak-1 has not ended within 481 s: None"]
    assert set(namespace.experiments) == {"lasting", "soak-3", "soak-4", "soak-5"}


def test_an_experiment_that_vanishes_is_a_problem(load: Load, namespace: FakeNamespace) -> None:
    del namespace.experiments["soak-2"]
    load.replenish()
    assert load.problems == ["soak-2 is gone, and nobody has deleted it"]
    assert "soak-3" in namespace.experiments


@pytest.mark.parametrize("states", [["TERMINATED"] * 3, ["TERMINATED"] * (MAX_TRIALS - 1) + ["ERROR"]])
def test_one_whose_trials_are_not_as_they_should_be_came_to_no_good_end(
    load: Load, namespace: FakeNamespace, states: list[str]
) -> None:
    namespace.trials["soak-0"] = states
    namespace.end("soak-0", "Complete")
    load.replenish()
    assert len(load.problems) == 1
    assert "soak-0" in load.problems[0]
    assert load.ended == 0


def test_a_soak_in_which_little_happens_does_not_pass(load: Load) -> None:
    assert len(load.find_idleness(45)) == 2
    load.ended = 22
    load.faults["evicted"] = 89
    assert load.find_idleness(45) == [
        "22 experiments came to a good end within 45 minutes: at least 22.5 are to be expected"
    ]
    load.ended = 23
    assert load.find_idleness(45) == []
