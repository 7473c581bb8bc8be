"""Quasi-Monte Carlo search: configurations that fill the space more evenly than random ones."""

from __future__ import annotations

from typing_extensions import override

from podtune.api.tuning.search_settings import QmcSettings
from podtune.tuning.domains.quantiles import compute_value_at
from podtune.tuning.randomness import build_generator
from podtune.tuning.searchers.base import Configuration
from podtune.tuning.searchers.sequences.low_discrepancy import Halton, Sobol, UnitSequence
from podtune.tuning.searchers.sequences.sequence_searcher import PointSequence, SequenceSearcher, ThenEveryOther
from podtune.tuning.searchers.spaces.active_space import ActiveSpace


class QmcSearcher(SequenceSearcher):
    """Takes configurations from a Sobol or Halton sequence over all sampled parameters, each a dimension.

    Use it where random search would do, and trials are few: there are no clusters and no gaps.

    Example:
        search: {algorithm: qmc, qmc: {sequence: sobol}, maxTrials: 64}

    Settings:
        sequence: `sobol` is most even after 2, 4, 8, … trials; `halton` at any number of them.
        scramble: The seed randomises the sequence. Without it, all experiments begin in the same corner of the space.

    Conditions leave out what does not exist, so in a conditional space the points of a branch are as even as a part of
    the whole sequence is. A finite space has each configuration once; the last few come in the order of a grid.
    """

    def __init__(self, space: ActiveSpace, settings: QmcSettings, seed: int) -> None:
        scramble = build_generator(seed, "scramble") if settings.scramble else None
        kind = Sobol if settings.sequence == "sobol" else Halton
        points = QmcPoints(space, kind(len(space.sampled), scramble))
        every = space.find_countable_points()
        super().__init__(space, points if every is None else ThenEveryOther(points, every))


class QmcPoints(PointSequence):
    """The points of a sequence in the unit cube, as values."""

    def __init__(self, space: ActiveSpace, sequence: UnitSequence) -> None:
        """Takes the sequence, which has a dimension for each sampled parameter."""
        self._domains = {parameter.name: parameter.domain for parameter in space.sampled}
        self._sequence = sequence

    @override
    def point(self, index: int) -> Configuration:
        shares = self._sequence.compute_point(index)
        return {
            name: compute_value_at(domain, share)
            for (name, domain), share in zip(self._domains.items(), shares, strict=True)
        }
