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
from podtune.tuning.searchers.initial import find_place, introduce, propose_initial
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


def introduced(skipped: Sequence[int] = (0, 2)) -> Recorder:
    spec = experiment(parameters=SPACE, search={"maxTrials": 20, "initial": INITIAL})
    searcher = Recorder()
    introduce(searcher, ActiveSpace(spec.parameters), spec.search.initial, spec.objective, skipped=skipped)
    return searcher


def test_those_without_results_are_proposed_complete_and_in_their_own_types() -> None:
    spec = experiment(parameters=SPACE, search={"maxTrials": 20, "initial": INITIAL})
    space = ActiveSpace(spec.parameters)
    first, _, second, _ = (propose_initial(space, entry) for entry in spec.search.initial)
    assert first == Proposal({"units": 3, "kind": "a", "half": 1.5})
    assert list(second.configuration.items()) == [("units", 1), ("kind", "b"), ("rate", 1.0), ("half", 0.5)]
    assert type(second.configuration["rate"]) is float


def test_known_results_are_told_before_all_else() -> None:
    searcher = introduced()
    assert [
        (observation.value, observation.step, observation.configuration["units"]) for observation in searcher.heard
    ] == [
        (0.75, 0, 2),
        (0.25, 0, 4),
    ]
    assert all(observation.number < 0 and not observation.attributes for observation in searcher.heard)
    assert [configuration["units"] for configuration in searcher.skipped] == [3, 2, 1, 4]


def test_what_comes_later_is_not_left_out() -> None:
    assert [configuration["units"] for configuration in introduced([0]).skipped] == [3, 2, 4]


def test_an_entry_is_found_by_its_number_and_its_values() -> None:
    spec = experiment(parameters=SPACE, search={"maxTrials": 20, "initial": INITIAL})

    def find(number: int, parameters: dict[str, str]) -> int | None:
        return find_place(number, parameters, spec.parameters, spec.search.initial)

    second = {"units": "1", "kind": "b", "rate": "1.0", "half": "0.5"}
    assert find(1, second) == 2
    assert find(0, second) is find(2, second) is find(1, {**second, "units": "2"}) is None


@pytest.mark.parametrize("algorithm", ["grid", "bruteForce"])
def test_one_that_goes_through_its_space_tries_each_configuration_once(algorithm: str) -> None:
    spec = experiment(parameters=SPACE, search={"algorithm": algorithm, "maxTrials": 99, "initial": INITIAL})
    searcher = make_searcher(spec)
    proposed: list[tuple[object, ...]] = []
    while (answer := searcher.ask(len(proposed), [])) is not None:
        proposed.append(tuple(answer.configuration.values()))
    assert len(proposed) == len(set(proposed)) == 4 * (1 + 3) - len(INITIAL)
    assert (2, "b", 0.5, 1.0) not in proposed


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
