"""Gaussian process search: Bayesian optimisation by expected improvement.

Needs scikit-learn and SciPy, which only the operator's `gp` image has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from typing_extensions import override

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.search_settings import GpSettings
from podtune.api.tuning.search_space import Parameter
from podtune.tuning.randomness import derive_proposal_seed
from podtune.tuning.searchers.base import Configuration, Observation, PendingTrial, Proposal, Searcher
from podtune.tuning.searchers.models.expected_improvement import ExpectedImprovement, maximize
from podtune.tuning.searchers.models.gaussian_process import GaussianProcess, fit_map, limit_to_one_thread
from podtune.tuning.searchers.random import RandomSearcher
from podtune.tuning.searchers.spaces.model_space import ModelSpace
from podtune.tuning.searchers.spaces.optuna_space import OptunaSpace
from podtune.tuning.searchers.spaces.unit_cube import Vector

_CANDIDATES = 2048
"""How many random points are evaluated."""
_STARTS = 10
"""From so many of the best ones a maximum of the expected improvement is looked for."""
_MOST_UNFINISHED = 200
"""How many trials under way, the newest, proposals keep away from."""


class GpSearcher(Searcher):
    """Models the objective as a Gaussian process, and proposes where the expected improvement is highest.

    It needs the fewest trials, and takes the longest for each proposal: use it where a trial takes minutes or more.

    Example:
        search: {algorithm: gp, gp: {startupTrials: 10, maxPoints: 200}, maxTrials: 100}

    Settings:
        startupTrials: How many trials are drawn at random before the model is used.
        maxPoints: How many finished trials are modelled at most. The cost of a proposal grows with its cube.

    Jones et al., "Efficient Global Optimization of Expensive Black-Box Functions", 1998; a Matérn kernel with a weight
    for each parameter, and a prior on these as in Optuna's `GPSampler`. Trials under way are taken to come to what is
    expected of them, so that proposals made at the same time spread out.

    It models up to `maxPoints` trials: the best half of them and the latest others. A finished trial costs some 100 ms,
    whatever their number; trials under way and proposals from the same results cost less.
    """

    def __init__(self, parameters: Sequence[Parameter], objective: Objective, settings: GpSettings, seed: int) -> None:
        self._space = OptunaSpace(parameters)
        self._model_space = ModelSpace(self._space.distributions)
        self._random = RandomSearcher(parameters, seed)
        self._settings = settings
        self._sign = 1.0 if objective.mode == "max" else -1.0
        self._seed = seed
        self._points: list[Vector] = []
        self._values: list[float] = []
        self._fitted: tuple[int, GaussianProcess] | None = None

    @override
    def tell(self, observation: Observation) -> None:
        """Takes in a finished trial; one that failed is passed over."""
        if observation.value is not None and not math.isnan(observation.value):
            self._points.append(self._to_point(observation.configuration))
            self._values.append(self._sign * observation.value)

    @override
    def ask(self, number: int, pending: Sequence[PendingTrial], attempt: int = 0) -> Proposal | None:
        """Proposes a configuration, at random while fewer than `startupTrials` have finished well.

        A further attempt looks at half as many points as the one before, so that it comes to something else.
        """
        if not self._model_space.axes or len(self._values) < self._settings.startup_trials:
            return self._random.ask(number, pending, attempt)
        with limit_to_one_thread():
            point = self._find_promising(number, pending, attempt)
        return Proposal(self._space.decode(self._model_space.to_params(point)))

    def _find_promising(self, number: int, pending: Sequence[PendingTrial], attempt: int) -> Vector:
        """Returns the point (d,) with the highest expected improvement that is found."""
        under_way = [self._to_point(trial.configuration) for trial in pending[-_MOST_UNFINISHED:]]
        process = self._fit_process().fantasize(
            np.array(under_way).reshape(len(under_way), len(self._model_space.axes))
        )
        acquisition = ExpectedImprovement(process)
        random = np.random.default_rng(derive_proposal_seed(self._seed, number, attempt))
        candidates = self._model_space.draw(random, max(_CANDIDATES >> attempt, 1))
        best_first = np.argsort(-acquisition.evaluate(candidates), kind="stable")
        point: Vector = candidates[best_first[0]]
        if not attempt:
            known = self._points[int(np.argmax(self._values))]
            starts = [known, *candidates[best_first[: _STARTS - 1]]]
            maxima = [maximize(acquisition, start, self._model_space.axes) for start in starts]
            point = max(maxima, key=lambda reached: reached[0])[1]
        return point

    def _to_point(self, configuration: Configuration) -> Vector:
        return self._model_space.to_point(self._space.encode(configuration))

    def _fit_process(self) -> GaussianProcess:
        """Returns the process of what was told so far; it is fitted once, and then kept."""
        if self._fitted is None or self._fitted[0] != len(self._values):
            chosen = _choose_modelled(self._values, self._settings.max_points)
            points = np.array([self._points[index] for index in chosen])
            values = _standardise([self._values[index] for index in chosen])
            self._fitted = len(self._values), fit_map(points, values, self._model_space.choices)
        return self._fitted[1]


def _choose_modelled(values: Sequence[float], limit: int) -> Sequence[int]:
    """Returns the indices of the values that are modelled: the best half, and the latest of the others."""
    if len(values) <= limit:
        return range(len(values))
    best = set(sorted(range(len(values)), key=lambda index: (-values[index], index))[: limit // 2])
    others = [index for index in range(len(values)) if index not in best]
    return sorted(best | set(others[len(others) - (limit - len(best)) :]))


def _standardise(values: Sequence[float]) -> Vector:
    """Returns the values (n,) with mean 0 and standard deviation 1; infinite ones become the best or worst finite."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    clipped = np.clip(np.array(values), min(finite), max(finite))
    spread = float(clipped.std())
    standardised: Vector = (clipped - clipped.mean()) / spread if spread > 0 else np.zeros(len(values))
    return standardised
