"""Random search: every configuration is drawn independently of the others' results."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from typing_extensions import override

from podtune.api.tuning.search_space import Domain, Parameter, Scalar
from podtune.tuning.domains.points import find_linear_points
from podtune.tuning.domains.quantiles import compute_value_at
from podtune.tuning.randomness import derive_proposal_seed
from podtune.tuning.searchers.base import Configuration, Observation, PendingTrial, Proposal, Searcher
from podtune.tuning.searchers.sequences.sequence_searcher import PointSequence, SequenceSearcher, ThenEveryOther
from podtune.tuning.searchers.spaces.active_space import ActiveSpace


class RandomSearcher(Searcher):
    """Draws each parameter independently: uniformly in its scale, or by its own distribution (see `compute_value_at`).

    It needs nothing to learn from, so any number of trials can run at once. It is the baseline that others have to
    beat.

    Example:
        search: {algorithm: random, maxTrials: 50, seed: 7}

    Bergstra and Bengio, "Random Search for Hyper-Parameter Optimization", JMLR 2012.
    """

    sees_inactive = False

    def __init__(self, parameters: Sequence[Parameter], seed: int) -> None:
        self._domains = {parameter.name: parameter.domain for parameter in parameters}
        self._seed = seed

    @override
    def tell(self, observation: Observation) -> None:
        """Learns nothing."""

    @override
    def ask(self, number: int, pending: Sequence[PendingTrial], attempt: int = 0) -> Proposal | None:
        """Draws a configuration from a generator seeded by the experiment's seed and the number."""
        return Proposal(self.draw(number, attempt))

    def draw(self, number: int, attempt: int = 0) -> Configuration:
        """The values that are drawn for a number, attempt by attempt."""
        random = Random(derive_proposal_seed(self._seed, number, attempt))
        return {name: draw(domain, random) for name, domain in self._domains.items()}


class RandomDraws(PointSequence):
    """The draws of a random search without an end."""

    is_distinct = False

    def __init__(self, searcher: RandomSearcher) -> None:
        self._searcher = searcher

    @override
    def point(self, index: int) -> Configuration:
        """The values that are drawn for a number."""
        return self._searcher.draw(index)


def make_without_repetitions(space: ActiveSpace, seed: int) -> Searcher | None:
    """A random search of a finite space that proposes each configuration once; None where the space is infinite."""
    every = space.find_countable_points()
    if every is None:
        return None
    return SequenceSearcher(space, ThenEveryOther(RandomDraws(RandomSearcher(space.sampled, seed)), every))


def draw(domain: Domain, random: Random) -> Scalar:
    """Draws a value of a domain.

    Args:
        domain: The domain.
        random: Where the draw comes from.
    """
    points = find_linear_points(domain)
    if points is not None:
        return points.value(random.randrange(points.count))
    return compute_value_at(domain, random.random())
