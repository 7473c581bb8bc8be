"""Grid search: every combination of values, in a fixed order."""

from __future__ import annotations

from typing_extensions import override

from podtune.api.tuning.search import GridSettings
from podtune.tuning.domains.points import list_grid_points
from podtune.tuning.searchers.base import Configuration
from podtune.tuning.searchers.sequences.sequence_searcher import PointSequence, SequenceSearcher
from podtune.tuning.searchers.spaces.active_space import ActiveSpace
from podtune.tuning.searchers.spaces.point_tree import PointTree


class GridSearcher(SequenceSearcher):
    """Goes through all combinations of values once; the last parameter changes fastest.

    Example:
        search: {algorithm: grid, grid: {points: 5}, maxTrials: 1000}

    Settings:
        points: How many values represent a float without a step. Each further one multiplies the trials.

    Choices, integers and stepped floats take part with all their values, other floats with `points` evenly spaced ones.
    A parameter that a condition leaves out doesn't multiply the combinations.

    Attributes:
        size: How many combinations the grid has, before constraints.
    """

    def __init__(self, space: ActiveSpace, settings: GridSettings) -> None:
        """Makes a searcher.

        Raises:
            TooManyCombinations: The conditions can meet in too many ways.
        """
        tree = space.find_points(lambda domain: list_grid_points(domain, settings.points))
        assert tree is not None  # a grid is finite
        self.size = tree.count
        super().__init__(space, InOrder(tree))


class InOrder(PointSequence):
    """All points of a finite space, in their order."""

    def __init__(self, tree: PointTree) -> None:
        self._tree = tree
        self.length = tree.count

    @override
    def point(self, index: int) -> Configuration:
        return self._tree.get_point(index)
