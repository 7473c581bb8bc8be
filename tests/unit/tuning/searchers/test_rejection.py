from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.search import TpeSettings
from podtune.api.tuning.search_settings import CmaEsSettings
from podtune.api.tuning.search_space import Parameter, Scalar
from podtune.testing.searchers import SearcherConformance, propose
from podtune.testing.spaces import parameters
from podtune.tuning.searchers.base import Configuration, NoConfiguration, Observation, PendingTrial, Proposal, Searcher
from podtune.tuning.searchers.cmaes import CmaEsSearcher
from podtune.tuning.searchers.factory import make_searcher
from podtune.tuning.searchers.random import RandomSearcher
from podtune.tuning.searchers.rejection import MODEL_TRIES, RejectionSearcher
from podtune.tuning.searchers.spaces.active_space import ActiveSpace
from podtune.tuning.searchers.tpe import TpeSearcher
from tests.unit.tuning.manifests import experiment

LOSS = Objective(metric="loss", mode="min")
UNIT = parameters(*({"name": name, "float": {"min": 0, "max": 1}} for name in "xy"))
CONDITIONAL = parameters(
    {"name": "momentum", "float": {"min": 0, "max": 1}, "when": {"optimizer": ["sgd"]}},
    {"name": "optimizer", "choice": {"values": ["sgd", "adam"]}},
    {"name": "beta", "logNormal": {"mean": 0, "stddev": 1}, "when": {"optimizer": ["adam"]}},
    {"name": "layers", "int": {"min": 1, "max": 4}, "when": {"optimizer": ["adam"]}},
    {"name": "kind", "choice": {"values": ["a", "b", "c"]}, "when": {"layers": [3, 4]}},
)


class TestTpeAroundWhichASpaceIsLaid(SearcherConformance):
    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        inner = TpeSearcher(parameters, Objective(metric="loss", mode=mode), TpeSettings(startup_trials=3), seed)
        return RejectionSearcher(ActiveSpace(parameters), inner, seed)


class TestCmaEsAroundWhichASpaceIsLaid(SearcherConformance):
    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        inner = CmaEsSearcher(parameters, Objective(metric="loss", mode=mode), CmaEsSettings(), seed)
        return RejectionSearcher(ActiveSpace(parameters), inner, seed)


class Stubborn(Searcher):
    """Proposes what it is made with, attempt by attempt, and remembers what it hears."""

    def __init__(self, *proposals: Configuration, sees_inactive: bool = True) -> None:
        self.proposals = proposals
        self.sees_inactive = sees_inactive  # type: ignore[misc]
        self.told: list[Observation] = []
        self.asked: list[tuple[int, Sequence[PendingTrial], int]] = []

    def tell(self, observation: Observation) -> None:
        self.told.append(observation)

    def ask(self, number: int, pending: Sequence[PendingTrial], attempt: int = 0) -> Proposal | None:
        self.asked.append((number, pending, attempt))
        return Proposal(self.proposals[min(attempt, len(self.proposals) - 1)], {"mark": str(attempt)})


def rejection_searcher(space: Sequence[Parameter], inner: Searcher, *constraints: str) -> RejectionSearcher:
    return RejectionSearcher(ActiveSpace(space, constraints), inner, seed=7)


def test_what_a_constraint_refuses_is_drawn_again_and_the_tries_are_recorded() -> None:
    inner = Stubborn({"x": 0.9, "y": 0.9}, {"x": 0.5, "y": 0.6}, {"x": 0.2, "y": 0.1})
    proposed = rejection_searcher(UNIT, inner, "x + y <= 1").ask(3, [])
    assert proposed == Proposal({"x": 0.2, "y": 0.1}, {"mark": "2", "tries": "3"})
    assert [(number, attempt) for number, _, attempt in inner.asked] == [(3, 0), (3, 1), (3, 2)]


def test_a_model_that_knows_no_way_out_is_left_for_random_draws() -> None:
    inner = Stubborn({"x": 0.9, "y": 0.9})
    proposed = rejection_searcher(UNIT, inner, "x + y <= 0.2").ask(0, [])
    assert float(proposed.configuration["x"]) + float(proposed.configuration["y"]) <= 0.2
    assert len(inner.asked) == MODEL_TRIES
    assert int(proposed.attributes["tries"]) > MODEL_TRIES
    assert proposed.attributes["mark"] == str(MODEL_TRIES - 1)


def test_constraints_that_nothing_holds_are_named_the_worst_first() -> None:
    searcher = rejection_searcher(UNIT, RandomSearcher(UNIT, 1), "x >= 0.0001", "x + y >= 2.5")
    with pytest.raises(NoConfiguration) as raised:
        searcher.ask(0, [])
    assert str(raised.value) in (
        f"no configuration was found in 1,000 tries: in {count:,} of them the constraint 'x + y >= 2.5' does not hold; "
        "relax it, or narrow the domains to where it holds"
        for count in (1000, 999)
    )


def test_an_expression_without_a_value_refuses_a_configuration() -> None:
    space = [*UNIT, *parameters({"name": "ratio", "expression": "1 / (x - x)"})]
    with pytest.raises(NoConfiguration, match=r"in 1,000 of them the expression '1 / \(x - x\)' of ratio has no value"):
        rejection_searcher(space, RandomSearcher(UNIT, 1)).ask(0, [])


def test_fixed_and_computed_values_stand_where_the_manifest_has_them() -> None:
    space = parameters(
        {"name": "total", "expression": "each * workers"},
        {"name": "each", "int": {"min": 1, "max": 9}},
        {"name": "workers", "fixed": {"value": 4}},
        {"name": "size", "expression": "'big' if total > 16 else 'small'"},
    )
    proposed = rejection_searcher(space, Stubborn({"each": 5})).ask(0, [])
    assert list(proposed.configuration.items()) == [("total", 20), ("each", 5), ("workers", 4), ("size", "big")]


def test_what_depends_on_a_parameter_that_does_not_exist_does_not_either() -> None:
    space = [*CONDITIONAL, *parameters({"name": "double", "expression": "2 * momentum"})]
    searcher = rejection_searcher(space, Stubborn(dict(DRAWN)), "momentum < 0.1")
    assert propose(searcher, 0) == {"optimizer": "adam", "beta": 1.5, "layers": 2}


DRAWN: dict[str, Scalar] = {"momentum": 0.123456789, "optimizer": "adam", "beta": 1.5, "layers": 2, "kind": "c"}


def test_a_vector_model_is_told_what_it_had_drawn_for_inactive_parameters() -> None:
    inner = Stubborn(dict(DRAWN))
    searcher = rejection_searcher(CONDITIONAL, inner)
    proposed = searcher.ask(0, [])
    assert proposed.attributes["inactive"] == "0.123457,2"
    searcher.tell(Observation(0, proposed.configuration, 1.0, 1, attributes=proposed.attributes))
    searcher.ask(1, [PendingTrial(0, proposed.configuration, proposed.attributes)])
    expected = {**DRAWN, "momentum": 0.123457}
    assert list(inner.told[0].configuration.items()) == list(expected.items())
    assert inner.asked[-1][1][0].configuration == expected


def test_of_what_was_never_drawn_it_is_told_the_middle() -> None:
    inner = Stubborn(dict(DRAWN))
    rejection_searcher(CONDITIONAL, inner).tell(Observation(-1, {"momentum": 0.9, "optimizer": "sgd"}, 1.0, 1))
    assert inner.told[0].configuration == {"momentum": 0.9, "optimizer": "sgd", "beta": 1.0, "layers": 3, "kind": "b"}


def test_a_tree_model_is_told_what_exists_alone() -> None:
    inner = Stubborn(dict(DRAWN), sees_inactive=False)
    space = [*CONDITIONAL, *parameters({"name": "f", "fixed": {"value": 1}}, {"name": "c", "expression": "f + 1"})]
    searcher = rejection_searcher(space, inner)
    proposed = searcher.ask(0, [])
    assert "inactive" not in proposed.attributes
    searcher.tell(Observation(0, proposed.configuration, 1.0, 1, attributes=proposed.attributes))
    assert inner.told[0].configuration == {"optimizer": "adam", "beta": 1.5, "layers": 2}


def test_what_a_condition_leaves_out_always_fits_into_a_trial() -> None:
    """64 parameters, all but one of them inactive."""
    parent = {"name": "parent", "choice": {"values": [0, 1]}}
    wide: list[dict[str, Any]] = [
        {"name": f"p{place}", "int": {"min": 0, "max": 2**62}, "when": {"parent": [1]}} for place in range(63)
    ]
    space = parameters(parent, *wide)
    searcher = RejectionSearcher(ActiveSpace(space), RandomInABox(space, 3), seed=3)
    inactive = [
        proposed.attributes["inactive"]
        for number in range(30)
        if (proposed := searcher.ask(number, [])) is not None and "inactive" in proposed.attributes
    ]
    assert inactive
    assert max(map(len, inactive)) <= 1024


class RandomInABox(RandomSearcher):
    sees_inactive = True


SMALL = parameters({"name": "x", "int": {"min": 1, "max": 3}}, {"name": "y", "choice": {"values": ["a", "b"]}})


def test_in_a_finite_space_nothing_is_proposed_twice() -> None:
    """Neither what was tried, nor what is under way, nor what the manifest tries by itself."""
    searcher = rejection_searcher(SMALL, Stubborn({"x": 1, "y": "a"}))
    searcher.tell(Observation(0, {"x": 1, "y": "a"}, 1.0, 1))
    searcher.skip({"x": 2, "y": "b"})
    under_way = [PendingTrial(1, {"x": 3, "y": "a"}), PendingTrial(2, {"x": 3, "y": "b"})]
    left = {(1, "b"), (2, "a")}
    assert {tuple(propose(searcher, number, under_way).values()) for number in range(3, 40)} == left
    searcher.tell(Observation(3, {"x": 1, "y": "b"}, None, 0))
    searcher.tell(Observation(4, {"x": 2, "y": "a"}, 1.0, 1))
    assert searcher.ask(5, under_way) is None
    assert searcher.ask(5, under_way[:1]) is not None


def test_a_finite_space_is_exhausted_although_constraints_leave_some_of_it_out() -> None:
    searcher = rejection_searcher(SMALL, RandomSearcher(SMALL, 1), "x < 3")
    found: list[Configuration] = []
    while (proposed := searcher.ask(len(found), [])) is not None:
        found.append(proposed.configuration)
        searcher.tell(Observation(len(found), proposed.configuration, 1.0, 1))
    assert sorted(tuple(configuration.values()) for configuration in found) == [
        *((1, "a"), (1, "b")),
        *((2, "a"), (2, "b")),
    ]


def test_another_attempt_starts_where_the_first_could_not_have_come() -> None:
    inner = Stubborn({"x": 0.9, "y": 0.9})
    rejection_searcher(UNIT, inner).ask(0, [], attempt=2)
    assert inner.asked[0][2] == 2000


class Untouched(PendingTrial):
    """A trial under way that nobody is to look at."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} was looked at")


@pytest.mark.parametrize("algorithm", ["random", "cmaes", "nsga2"])
@pytest.mark.parametrize("initial", [[], [{"parameters": {"x": 0.5}}]])
def test_who_does_not_learn_from_trials_under_way_need_not_look_at_them(
    algorithm: str, initial: list[dict[str, Any]]
) -> None:
    """There may be thousands of them, paused."""
    space = [{"name": "x", "float": {"min": 0, "max": 1}}]
    spec = experiment(parameters=space, search={"algorithm": algorithm, "maxTrials": 5, "initial": initial})
    paused = [object.__new__(Untouched)] * 5
    assert make_searcher(spec).ask(3, paused) == make_searcher(spec).ask(3, [])


@pytest.mark.parametrize("algorithm", ["tpe", "gp"])
def test_who_learns_from_them_sees_them_as_drawn(algorithm: str) -> None:
    space = [{"name": "x", "float": {"min": 0, "max": 1}}, {"name": "one", "fixed": {"value": 1}}]
    spec = experiment(parameters=space, search={"algorithm": algorithm, "maxTrials": 5})
    searcher = make_searcher(spec)
    for number in range(12):
        searcher.tell(Observation(number, {"x": number / 12, "one": 1}, -abs(number / 12 - 0.3), 1))
    crowd = [PendingTrial(12 + place, {"x": 0.3 + place / 1000, "one": 1}) for place in range(30)]
    assert searcher.ask(50, crowd) != searcher.ask(50, [])
