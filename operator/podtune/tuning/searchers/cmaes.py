"""The covariance matrix adaptation evolution strategy (CMA-ES), by the package `cmaes`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import numpy as np
from cmaes import CMA, get_warm_start_mgd
from optuna.distributions import CategoricalDistribution
from typing_extensions import override

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.search_settings import CmaEsSettings
from podtune.api.tuning.search_space import Parameter
from podtune.tuning.randomness import derive_proposal_seed
from podtune.tuning.searchers.base import Observation, PendingTrial, Proposal, Searcher
from podtune.tuning.searchers.spaces.optuna_space import OptunaSpace
from podtune.tuning.searchers.spaces.unit_cube import UnitCube, Vector

GENERATION = "generation"
"""The attribute of a proposal that says of which generation it is."""
_INITIAL_STEP = 1 / 6
"""The first standard deviation, as a share of each parameter's range: Optuna's."""
_ENOUGH_TO_START_FROM = 10
"""How many known results are needed for a best tenth, which Nomura et al. start from."""

Solution = tuple[Vector, float]


class CmaEsSearcher(Searcher):
    """Draws from a normal distribution whose mean and covariance move to where the better configurations were.

    It is strong if parameters are numbers that interact, and with hundreds of trials.

    Example:
        search: {algorithm: cmaes, cmaes: {populationSize: 16}, maxTrials: 400}

    Settings:
        populationSize: How many trials each update of the distribution uses. A larger one searches more widely and
            needs more trials; make it at least as large as the number of concurrent trials.

    Hansen, "The CMA Evolution Strategy: A Tutorial", https://arxiv.org/abs/1604.00772, with the defaults of Optuna's
    `CmaEsSampler`. The distribution changes once a generation, from the first `populationSize` of its trials that
    finish well; those that finish later are of no use, so it gains little from more concurrent trials than that.

    It models numbers alone: **choices are drawn at random**, each value as likely as any other. Integers and steps are
    drawn as real numbers and rounded.

    Known results move the start: to the best of them, or, of ten or more, to the distribution of the best tenth (Nomura
    et al., "Warm Starting CMA-ES", AAAI 2021).

    Nothing of the optimizer is stored: it is told again what its trials came to. All it takes is the generation that
    each was of, which is recorded with the proposal.
    """

    def __init__(
        self, parameters: Sequence[Parameter], objective: Objective, settings: CmaEsSettings, seed: int
    ) -> None:
        self._space = OptunaSpace(parameters)
        self._cube = UnitCube(self._space.distributions)
        self._settings = settings
        self._sign = -1.0 if objective.mode == "max" else 1.0
        self._seed = seed
        self._known: list[Solution] = []
        self._told: dict[int, list[Solution]] = {}
        self._optimizer = self._build_fresh() if self._cube.ranges else None

    @override
    def tell(self, observation: Observation) -> None:
        """Takes in a finished trial; the last one of a generation moves the distribution."""
        if self._optimizer is None or observation.value is None or math.isnan(observation.value):
            return
        solution = self._cube.to_cube(self._space.encode(observation.configuration)), self._sign * observation.value
        generation = observation.attributes.get(GENERATION)
        if generation is None:
            self._take_known(self._optimizer, solution)
            return
        self._told.setdefault(int(generation), []).append(solution)
        self._move(self._optimizer)

    @override
    def ask(self, number: int, pending: Sequence[PendingTrial], attempt: int = 0) -> Proposal | None:
        """Draws a configuration from the present distribution."""
        seed = derive_proposal_seed(self._seed, number, attempt, bits=32)
        draw = Random(seed)
        params: dict[str, float] = {
            name: draw.randrange(len(distribution.choices))
            for name, distribution in self._space.distributions.items()
            if isinstance(distribution, CategoricalDistribution)
        }
        if self._optimizer is None:
            return Proposal(self._space.decode(params))
        self._optimizer.reseed_rng(seed)
        params |= self._cube.from_cube(self._optimizer.ask())
        return Proposal(self._space.decode(params), {GENERATION: str(self._optimizer.generation)})

    def _move(self, optimizer: CMA) -> None:
        """Ends each generation that is complete.

        There may be several: where a Trial was deleted, its generation is completed by a later one, while those that
        followed are told already.
        """
        size = optimizer.population_size
        while len(solutions := self._told.get(optimizer.generation, [])) >= size:
            optimizer.tell(solutions[:size])
            self._told = {number: told for number, told in self._told.items() if number >= optimizer.generation}

    def _take_known(self, optimizer: CMA, solution: Solution) -> None:
        """Starts from a result that is not of a proposal, unless the first generation is over."""
        self._known.append(solution)
        if optimizer.generation == 0:
            self._optimizer = self._build_fresh()

    def _build_fresh(self) -> CMA:
        dimensions = len(self._cube.ranges)
        mean, step, covariance = np.full(dimensions, 0.5), _INITIAL_STEP, None
        if len(self._known) >= _ENOUGH_TO_START_FROM:
            mean, step, covariance = get_warm_start_mgd(self._known)
        elif self._known:
            mean = min(self._known, key=lambda known: known[1])[0]
        return CMA(
            mean=np.clip(mean, 0, 1),
            sigma=step,
            cov=covariance,
            bounds=np.array([[0.0, 1.0]] * dimensions),
            n_max_resampling=10 * dimensions,
            population_size=self._settings.population_size,
        )
