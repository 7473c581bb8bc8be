"""The tree-structured Parzen estimator (TPE), by Optuna."""

from __future__ import annotations

from collections.abc import Sequence

from optuna.samplers import TPESampler
from typing_extensions import override

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.search import TpeSettings
from podtune.api.tuning.search_space import Parameter
from podtune.tuning.randomness import derive_proposal_seed
from podtune.tuning.searchers.base import Observation, PendingTrial, Proposal, Searcher
from podtune.tuning.searchers.models.optuna_history import History
from podtune.tuning.searchers.spaces.optuna_space import OptunaSpace


class TpeSearcher(Searcher):
    """Models where good and where bad configurations lie, and proposes where their ratio is highest.

    It is a good first choice for tens to thousands of trials and any kind of space, conditional ones included.

    Example:
        search: {algorithm: tpe, tpe: {startupTrials: 10}, maxTrials: 100}

    Settings:
        startupTrials: How many trials are drawn at random before the model is used. More make a false start less
            likely.
        multivariate: Parameters are modelled jointly, which finds interactions between them.
        group: Conditional parameters are modelled with those they appear with; otherwise each alone.
        constantLiar: Trials under way count as bad ones, so that concurrent proposals spread out.

    Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011; multivariate as in Falkner et al.,
    "BOHB", ICML 2018. Trials under way count as bad ones (the constant liar), so that proposals made at the same time
    spread out. Failed trials are passed over. A trial that was stopped early counts with the value that it was told
    with, as in Ray Tune.

    Parameters that depend on conditions are modelled with those that always came with them (Optuna's `group`). Of
    several objectives, good are the trials of the first Pareto fronts (Ozaki et al., "Multiobjective Tree-Structured
    Parzen Estimator", JAIR 2022).
    """

    sees_inactive = False

    def __init__(self, parameters: Sequence[Parameter], objective: Objective, settings: TpeSettings, seed: int) -> None:
        self._settings = settings
        by_default = not objective.others or settings.group is True
        self._jointly = by_default if settings.multivariate is None else settings.multivariate
        self._seed = seed
        space = OptunaSpace(parameters)
        self._unconditional = tuple(p.name for p in parameters if not p.when and p.name in space.distributions)
        self._history = History(space, objective.criteria)

    @override
    def tell(self, observation: Observation) -> None:
        self._history.add(observation)

    @override
    def ask(self, number: int, pending: Sequence[PendingTrial], attempt: int = 0) -> Proposal | None:
        """Proposes a configuration, at random while fewer than `startupTrials` have finished well."""
        sampler = TPESampler(
            n_startup_trials=self._settings.startup_trials,
            multivariate=self._jointly,
            constant_liar=self._settings.constant_liar,
            seed=derive_proposal_seed(self._seed, number, attempt, bits=32),
        )
        return Proposal(self._history.propose(sampler, pending, self._list_groups()))

    def _list_groups(self) -> Sequence[Sequence[str]]:
        """The parameters that are modelled jointly."""
        if not self._jointly:
            return ()
        return (self._unconditional,) if self._settings.group is False else self._history.groups
