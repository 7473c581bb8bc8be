"""BOHB: a Parzen estimator that learns from the rungs of HyperBand."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from random import Random

from optuna.samplers import TPESampler
from typing_extensions import override

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import BohbSettings
from podtune.api.tuning.search_settings import BohbSearchSettings
from podtune.api.tuning.search_space import Parameter
from podtune.tuning.randomness import derive_proposal_seed, derive_seed
from podtune.tuning.searchers.base import Observation, PendingTrial, Proposal, Searcher
from podtune.tuning.searchers.models.optuna_history import History
from podtune.tuning.searchers.random import RandomSearcher
from podtune.tuning.searchers.spaces.optuna_space import OptunaSpace

_TOP = 0
"""The level of maxTime; that of a rung is the number of reductions below it."""


class BohbSearcher(Searcher):
    """Models the values at the highest rung that enough trials have reached.

    Example:
        search: {algorithm: bohb, bohb: {randomFraction: 0.33}, maxTrials: 200}
        scheduler:
          bohb: {maxTime: 81, reductionFactor: 3}

    Settings:
        randomFraction: The share of random proposals. More protect against a misleading low rung, but learn less.
        minPoints: A rung is modelled once this many trials plus two have reached it.

    Falkner et al., "BOHB: Robust and Efficient Hyperparameter Optimization at Scale", ICML 2018,
    https://arxiv.org/abs/1807.01774. It goes with HyperBand, which runs most trials for a short time: at first there
    are values at the lowest rung alone, and each model is given up for that of a higher rung as soon as it can be. Some
    proposals stay random, so that a low rung which misleads is found out.

    Where this differs from the paper:

    - The estimator is Optuna's multivariate one: its bandwidths, and the best tenth, at most 25, as the good ones,
      where the paper has the best 15 %. Trials that have not reached the rung count as bad ones (the constant liar).
    - Where maxTime is no power of the reduction factor, the rungs of brackets are slightly different ones: those within
      half a factor count as the same.
    - Failed trials are passed over; the paper's program counts them as bad ones.

    Results that were known before count as reached at maxTime.
    """

    sees_inactive = False
    learns_from_rungs = True

    def __init__(
        self,
        parameters: Sequence[Parameter],
        objective: Objective,
        settings: BohbSearchSettings,
        brackets: BohbSettings,
        seed: int,
    ) -> None:
        space = OptunaSpace(parameters)
        self._levels: defaultdict[int, History] = defaultdict(lambda: History(space, objective.criteria))
        self._random = RandomSearcher(parameters, seed)
        self._random_fraction = settings.random_fraction
        self._enough = (settings.min_points or len(space.distributions) + 1) + 2
        self._max_time, self._factor = brackets.max_time, brackets.reduction_factor
        self._seed = seed

    @override
    def tell(self, observation: Observation) -> None:
        """Takes in the value at a rung; the end of a trial says nothing new."""
        if not observation.final:
            history = self._levels[self._compute_level(observation.step)]
            if observation.number not in history:
                history.add(observation)
        elif observation.number < 0 and not any(observation.number in history for history in self._levels.values()):
            self._levels[_TOP].add(observation)  # it was known before

    @override
    def ask(self, number: int, pending: Sequence[PendingTrial], attempt: int = 0) -> Proposal | None:
        """Proposes a configuration, at random while no rung has enough values, and now and then later."""
        history = self._find_best_founded()
        draw = Random(derive_seed(self._seed, "proposal", number, "random or model"))
        if history is None or draw.random() < self._random_fraction:
            return self._random.ask(number, pending, attempt)
        sampler = TPESampler(
            n_startup_trials=0, multivariate=True, seed=derive_proposal_seed(self._seed, number, attempt, bits=32)
        )
        not_there_yet = [trial for trial in pending if trial.number not in history]
        return Proposal(history.propose(sampler, not_there_yet, history.groups))

    def _find_best_founded(self) -> History | None:
        """The highest rung with enough values."""
        return next(
            (self._levels[level] for level in sorted(self._levels) if self._levels[level].count >= self._enough), None
        )

    def _compute_level(self, step: int) -> int:
        return round(math.log(self._max_time / step, self._factor))
