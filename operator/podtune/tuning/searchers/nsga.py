"""NSGA-II and NSGA-III, genetic algorithms for several objectives, by Optuna."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import optuna
from optuna.samplers import NSGAIISampler
from optuna.samplers._lazy_random_state import LazyRandomState
from optuna.samplers._nsgaiii._elite_population_selection_strategy import NSGAIIIElitePopulationSelectionStrategy
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from typing_extensions import override

from podtune.api.tuning.objective import Criterion, Objective
from podtune.api.tuning.search_settings import Nsga2Settings, Nsga3Settings
from podtune.api.tuning.search_space import Parameter
from podtune.tuning.randomness import derive_proposal_seed, derive_seed
from podtune.tuning.searchers.base import Observation, PendingTrial, Proposal, Searcher
from podtune.tuning.searchers.models.optuna_history import create_study, read_values
from podtune.tuning.searchers.spaces.optuna_space import OptunaSpace

GENERATION, PARENTS = "generation", "parents"
"""Attributes of a proposal: of which generation it is, and the numbers of those that it may descend from."""


class NsgaSearcher(Searcher):
    """Breeds each generation from the best trials so far: those that no other trial beats in all objectives.

    Example:
        search: {algorithm: nsga2, nsga2: {populationSize: 40, mutationProbability: 0.1}, maxTrials: 400}
        objective: {metric: accuracy, mode: max, others: [{metric: latency, mode: min}]}

    Settings:
        populationSize: How many trials a generation has. More keep a wider front, and need more trials.
        crossoverProbability: Probability that a trial has two parents; otherwise it is a copy of one.
        swappingProbability: Probability that a parameter comes from the second of two parents.
        mutationProbability: Probability that a parameter is resampled. Higher values search more widely.
        divisions: Of NSGA-III: how fine the grid of reference points is, and so how many ways to weigh objectives.

    NSGA-II (Deb et al., IEEE Transactions on Evolutionary Computation 2002) prefers among equals those with few others
    around them; NSGA-III (Deb and Jain, 2014), made for three and more objectives, those near reference points.
    Crossover, mutation and selection are Optuna's; but its NSGA-III measures the distance to reference points as if
    less of all objectives were better, so ours turns the others around first.

    A generation is over as soon as `populationSize` of its trials have finished well. What follows is bred from the
    best of all that finished since the last time, late ones of earlier generations included (Optuna's samplers lose
    those), and of the parents so far.

    A proposal records its generation and the parents. They follow from the tells that came before, unless a Trial was
    deleted: then its generation would never be over, and the record is what the search goes on from.
    """

    def __init__(
        self, parameters: Sequence[Parameter], objective: Objective, settings: Nsga2Settings | Nsga3Settings, seed: int
    ) -> None:
        self._space = OptunaSpace(parameters)
        criteria = objective.criteria
        if isinstance(settings, Nsga3Settings):
            criteria = tuple(Criterion(metric=criterion.metric, mode="min") for criterion in criteria)
        self._signs = [
            1 if seen.mode == asked.mode else -1 for seen, asked in zip(criteria, objective.criteria, strict=True)
        ]
        self._study = create_study(criteria)
        self._settings = settings
        self._seed = seed
        self._generation = 0
        self._born = 0  # of this generation, those that finished well
        self._pool: dict[int, FrozenTrial] = {}
        self._parents: dict[int, FrozenTrial] = {}

    @override
    def tell(self, observation: Observation) -> None:
        """Takes in a finished trial; the last one of a generation begins the next."""
        values = read_values(observation, len(self._signs))
        if values is None:
            return
        generation = int(observation.attributes.get(GENERATION, self._generation))
        if generation > self._generation:
            # It has not begun here: Trials of the one before were deleted.
            parents = observation.attributes.get(PARENTS, "")
            self._become(generation, set(map(int, filter(None, parents.split(",")))))
        self._pool[observation.number] = self._build_individual(observation, values)
        self._born += generation == self._generation
        if self._born == self._settings.population_size:
            self._begin_generation()

    @override
    def ask(self, number: int, pending: Sequence[PendingTrial], attempt: int = 0) -> Proposal | None:
        """Breeds a configuration, or draws it at random in the first generation."""
        sampler = self._build_sampler(derive_proposal_seed(self._seed, number, attempt, bits=32))
        trial = optuna.trial.create_trial(state=TrialState.RUNNING)
        params = sampler.sample_relative(self._study, trial, dict(self._space.distributions))
        for name, distribution in self._space.distributions.items():
            if name not in params:
                params[name] = sampler.sample_independent(self._study, trial, name, distribution)
        attributes = {GENERATION: str(self._generation)}
        if self._parents:
            attributes[PARENTS] = ",".join(map(str, self._parents))
        return Proposal(self._space.decode(params), attributes)

    def _begin_generation(self) -> None:
        sampler = self._build_sampler(derive_seed(self._seed, "generation", self._generation + 1, bits=32))
        chosen = {trial.number for trial in sampler.select_parent(self._study, self._generation + 1)}
        self._become(self._generation + 1, chosen)

    def _become(self, generation: int, parents: set[int]) -> None:
        known = self._pool | self._parents
        self._parents = {number: known[number] for number in sorted(parents & known.keys())}
        self._pool = {}
        self._generation = generation
        self._born = 0

    def _build_individual(self, observation: Observation, values: list[float]) -> FrozenTrial:
        """A finished trial, as Optuna sees it."""
        params = self._space.encode(observation.configuration)
        signed = [sign * value for sign, value in zip(self._signs, values, strict=True)]
        trial = optuna.trial.create_trial(values=signed, params=params, distributions=dict(self._space.distributions))
        trial.number = observation.number
        return trial

    def _build_sampler(self, seed: int) -> _Nsga2:
        settings = self._settings
        arguments: dict[str, Any] = {
            "population_size": settings.population_size,
            "crossover_prob": settings.crossover_probability,
            "swapping_prob": settings.swapping_probability,
            "mutation_prob": settings.mutation_probability,
            "seed": seed,
        }
        sampler = (
            _Nsga3(settings.divisions, **arguments) if isinstance(settings, Nsga3Settings) else _Nsga2(**arguments)
        )
        sampler.pool, sampler.parents = list(self._pool.values()), list(self._parents.values())
        return sampler


class _Nsga2(NSGAIISampler):
    """Takes pool and parents from its owner; Optuna's looks for them in the study, where others would have put them."""

    pool: list[FrozenTrial]
    parents: list[FrozenTrial]

    @override
    def get_trial_generation(self, study: Study, trial: FrozenTrial) -> int:
        return 1

    @override
    def get_population(self, study: Study, generation: int) -> list[FrozenTrial]:
        return self.pool

    @override
    def get_parent_population(self, study: Study, generation: int) -> list[FrozenTrial]:
        return self.parents


class _Nsga3(_Nsga2):
    """Differs in its choice of parents alone; Optuna's class says each time it is made that it is experimental."""

    def __init__(self, divisions: int, *, population_size: int, seed: int, **arguments: Any) -> None:
        super().__init__(population_size=population_size, seed=seed, **arguments)
        self._select = NSGAIIIElitePopulationSelectionStrategy(
            population_size=population_size, dividing_parameter=divisions, rng=LazyRandomState(seed)
        )

    @override
    def select_parent(self, study: Study, generation: int) -> list[FrozenTrial]:
        return self._select(study, self.pool + self.parents)
