"""Brute force: every configuration of a finite space, once."""

from __future__ import annotations

from typing_extensions import override

from podtune.api.tuning.search_settings import BruteForceSettings
from podtune.tuning.randomness import derive_seed
from podtune.tuning.searchers.base import Configuration, NoConfiguration
from podtune.tuning.searchers.grid import InOrder
from podtune.tuning.searchers.sequences.sequence_searcher import PointSequence, SequenceSearcher
from podtune.tuning.searchers.spaces.active_space import ActiveSpace
from podtune.tuning.searchers.spaces.point_tree import PointTree

_ROUNDS = 4
"""A Feistel network of four rounds is a pseudo-random permutation (Luby and Rackoff, 1988)."""


class BruteForceSearcher(SequenceSearcher):
    """Goes through a finite space, in random or grid order.

    Example:
        search: {algorithm: bruteForce, bruteForce: {order: random}, maxTrials: 8}
        parameters:
          - {name: activation, choice: {values: [relu, tanh]}}
          - {name: layers, int: {min: 1, max: 4}}

    Settings:
        order: with `random`, any beginning is a fair sample, so you can stop early; `systematic` is grid order.

    In random order any beginning of it is a sample of the whole, each configuration as likely as any other; random
    search instead takes each value of a parameter to be as likely as any other, whatever depends on it.
    """

    def __init__(self, space: ActiveSpace, settings: BruteForceSettings, seed: int) -> None:
        """Makes a searcher.

        Raises:
            NoConfiguration: The space is infinite.
            TooManyCombinations: The conditions can meet in too many ways.
        """
        tree = space.find_points()
        if tree is None:
            raise NoConfiguration("brute force needs a finite space; give every float a step, or use grid")
        super().__init__(space, InOrder(tree) if settings.order == "systematic" else InRandomOrder(tree, seed))


class InRandomOrder(PointSequence):
    """All points of a finite space, shuffled, without a list of them.

    A Feistel network permutes the numbers of as many bits as positions have, rounded up to an even number of bits; what
    falls beyond the last position is permuted again until it doesn't (cycle walking: Black and Rogaway, "Ciphers with
    Arbitrary Finite Domains", 2002), four times on average at most.
    """

    def __init__(self, tree: PointTree, seed: int) -> None:
        self._tree = tree
        self._seed = seed
        self._half = max((tree.count - 1).bit_length() + 1, 2) // 2
        self.length = tree.count

    @override
    def point(self, index: int) -> Configuration:
        position = self._permute(index)
        while position >= self._tree.count:
            position = self._permute(position)
        return self._tree.get_point(position)

    def _permute(self, number: int) -> int:
        mask = (1 << self._half) - 1
        left, right = number >> self._half, number & mask
        for step in range(_ROUNDS):
            left, right = right, left ^ (self._mix(step, right) & mask)
        return left << self._half | right

    def _mix(self, step: int, number: int) -> int:
        """As many random bits as a half has, at least."""
        bits = 0
        for block in range(0, self._half, 64):
            bits |= derive_seed(self._seed, "shuffle", step, block, number) << block
        return bits
