"""Proposals by a searcher that draws: what can't be used is drawn again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

from typing_extensions import override

from podtune.tuning.randomness import proposal_seed
from podtune.tuning.searchers.active_space import ActiveSpace, Key, Refusals, Refused
from podtune.tuning.searchers.base import Configuration, Proposed, Searcher, Tell, Unfinished
from podtune.tuning.searchers.inactive import INACTIVE, left_out, with_left_out
from podtune.tuning.searchers.random import RandomSearcher

TRIES = "tries"
"""The attribute of a proposal that says how many draws it took, where it took more than one."""
MAX_TRIES = 1000
"""So often is drawn for one proposal, at most."""
MODEL_TRIES = 25
"""So many of these draws are the searcher's own; a model can take half a second for one, so the rest is random."""
MAX_WALK = 100_000
"""So many points of a finite space are looked at when draws find nothing new."""

T = TypeVar("T", Tell, Unfinished)


class DrawingSearcher(Searcher):
    """Lays conditions, constraints, fixed and computed values around a searcher that knows nothing of them.

    A draw that a constraint refuses is drawn again, and so is, in a finite space, one that was tried already or is
    under way. When all draws are such, the points of a finite space are gone through for what is left; where nothing
    is, the space is exhausted.

    Attributes:
        inner: What draws.
    """

    def __init__(self, space: ActiveSpace, inner: Searcher, seed: int) -> None:
        """Makes a searcher.

        Args:
            space: What may be tried.
            inner: What draws values for the sampled parameters of the space; it has been told nothing.
            seed: The experiment's seed.
        """
        self._space = space
        self.inner = inner
        self._random = RandomSearcher(space.sampled, seed)
        self._seed = seed
        self._tree = space.countable_points()
        self._tried: set[Key] = set()

    @override
    def tell(self, tell: Tell) -> None:
        """Takes in what came of a configuration."""
        if self._tree is not None:
            self._tried.add(self._space.key(tell.configuration))
        self.inner.tell(self._as_drawn(tell))

    @override
    def skip(self, configuration: Configuration) -> None:
        """Draws something else in a finite space."""
        if self._tree is not None:
            self._tried.add(self._space.key(configuration))

    @override
    def ask(self, number: int, unfinished: Sequence[Unfinished], attempt: int = 0) -> Proposed | None:
        """Draws until something can be used."""
        used = self._used(unfinished)
        if self._tree is not None and not self._space.refuses and len(used) >= self._tree.count:
            return None
        shown = [self._as_drawn(trial) for trial in unfinished]
        refusals = Refusals()
        drawn: Proposed | None = None
        for tries in range(MAX_TRIES):
            drawn = self._draw(number, shown, attempt * MAX_TRIES + tries, drawn)
            if drawn is None:
                return None
            proposed = self._usable(drawn, used, refusals)
            if proposed is not None:
                return proposed if not tries else _with(proposed, TRIES, str(tries + 1))
        found = self._left_over(number, used, refusals)
        return None if found is None or drawn is None else replace(drawn, configuration=found)

    def _draw(
        self, number: int, unfinished: Sequence[Unfinished], attempt: int, last: Proposed | None
    ) -> Proposed | None:
        if last is None or attempt % MAX_TRIES < MODEL_TRIES:
            return self.inner.ask(number, unfinished, attempt)
        at_random = self._random.ask(number, unfinished, attempt)
        return None if at_random is None else replace(at_random, attributes=last.attributes)

    def _usable(self, drawn: Proposed, used: Collection[Key], refusals: Refusals) -> Proposed | None:
        """What is proposed, or None where it can't be."""
        try:
            configuration = self._space.configuration(drawn.configuration)
        except Refused as refused:
            refusals.add(refused)
            return None
        if self._tree is not None and self._space.key(configuration) in used:
            return None
        proposed = replace(drawn, configuration=configuration)
        inactive = left_out(self._space.sampled, drawn.configuration, configuration)
        return _with(proposed, INACTIVE, inactive) if inactive and self.inner.sees_inactive else proposed

    def _left_over(self, number: int, used: Collection[Key], refusals: Refusals) -> Configuration | None:
        """The first point of a finite space, from a random one on, that was not tried yet."""
        if self._tree is None:
            raise refusals.error(MAX_TRIES)
        start = Random(proposal_seed(self._seed, number, MAX_TRIES)).randrange(self._tree.count)
        looked_at = min(self._tree.count, MAX_WALK)
        duplicates = False
        for step in range(looked_at):
            values = self._tree.point((start + step) % self._tree.count)
            try:
                configuration = self._space.configuration(values)
            except Refused as refused:
                refusals.add(refused)
                continue
            if self._space.key(configuration) not in used:
                return configuration
            duplicates = True
        if duplicates or not refusals.count:
            return None
        raise refusals.error(MAX_TRIES + looked_at)

    def _used(self, unfinished: Sequence[Unfinished]) -> Collection[Key]:
        """What was tried or is under way; of no interest in an infinite space."""
        if self._tree is None:
            return ()
        return self._tried | {self._space.key(trial.configuration) for trial in unfinished}

    def _as_drawn(self, trial: T) -> T:
        """The trial with what the searcher knows of its configuration."""
        values = self._space.sampled_values(trial.configuration)
        if self.inner.sees_inactive:
            values = with_left_out(self._space.sampled, values, trial.attributes)
        return replace(trial, configuration=values)


def _with(proposed: Proposed, name: str, value: str) -> Proposed:
    return replace(proposed, attributes={**proposed.attributes, name: value})
