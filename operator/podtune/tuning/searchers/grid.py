"""Grid search: every combination of values, in a fixed order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from typing_extensions import override

from podtune.api.search import GridSettings
from podtune.api.search_space import Parameter, Scalar
from podtune.tuning.searchers.base import Proposed, Searcher, Tell, Unfinished
from podtune.tuning.searchers.domains import grid_points


class GridSearcher(Searcher):
    """Goes through the product of all parameters' values once; the last parameter changes fastest.

    Choices, integers and stepped floats take part with all their values, other floats with `points` evenly spaced
    ones. The proposal's number is the position in the grid, so nothing needs to be remembered.
    """

    def __init__(self, parameters: Sequence[Parameter], settings: GridSettings) -> None:
        """Makes a searcher.

        Args:
            parameters: The search space, in the manifest's order.
            settings: How dense the grid is.
        """
        self._axes = {parameter.name: grid_points(parameter.domain, settings.points) for parameter in parameters}

    @property
    def size(self) -> int:
        """How many configurations the grid has."""
        return math.prod(axis.count for axis in self._axes.values())

    @override
    def tell(self, tell: Tell) -> None:
        """Learns nothing."""

    @override
    def ask(self, number: int, unfinished: Sequence[Unfinished], attempt: int = 0) -> Proposed | None:
        """The configuration at this position of the grid; None after the last."""
        if number >= self.size:
            return None
        reverse: dict[str, Scalar] = {}
        for name, axis in reversed(self._axes.items()):
            number, position = divmod(number, axis.count)
            reverse[name] = axis.value(position)
        return Proposed(dict(reversed(reverse.items())))
