from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import optuna
import pytest
from optuna.distributions import BaseDistribution
from optuna.samplers import NSGAIIISampler, NSGAIISampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial

from podtune.api.tuning.objective import Criterion, Objective
from podtune.api.tuning.search_settings import Nsga2Settings, Nsga3Settings
from podtune.api.tuning.search_space import Parameter
from podtune.testing.searchers import SearcherConformance
from podtune.tuning.randomness import derive_proposal_seed, derive_seed
from podtune.tuning.searchers.base import Observation, PendingTrial, Proposal, Searcher
from podtune.tuning.searchers.nsga import NsgaSearcher
from podtune.tuning.searchers.spaces.optuna_space import OptunaSpace
from tests.unit.tuning.manifests import parameters
from tests.unit.tuning.searchers.optuna_spaces import of_optuna

PLANE = parameters(*({"name": name, "float": {"min": 0, "max": 1}} for name in "abc"))


def nsga(
    space: Sequence[Parameter],
    *,
    seed: int = 7,
    mode: Literal["max", "min"] = "max",
    criteria: int = 2,
    kind: type[Nsga2Settings] | type[Nsga3Settings] = Nsga2Settings,
    **settings: Any,
) -> NsgaSearcher:
    others = [Criterion(metric=f"m{position}", mode="min") for position in range(criteria - 1)]
    return NsgaSearcher(space, Objective(metric="m", mode=mode, others=others), kind(**settings), seed)


class TestNsga2Searcher(SearcherConformance):
    criteria = 2

    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        return nsga(parameters, seed=seed, mode=mode, population_size=4)


class TestNsga3Searcher(SearcherConformance):
    criteria = 3

    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        return nsga(parameters, seed=seed, mode=mode, criteria=3, kind=Nsga3Settings, population_size=5)


class TestNsga2SearcherOfOneObjective(SearcherConformance):
    def make(self, parameters: Sequence[Parameter], *, seed: int = 7, mode: Literal["max", "min"] = "max") -> Searcher:
        return nsga(parameters, seed=seed, mode=mode, criteria=1, population_size=4)


def ask(searcher: Searcher, number: int, pending: Sequence[PendingTrial] = ()) -> Proposal:
    proposed = searcher.ask(number, pending)
    assert proposed is not None
    return proposed


def observation(searcher: Searcher, number: int, proposed: Proposal, *values: float) -> None:
    searcher.tell(Observation(number, proposed.configuration, values[0], 1, values[1:], proposed.attributes))


class Seeded:
    """Optuna's own with a known space, the seeds that a searcher has, and parents that come in one order only.

    Optuna's come in the order of selection for the first trial of a generation, in that of their numbers for others.
    """

    space: Mapping[str, BaseDistribution]

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, BaseDistribution]:
        return dict(self.space)

    def get_parent_population(self, study: Study, generation: int) -> list[FrozenTrial]:
        parents = super().get_parent_population(study, generation)  # type: ignore[misc]
        return sorted(parents, key=lambda trial: trial.number)


class SeededNsga2(Seeded, NSGAIISampler):
    pass


class SeededNsga3(Seeded, NSGAIIISampler):
    def select_parent(self, study: Study, generation: int) -> list[FrozenTrial]:
        chooser = PlainNsga3(population_size=8, seed=derive_seed(7, "generation", generation, bits=32))
        return chooser.select_parent(study, generation)


OTHERS = {"crossover_prob": 0.4, "swapping_prob": 0.15, "mutation_prob": 0.35}
"""Three probabilities that are neither Optuna's own nor each other's, by Optuna's names."""
OUR_NAMES = {
    "crossover_prob": "crossoverProbability",
    "swapping_prob": "swappingProbability",
    "mutation_prob": "mutationProbability",
}


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize(
    ("kind", "sampler", "criteria"), [(Nsga2Settings, SeededNsga2, 2), (Nsga3Settings, SeededNsga3, 3)]
)
@pytest.mark.parametrize("changed", OTHERS)
def test_each_probability_is_the_one_that_optuna_calls_so(kind: Any, sampler: Any, criteria: int, changed: str) -> None:
    """The second generation is bred as Optuna breeds it with this probability, and not as it does without."""

    def breed(theirs: dict[str, float]) -> list[Any]:
        optuna.logging.disable_default_handler()
        space = OptunaSpace(of_optuna())
        study = optuna.create_study(directions=["minimize"] * criteria)
        proposals = []
        for number in range(24):
            study.sampler = sampler(population_size=8, seed=derive_proposal_seed(7, number, bits=32), **theirs)
            study.sampler.space = space.distributions
            trial = study.ask(dict(space.distributions))
            proposals.append(space.decode(trial.params))
            study.tell(trial, values_of_number(number, criteria))
        return proposals

    def breed_ours(ours: dict[str, float]) -> list[Any]:
        settings = kind.model_validate({"populationSize": 8, **ours})
        searcher = nsga(of_optuna(), mode="min", criteria=criteria, kind=kind, **settings.model_dump())
        proposals = []
        for number in range(24):
            proposed = ask(searcher, number)
            proposals.append(proposed.configuration)
            observation(searcher, number, proposed, *values_of_number(number, criteria))
        return proposals

    with_it = breed({changed: OTHERS[changed]})
    assert breed_ours({OUR_NAMES[changed]: OTHERS[changed]}) == with_it
    assert breed_ours({}) != with_it, "or the probability would not matter here"


def values_of_number(number: int, criteria: int) -> list[float]:
    return [((number * step) % 13) / 13 for step in (5, 7, 11)[:criteria]]


def test_the_divisions_of_nsga_3_decide_which_parents_are_kept() -> None:
    def find_parents(divisions: int) -> str:
        searcher = nsga(PLANE, mode="min", criteria=3, kind=Nsga3Settings, population_size=12, divisions=divisions)
        for number in range(24):
            observation(searcher, number, ask(searcher, number), *values_of_number(number, 3))
        return ask(searcher, 24).attributes["parents"]

    assert len({find_parents(divisions) for divisions in (1, 2, 6)}) > 1


class PlainNsga3(NSGAIIISampler):
    """Chooses from what the other one has written into the study."""

    _get_generation_key = SeededNsga3._get_generation_key
    _get_parent_cache_key_prefix = SeededNsga3._get_parent_cache_key_prefix


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize(
    ("kind", "sampler", "modes"),
    [
        (Nsga2Settings, SeededNsga2, ("max", "min")),
        (Nsga2Settings, SeededNsga2, ("min",)),
        (Nsga3Settings, SeededNsga3, ("min", "min", "min")),
    ],
)
def test_one_trial_at_a_time_proposes_what_plain_optuna_does(
    kind: Any, sampler: Any, modes: tuple[Literal["max", "min"], ...]
) -> None:
    optuna.logging.disable_default_handler()
    space = OptunaSpace(of_optuna())
    study = optuna.create_study(
        directions=[StudyDirection.MAXIMIZE if mode == "max" else StudyDirection.MINIMIZE for mode in modes]
    )
    searcher = nsga(
        of_optuna(),
        mode=modes[0],
        criteria=len(study.directions),
        kind=kind,
        population_size=8,
    )
    for number in range(80):
        study.sampler = sampler(population_size=8, seed=derive_proposal_seed(7, number, bits=32))
        study.sampler.space = space.distributions
        trial = study.ask(dict(space.distributions))
        proposed = ask(searcher, number)
        assert proposed.configuration == space.decode(trial.params)

        momentum, dropout, units = (
            float(proposed.configuration[name]) for name in ("momentum", "dropout", "hidden_units")
        )
        values = (momentum**2, dropout + momentum, units * dropout)[: len(study.directions)]
        observation(searcher, number, proposed, *values)
        study.tell(trial, list(values))
    assert proposed.attributes["generation"] == "9"
    assert len(proposed.attributes["parents"].split(",")) == 8


@pytest.mark.parametrize("kind", [Nsga2Settings, Nsga3Settings])
def test_it_finds_the_front_of_two_objectives(kind: Any) -> None:
    """Both are best where b and c are 0; a trades the one for the other."""
    searcher = nsga(PLANE, mode="min", kind=kind, population_size=20)
    found = []
    for number in range(400):
        proposed = ask(searcher, number)
        a, b, c = (float(value) for value in proposed.configuration.values())
        found.append((a, b + c))
        observation(searcher, number, proposed, a + b + c, 1 - a + b + c)
    latest = found[-100:]
    assert sum(distance < 0.2 for _, distance in latest) > 30  # at random: 2
    assert {int(a * 4) for a, distance in latest if distance < 0.2} >= {0, 1, 2, 3}


def test_nsga_3_spreads_out_where_more_is_better_just_as_where_less_is() -> None:
    """The same problem, turned around, has the same answer."""
    down, up = (nsga(PLANE, mode=mode, kind=Nsga3Settings, population_size=10) for mode in ("min", "max"))
    for number in range(100):
        proposed = ask(down, number)
        assert ask(up, number) == proposed
        a, b, c = (float(value) for value in proposed.configuration.values())
        observation(down, number, proposed, a + b + c, 1 - a + b + c)
        observation(up, number, proposed, -(a + b + c), 1 - a + b + c)


def test_parents_are_those_that_no_other_trial_beats() -> None:
    searcher = nsga(PLANE, mode="min", population_size=4)
    for number, values in enumerate([(1, 4), (4, 1), (5, 5), (2, 2), (6, 6), (7, 7), (1, 1), (9, 9)]):
        proposed = ask(searcher, number)
        assert proposed.attributes["generation"] == str(number // 4)
        observation(searcher, number, proposed, *values)
    first, second = nsga(PLANE, mode="min", population_size=4), ask(searcher, 8)
    assert ask(first, 8).attributes == {"generation": "0"}
    assert second.attributes == {"generation": "2", "parents": "0,1,3,6"}


def test_late_trials_become_parents_too() -> None:
    searcher = nsga(PLANE, mode="min", population_size=2)
    born = [ask(searcher, number) for number in range(3)]
    for number in range(2):
        observation(searcher, number, born[number], 5, 5)
    children = [ask(searcher, number) for number in (3, 4)]
    observation(searcher, 2, born[2], 1, 1)
    for number, child in enumerate(children, start=3):
        observation(searcher, number, child, 6, 6)
    assert "2" in ask(searcher, 5).attributes["parents"].split(",")


def test_a_deleted_trial_keeps_no_generation_from_going_on() -> None:
    searcher = nsga(PLANE, mode="min", population_size=4)
    observations = []
    for number in range(22):
        proposed = ask(searcher, number)
        told = Observation(number, proposed.configuration, float(number), 1, (30.0 - number,), proposed.attributes)
        observations.append(told)
        searcher.tell(told)
    rebuilt = nsga(PLANE, mode="min", population_size=4)
    for told in observations:
        if told.number != 6:
            rebuilt.tell(told)
    assert ask(rebuilt, 22) == ask(searcher, 22)


def test_known_results_are_of_the_first_generation() -> None:
    searcher = nsga(PLANE, mode="min", population_size=3)
    for number in range(3):
        searcher.tell(Observation(-1 - number, {"a": 0.5, "b": 0.5, "c": number / 2}, number, 1, (number,)))
    assert ask(searcher, 0).attributes == {"generation": "1", "parents": "-3,-2,-1"}


def test_an_infinite_value_is_worse_than_any_other() -> None:
    searcher = nsga(PLANE, mode="min", population_size=3)
    for number, value in enumerate([1.0, float("inf"), 2.0, 3.0, float("inf"), 1.5]):
        observation(searcher, number, ask(searcher, number), value, value)
    assert ask(searcher, 6).attributes["parents"] == "0,2,5"
