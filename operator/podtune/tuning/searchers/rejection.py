"""Rejection sampling: a draw that can't be used is drawn again."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from random import Random
from typing import TypeVar

from typing_extensions import override

from podtune.tuning.randomness import derive_proposal_seed
from podtune.tuning.searchers.base import Configuration, Observation, PendingTrial, Proposal, Searcher
from podtune.tuning.searchers.lazy_view import LazyView
from podtune.tuning.searchers.random import RandomSearcher
from podtune.tuning.searchers.spaces.active_space import ActiveSpace, InvalidConfiguration, PointKey, RejectionCounter
from podtune.tuning.searchers.spaces.inactive import INACTIVE, restore_inactive, write_inactive

_TRIES = "tries"
"""The attribute of a proposal that says how many draws it took, where it took more than one."""
_MAX_TRIES = 1000
"""So often is drawn for one proposal, at most; in a space of fewer points it is quicker to look at all of them."""
MODEL_TRIES = 25
"""How many of these draws are the searcher's own. A model can take half a second for one, so the rest are random."""
MODEL_REPETITIONS = 5
"""How many of these may repeat earlier trials; a model that repeats itself has nothing new to propose."""
MAX_SCAN = 100_000
"""How many points of a finite space are checked when draws find nothing new."""

T = TypeVar("T", Observation, PendingTrial)


class RejectionSearcher(Searcher):
    """Lays conditions, constraints, fixed and computed values around a searcher that knows nothing of them.

    A draw that a constraint refuses is drawn again, and so is, in a finite space, one that was tried already or is
    under way. When all draws are such, the points of a finite space are gone through for what is left; where nothing
    is, the space is exhausted.
    """

    def __init__(self, space: ActiveSpace, inner: Searcher, seed: int) -> None:
        self._space = space
        self.inner = inner
        self.learns_from_rungs = inner.learns_from_rungs
        self.learns_from_results = inner.learns_from_results
        self._random = RandomSearcher(space.sampled, seed)
        self._seed = seed
        self._tree = space.find_countable_points()
        self._tried: set[PointKey] = set()
        self._tries = MODEL_TRIES if self._tree is not None and self._tree.count <= _MAX_TRIES else _MAX_TRIES

    @override
    def tell(self, observation: Observation) -> None:
        if self._tree is not None:
            self._tried.add(self._space.build_key(observation.configuration))
        self.inner.tell(self._as_drawn(observation))

    @override
    def skip(self, configuration: Configuration) -> None:
        """Draws something else in a finite space."""
        if self._tree is not None:
            self._tried.add(self._space.build_key(configuration))

    @override
    def ask(self, number: int, pending: Sequence[PendingTrial], attempt: int = 0) -> Proposal | None:
        """Draws until something can be used."""
        under_way = (
            frozenset() if self._tree is None else {self._space.build_key(trial.configuration) for trial in pending}
        )
        if self._is_exhausted(under_way):
            return None
        view = LazyView(pending, self._as_drawn)
        refusals = RejectionCounter()
        drawn: Proposal | None = None
        for tries in range(self._tries):
            draw = attempt * _MAX_TRIES + tries
            if drawn is None or (tries < MODEL_TRIES and tries - refusals.count < MODEL_REPETITIONS):
                drawn = self.inner.ask(number, view, draw)
            else:
                drawn = replace(drawn, configuration=self._random.draw(number, draw))
            if drawn is None:
                return None
            configuration = self._find_usable(drawn.configuration, under_way, refusals)
            if configuration is not None:
                return self._build_proposal(drawn, configuration, tries + 1)
        found = self._find_left_over(number, under_way, refusals)
        return None if found is None or drawn is None else self._build_proposal(drawn, found, self._tries + 1)

    def _find_usable(
        self, values: Configuration, under_way: Set[PointKey], refusals: RejectionCounter
    ) -> Configuration | None:
        """The configuration that values make, unless a constraint refuses it, or it is not new in a finite space."""
        try:
            configuration = self._space.build_configuration(values)
        except InvalidConfiguration as refused:
            refusals.add(refused)
            return None
        if self._tree is None:
            return configuration
        key = self._space.build_key(configuration)
        return None if key in self._tried or key in under_way else configuration

    def _build_proposal(self, drawn: Proposal, configuration: Configuration, tries: int) -> Proposal:
        attributes = dict(drawn.attributes)
        if tries > 1:
            attributes[_TRIES] = str(tries)
        if self.inner.sees_inactive and (
            inactive := write_inactive(self._space.sampled, drawn.configuration, configuration)
        ):
            attributes[INACTIVE] = inactive
        return Proposal(configuration, attributes)

    def _is_exhausted(self, under_way: Set[PointKey]) -> bool:
        """Whether all points of a finite space were tried, as far as that can be said without a look at them."""
        if self._tree is None or self._space.refuses:
            return False
        return len(self._tried) + len(under_way - self._tried) >= self._tree.count

    def _find_left_over(
        self, number: int, under_way: Set[PointKey], refusals: RejectionCounter
    ) -> Configuration | None:
        """The first point of a finite space, from a random one on, that was not tried yet."""
        if self._tree is None:
            raise refusals.build_error(self._tries)
        count = self._tree.count
        start = Random(derive_proposal_seed(self._seed, number, _MAX_TRIES)).randrange(count)
        refused = refusals.count
        looked_at = min(count, MAX_SCAN)
        for step in range(looked_at):
            configuration = self._find_usable(self._tree.get_point((start + step) % count), under_way, refusals)
            if configuration is not None:
                return configuration
        if refusals.count - refused < looked_at:
            return None  # what wasn't refused was tried
        raise refusals.build_error(self._tries + looked_at)

    def _as_drawn(self, trial: T) -> T:
        """The trial with what the searcher knows of its configuration."""
        values = self._space.extract_sampled_values(trial.configuration)
        if self.inner.sees_inactive:
            values = restore_inactive(self._space.sampled, values, trial.attributes)
        return replace(trial, configuration=values)
