"""Grid search: every combination of values, in a fixed order, of all parameters or of some."""

from __future__ import annotations

from contextlib import suppress

from typing_extensions import override

from podtune.api.tuning.search import GridSettings
from podtune.api.tuning.search_space import Parameter
from podtune.tuning.domains.points import Points, list_grid_points
from podtune.tuning.searchers.base import Configuration
from podtune.tuning.searchers.random import RandomSearcher
from podtune.tuning.searchers.sequences.sequence_searcher import PointSequence, SequenceSearcher
from podtune.tuning.searchers.spaces.active_space import ActiveSpace, InvalidConfiguration
from podtune.tuning.searchers.spaces.point_tree import PointTree

_MAX_DRAWS = 100
"""How often values beside a point of the grid are drawn anew where constraints refuse them."""


class GridSearcher(SequenceSearcher):
    """Goes through all combinations of values once; the last parameter changes fastest.

    Example:
        search: {algorithm: grid, grid: {points: 5}, maxTrials: 1000}

    Settings:
        points: How many values represent a float without a step. Each further one multiplies the trials.
        parameters: Only these make the grid. All others are drawn at random for each trial, and after its last
            combination the grid begins again with new draws, up to maxTrials.

    Choices, integers and stepped floats take part with all their values, other floats with `points` evenly spaced ones.
    A parameter that a condition leaves out doesn't multiply the combinations.

    Attributes:
        size: How many combinations the grid has, before constraints.
    """

    def __init__(self, space: ActiveSpace, settings: GridSettings, seed: int = 0) -> None:
        """Makes a searcher.

        Raises:
            TooManyCombinations: The conditions can meet in too many ways.
        """
        names = frozenset(settings.parameters or (parameter.name for parameter in space.sampled))
        tree = space.find_points(lambda parameter: _find_axis(parameter, settings.points, names))
        assert tree is not None  # a grid is finite
        self.size = tree.count
        drawn = [parameter for parameter in space.sampled if parameter.name not in names]
        super().__init__(space, BesideDraws(space, tree, RandomSearcher(drawn, seed)) if drawn else InOrder(tree))


class InOrder(PointSequence):
    """All points of a finite space, in their order."""

    def __init__(self, tree: PointTree) -> None:
        self._tree = tree
        self.length = tree.count

    @override
    def point(self, index: int) -> Configuration:
        return self._tree.get_point(index)


class BesideDraws(PointSequence):
    """All points of a grid again and again, each beside new draws of the other parameters.

    Draws that come up twice are two trials: to leave one out would take a turn from its point of the grid.
    """

    def __init__(self, space: ActiveSpace, tree: PointTree, others: RandomSearcher) -> None:
        self._space = space
        self._tree = tree
        self._others = others

    @override
    def point(self, index: int) -> Configuration:
        on_grid = self._tree.get_point(index % self._tree.count)
        for attempt in range(_MAX_DRAWS):
            with suppress(InvalidConfiguration):
                return self._space.build_configuration({**on_grid, **self._others.draw(index, attempt)})
        return {**on_grid, **self._others.draw(index)}


def _find_axis(parameter: Parameter, points: int, names: frozenset[str]) -> Points:
    """The values of a parameter that the grid goes through; one, which nobody sees, of those that are drawn."""
    values = list_grid_points(parameter.domain, points)
    return values if parameter.name in names else Points(1, values.value)
