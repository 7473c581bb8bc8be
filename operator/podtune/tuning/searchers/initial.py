"""Proposals from the manifest, which come before the searcher's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from typing_extensions import override

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.prior_knowledge import InitialConfiguration
from podtune.tuning.searchers.base import Configuration, Observation, PendingTrial, Proposal, Searcher
from podtune.tuning.searchers.lazy_view import LazyView
from podtune.tuning.searchers.spaces.active_space import ActiveSpace


class InitialFirst(Searcher):
    """Proposes the configurations of `search.initial` first, and tells what is known of the others.

    The searcher that comes after counts its own proposals from 0, and so proposes what it would without them, but for
    what it learns of them. To it, theirs are numbers below 0.
    """

    def __init__(
        self, inner: Searcher, space: ActiveSpace, initial: Sequence[InitialConfiguration], objective: Objective
    ) -> None:
        self._inner = inner
        self.learns_from_rungs = inner.learns_from_rungs
        self.learns_from_results = inner.learns_from_results
        self._first = [space.complete(entry.parameters) for entry in initial if not entry.is_known]
        known = [entry for entry in initial if entry.is_known]
        self._known = len(known)
        for configuration in self._first:
            inner.skip(configuration)
        for index, entry in enumerate(known):
            value, *others = (entry.results[criterion.metric] for criterion in objective.criteria)
            number = index - self._known - len(self._first)
            inner.tell(Observation(number, space.complete(entry.parameters), value, step=0, others=tuple(others)))

    @override
    def tell(self, observation: Observation) -> None:
        self._inner.tell(replace(observation, number=self._compute_inner_number(observation.number)))

    @override
    def skip(self, configuration: Configuration) -> None:
        self._inner.skip(configuration)

    @override
    def ask(self, number: int, pending: Sequence[PendingTrial], attempt: int = 0) -> Proposal | None:
        """The configuration of the manifest with this number, or what the searcher proposes after them."""
        if number < len(self._first):
            return Proposal(self._first[number])
        view = LazyView(pending, lambda trial: replace(trial, number=self._compute_inner_number(trial.number)))
        return self._inner.ask(number - len(self._first), view, attempt)

    def _compute_inner_number(self, number: int) -> int:
        """Of what was tried before the experiment began, below those that the manifest knows of."""
        return number - len(self._first) - (self._known if number < 0 else 0)
