"""What Optuna's samplers look at: the trials told so far and, during a proposal, those under way.

A study of Optuna's keeps what it is asked, which would make a proposal depend on earlier ones, also on those that
came to nothing. So `Study.ask` isn't used. The study holds finished trials alone, in the order of tells; trials under
way are laid over it for the length of one proposal; and the sampler is called directly, with the space that is known
anyway (inferring it from 10,000 trials would take 100 ms).
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, TrialState
from typing_extensions import override

from podtune.tuning.searchers.base import Configuration, Tell, Unfinished
from podtune.tuning.searchers.space import OptunaSpace

_STUDY = "experiment"


class History:
    """Finished trials, and how a sampler proposes the next one from them."""

    def __init__(self, space: OptunaSpace, mode: Literal["max", "min"]) -> None:
        """Makes an empty history.

        Args:
            space: The search space.
            mode: Whether more (max) or less (min) of the objective is better.
        """
        self._space = space
        self._storage = _OverlaidStorage()
        with _silenced():
            self._study = optuna.create_study(
                storage=self._storage, study_name=_STUDY, direction="maximize" if mode == "max" else "minimize"
            )

    def add(self, tell: Tell) -> None:
        """Adds a finished trial; one without a value, or with NaN, as failed: samplers pass it over."""
        failed = tell.value is None or math.isnan(tell.value)
        self._study.add_trial(
            optuna.trial.create_trial(
                state=TrialState.FAIL if failed else TrialState.COMPLETE,
                value=None if failed else tell.value,
                params=self._space.encode(tell.configuration),
                distributions=dict(self._space.distributions),
            )
        )

    def propose(self, sampler: BaseSampler, unfinished: Sequence[Unfinished], *, jointly: bool = True) -> Configuration:
        """Has a sampler propose a configuration.

        Args:
            sampler: A fresh sampler.
            unfinished: The trials that are under way, ordered by number.
            jointly: Whether the sampler proposes all parameters at once, or one by one.
        """
        under_way = [self._space.encode(trial.configuration) for trial in unfinished]
        trial = self._storage.overlay(under_way, self._space.distributions)
        # A study caches the trials that it has seen once; a fresh one sees those added since.
        study = optuna.load_study(study_name=_STUDY, storage=self._storage, sampler=sampler)
        params = sampler.sample_relative(study, trial, dict(self._space.distributions)) if jointly else {}
        for name, distribution in self._space.distributions.items():
            if name not in params:
                params[name] = sampler.sample_independent(study, trial, name, distribution)
        return self._space.decode(params)


class _OverlaidStorage(InMemoryStorage):
    """An in-memory storage over which running trials can be laid, until others are laid there instead."""

    def __init__(self) -> None:
        super().__init__()
        self._running: list[FrozenTrial] = []

    def overlay(
        self, under_way: Sequence[Mapping[str, float]], distributions: Mapping[str, BaseDistribution]
    ) -> FrozenTrial:
        """Shows trials under way, after all finished ones; returns the one to be proposed, the last of them."""
        finished = len(super().get_all_trials(self.get_study_id_from_name(_STUDY), deepcopy=False))
        self._running = [
            _running_trial(finished + place, params, distributions) for place, params in enumerate([*under_way, {}])
        ]
        return self._running[-1]

    @override
    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        """All finished trials, and those under way after them."""
        trials = super().get_all_trials(study_id, deepcopy, states)
        if states is None or TrialState.RUNNING in states:
            trials += self._running
        return trials

    @override
    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Does nothing: samplers note there what other processes should know of the trial just proposed."""


def _running_trial(
    number: int, params: Mapping[str, float], distributions: Mapping[str, BaseDistribution]
) -> FrozenTrial:
    return FrozenTrial(
        number=number,
        trial_id=number,
        state=TrialState.RUNNING,
        value=None,
        datetime_start=None,
        datetime_complete=None,
        params=dict(params),
        distributions={name: distributions[name] for name in params},
        user_attrs={},
        system_attrs={},
        intermediate_values={},
    )


@contextmanager
def _silenced() -> Iterator[None]:
    """Keeps Optuna from logging that a study was made; its verbosity is a setting of the process, so it is put back."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)
