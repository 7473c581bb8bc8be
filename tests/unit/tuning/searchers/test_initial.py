"""The manifest's own configurations come first; a searcher goes on as it would without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest
from typing_extensions import override

from podtune.api.tuning.search_space import Parameter
from podtune.testing.searchers import SearcherConformance, record_run
from podtune.tuning.searchers.base import Configuration, Observation, PendingTrial, Proposal, Searcher
from podtune.tuning.searchers.factory import make_searcher
from podtune.tuning.searchers.initial import InitialFirst
from podtune.tuning.searchers.spaces.active_space import ActiveSpace
from tests.unit.tuning.manifests import every_kind, experiment

SPACE: list[dict[str, Any]] = [
    {"name": "units", "int": {"min": 1, "max": 4}},
    {"name": "kind", "choice": {"values": ["a", "b"]}},
    {"name": "rate", "float": {"min": 0.0, "max": 1.0, "step": 0.5}, "when": {"kind": ["b"]}},
    {"name": "half", "expression": "units / 2"},
]
FIRST = {"units": 3, "kind": "a"}
SECOND = {"units": 1, "kind": "b", "rate": 1}
KNOWN = {"units": 2, "kind": "b", "rate": 0.5}
INITIAL = [
    {"parameters": FIRST},
    {"parameters": KNOWN, "results": {"accuracy": 0.75}},
    {"parameters": SECOND},
    {"parameters": {**KNOWN, "units": 4}, "results": {"accuracy": 0.25}},
]


class Recorder(Searcher):
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.heard: list[Observation] = []
        self.skipped: list[Configuration] = []
        self.asked: list[tuple[int, list[int]]] = []

    @override
    def tell(self, observation: Observation) -> None:
        self.heard.append(observation)

    @override
    def skip(self, configuration: Configuration) -> None:
        self.skipped.append(configuration)

    @override
    def ask(self, number: int, pending: Sequence[PendingTrial], attempt: int = 0) -> Proposal | None:
        self.asked.append((number, [trial.number for trial in pending]))
        return Proposal({"units": number}, {"mine": "yes"})


def first() -> tuple[Recorder, InitialFirst]:
    spec = experiment(parameters=SPACE, search={"maxTrials": 20, "initial": INITIAL})
    inner = Recorder()
    return inner, InitialFirst(inner, ActiveSpace(spec.parameters), spec.search.initial, spec.objective)


def test_those_without_results_come_first_complete_and_in_their_own_types() -> None:
    inner, searcher = first()
    assert searcher.ask(0, []) == Proposal({"units": 3, "kind": "a", "half": 1.5})
    second = searcher.ask(1, [])
    assert list(second.configuration.items()) == [("units", 1), ("kind", "b"), ("rate", 1.0), ("half", 0.5)]
    assert type(second.configuration["rate"]) is float
    assert inner.asked == []


def test_known_results_are_told_before_all_else() -> None:
    inner, _ = first()
    assert [
        (observation.value, observation.step, observation.configuration["units"]) for observation in inner.heard
    ] == [
        (0.75, 0, 2),
        (0.25, 0, 4),
    ]
    assert all(observation.number < 0 and not observation.attributes for observation in inner.heard)
    assert [configuration["units"] for configuration in inner.skipped] == [3, 1]


def test_the_others_are_numbered_as_if_there_were_no_initial_ones() -> None:
    inner, searcher = first()
    assert searcher.ask(2, [PendingTrial(0, {}), PendingTrial(1, {})]) == Proposal({"units": 0}, {"mine": "yes"})
    searcher.ask(4, [PendingTrial(1, {}), PendingTrial(3, {})])
    assert inner.asked == [(0, [-2, -1]), (2, [-1, 1])]


def test_all_that_is_told_keeps_a_number_of_its_own() -> None:
    inner, searcher = first()
    for number in (-2, -1, 0, 1, 2, 3):
        searcher.tell(Observation(number, {"units": 1}, 0.5, 1))
    told = [observation.number for observation in inner.heard]
    assert len(set(told)) == len(told)
    assert told[-2:] == [0, 1]
    assert all(number < 0 for number in told[:-2])


@pytest.mark.parametrize("algorithm", ["grid", "bruteForce"])
def test_one_that_goes_through_its_space_tries_each_configuration_once(algorithm: str) -> None:
    spec = experiment(parameters=SPACE, search={"algorithm": algorithm, "maxTrials": 99, "initial": INITIAL})
    searcher = make_searcher(spec)
    proposed: list[tuple[object, ...]] = []
    while (answer := searcher.ask(len(proposed), [])) is not None:
        proposed.append(tuple(answer.configuration.values()))
    assert len(proposed) == len(set(proposed)) == 4 * (1 + 3) - 2
    assert (2, "b", 0.5, 1.0) not in proposed


def test_an_experiment_learnt_from_is_left_out_of_a_grid_too() -> None:
    spec = experiment(parameters=SPACE[:2], search={"algorithm": "grid", "maxTrials": 99, "initial": INITIAL[:1]})
    searcher = make_searcher(spec)
    searcher.tell(Observation(-1, {"units": 1, "kind": "a"}, 0.5, 1))
    proposed = [searcher.ask(number, []) for number in range(8)]
    found = [answer.configuration for answer in proposed if answer is not None]
    assert len(found) == 7
    assert {"units": 1, "kind": "a"} not in found


def test_random_search_proposes_the_same_after_them() -> None:
    spec = experiment(search={"algorithm": "random", "maxTrials": 9, "seed": 7})
    some = make_searcher(spec).ask(99, [])
    values = {name: value for name, value in some.configuration.items() if name != "fixed"}
    begun = experiment(
        search={"algorithm": "random", "maxTrials": 9, "seed": 7, "initial": [{"parameters": {**values, "fixed": 7}}]}
    )
    plain, searcher = make_searcher(spec), make_searcher(begun)
    assert searcher.ask(0, []) == Proposal(some.configuration)
    assert [searcher.ask(number + 1, []) for number in range(9)] == [plain.ask(number, []) for number in range(9)]


class TestTpeAfterInitialConfigurations(SearcherConformance):
    """With initial configurations, known and not, in front."""

    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        manifests = [parameter.model_dump(by_alias=True, exclude_unset=True) for parameter in parameters]
        search: dict[str, Any] = {"algorithm": "tpe", "maxTrials": 99, "seed": seed, "tpe": {"startupTrials": 3}}
        fields = {"parameters": manifests, "objective": {"metric": "accuracy", "mode": mode}}
        others = make_searcher(experiment(search={"algorithm": "random", "maxTrials": 99, "seed": seed}, **fields))
        proposed = [answer for number in range(4) if (answer := others.ask(number, [])) is not None]
        different = {str(answer.configuration): answer.configuration for answer in proposed}
        initial = [
            {"parameters": dict(configuration), **({"results": {"accuracy": 0.5}} if place % 2 else {})}
            for place, configuration in enumerate(different.values())
        ]
        return make_searcher(experiment(search={**search, "initial": initial}, **fields))


def test_a_recorded_run_holds_every_configuration_of_the_manifest() -> None:
    run = record_run(TestTpeAfterInitialConfigurations().make(every_kind()))
    assert len([event for event in run if isinstance(event, Observation)]) > 20
