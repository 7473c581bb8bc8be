"""Random search: every configuration is drawn on its own, whatever came of the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from typing_extensions import override

from podtune.api.search_space import ChoiceDomain, FloatDomain, IntDomain, Parameter, Scalar
from podtune.tuning.randomness import proposal_seed
from podtune.tuning.searchers.base import Proposed, Searcher, Tell, Unfinished
from podtune.tuning.searchers.domains import Domain, linear_points


class RandomSearcher(Searcher):
    """Draws each parameter independently and uniformly in its scale, with replacement.

    Choices, integers and stepped floats: every value is as likely as any other. Log scale: uniform in the logarithm;
    an integer is the rounded draw from half below its minimum to half above its maximum, so that the ends are not
    half as likely as their neighbours. Bergstra and Bengio, "Random Search for Hyper-Parameter Optimization", JMLR
    2012.

    A configuration may come up twice, as in Ray Tune and Katib; a space is never exhausted.
    """

    def __init__(self, parameters: Sequence[Parameter], seed: int) -> None:
        """Makes a searcher.

        Args:
            parameters: The search space.
            seed: The experiment's seed.
        """
        self._domains = {parameter.name: parameter.domain for parameter in parameters}
        self._seed = seed

    @override
    def tell(self, tell: Tell) -> None:
        """Learns nothing."""

    @override
    def ask(self, number: int, unfinished: Sequence[Unfinished], attempt: int = 0) -> Proposed | None:
        """Draws a configuration from a generator seeded by the experiment's seed and the number."""
        random = Random(proposal_seed(self._seed, number, attempt))
        return Proposed({name: _draw(domain, random) for name, domain in self._domains.items()})


def _draw(domain: Domain, random: Random) -> Scalar:
    points = linear_points(domain)
    if points is not None:
        return points.value(random.randrange(points.count))
    match domain:
        case IntDomain(min=low, max=high):
            return min(max(round(_log_uniform(low - 0.5, high + 0.5, random)), low), high)
        case FloatDomain(min=low, max=high, scale="log"):
            return min(max(_log_uniform(low, high, random), low), high)
        case FloatDomain(min=low, max=high):
            share = random.random()
            return min(max(low * (1 - share) + high * share, low), high)  # high - low may overflow
        case ChoiceDomain():
            raise AssertionError("choices are finite")


def _log_uniform(low: float, high: float, random: Random) -> float:
    return math.exp(math.log(low) + (math.log(high) - math.log(low)) * random.random())
