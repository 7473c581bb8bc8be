"""What Optuna's samplers look at: the trials told so far and, during a proposal, those under way.

A study of Optuna's keeps what it is asked, which would make a proposal depend on earlier ones, also on those that
came to nothing. So `Study.ask` isn't used. The study holds finished trials alone, in the order of observations; trials
under way are laid over it for the length of one proposal; and the sampler is called directly, with the space that is
known anyway (inferring it from 10,000 trials would take 100 ms).
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.storages import InMemoryStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState
from typing_extensions import override

from podtune.api.tuning.objective import Criterion
from podtune.tuning.searchers.base import Configuration, Observation, PendingTrial
from podtune.tuning.searchers.spaces.optuna_space import OptunaSpace

_STUDY = "experiment"
_DIRECTIONS = {"max": StudyDirection.MAXIMIZE, "min": StudyDirection.MINIMIZE}


class History:
    """Finished trials, and how a sampler proposes the next one from them."""

    def __init__(self, space: OptunaSpace, criteria: Sequence[Criterion]) -> None:
        self._space = space
        self._criteria = len(criteria)
        self._storage = _OverlaidStorage()
        self._groups = [tuple(space.distributions)]
        self._numbers: set[int] = set()
        self.count = 0
        """How many of the trials have values."""
        self._study = create_study(criteria, self._storage)

    def __contains__(self, number: int) -> bool:
        """Whether the proposal with this number has been told of."""
        return number in self._numbers

    @property
    def groups(self) -> Sequence[Sequence[str]]:
        """Parameters by which of them always came together, all in one until a trial lacks some.

        It is how Optuna's `group` has them modelled, brought up to date a trial at a time.
        """
        return self._groups

    def add(self, observation: Observation) -> None:
        """Adds a finished trial; one without a value, or with NaN, as failed: samplers pass it over."""
        self._numbers.add(observation.number)
        params = self._space.encode(observation.configuration)
        values = read_values(observation, self._criteria)
        self._study.add_trial(
            optuna.trial.create_trial(
                state=TrialState.FAIL if values is None else TrialState.COMPLETE,
                values=values,
                params=params,
                distributions={name: self._space.distributions[name] for name in params},
            )
        )
        if values is not None:
            self.count += 1
            self._groups = list(_split(self._groups, params))

    def propose(
        self, sampler: BaseSampler, pending: Sequence[PendingTrial], groups: Sequence[Sequence[str]]
    ) -> Configuration:
        """Has a sampler propose a configuration.

        Args:
            sampler: A fresh sampler.
            pending: The trials that are under way, ordered by number.
            groups: Parameters that the sampler proposes at once; others it proposes one by one.
        """
        under_way = [self._space.encode(trial.configuration) for trial in pending]
        trial = self._storage.overlay(under_way, self._space.distributions)
        # A study caches the trials that it has seen once; a fresh one sees those added since.
        study = optuna.load_study(study_name=_STUDY, storage=self._storage, sampler=sampler)
        params: dict[str, Any] = {}
        for group in groups:
            params |= sampler.sample_relative(study, trial, {name: self._space.distributions[name] for name in group})
        for name, distribution in self._space.distributions.items():
            if name not in params:
                params[name] = sampler.sample_independent(study, trial, name, distribution)
        return self._space.decode(params)


def create_study(criteria: Sequence[Criterion], storage: InMemoryStorage | None = None) -> Study:
    """Makes an empty study.

    Args:
        criteria: What is optimised.
        storage: Where it is; somewhere of its own, unless given.
    """
    directions = [_DIRECTIONS[criterion.mode] for criterion in criteria]
    with _silence():
        return optuna.create_study(storage=storage or InMemoryStorage(), study_name=_STUDY, directions=directions)


def read_values(observation: Observation, criteria: int) -> list[float] | None:
    """The values that a trial came to; None where one is missing or NaN."""
    if observation.value is None or len(observation.others) + 1 != criteria:
        return None
    values = [observation.value, *observation.others]
    return None if any(map(math.isnan, values)) else values


def _split(groups: Sequence[Sequence[str]], present: Container[str]) -> Iterator[tuple[str, ...]]:
    """Splits each group in what is present and what is not."""
    for group in groups:
        yield from filter(
            None,
            (
                tuple(name for name in group if name in present),
                tuple(name for name in group if name not in present),
            ),
        )


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
            _build_running_trial(finished + offset, params, distributions)
            for offset, params in enumerate([*under_way, {}])
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


def _build_running_trial(
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
def _silence() -> Iterator[None]:
    """Keeps Optuna from logging that a study was made; its verbosity is a setting of the process, so it is put back."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)
