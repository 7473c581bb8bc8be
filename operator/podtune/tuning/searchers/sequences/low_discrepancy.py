"""Sequences of points that fill the unit cube evenly: Sobol's and Halton's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice
from random import Random
from typing import Protocol

from podtune.tuning.searchers.sequences.direction_numbers import DIRECTION_NUMBERS

_BITS = 52
"""Digits after the point: as many as a float between 0 and 1 has."""
_INDEX_BITS = 32
"""There are 2^32 points of a Sobol sequence, which is more than anyone asks for."""
MAX_DIMENSIONS = len(DIRECTION_NUMBERS) + 1


class UnitSequence(Protocol):
    """Points of the unit cube, by their position."""

    def compute_point(self, index: int) -> Sequence[float]:
        """The coordinates of a point, each from 0 to 1, without 1."""


class Sobol:
    """The Sobol sequence in Gray code order, with the direction numbers of Joe and Kuo.

    The first 2^k points have one in each of 2^k equal parts of every axis. Scrambled by a random linear map of the
    digits and a random shift of them (Matoušek, "On the L2-discrepancy for anchored boxes", J. Complexity 1998), it
    still does, and every single point is uniformly distributed.
    """

    def __init__(self, dimensions: int, scramble: Random | None = None) -> None:
        """Makes the sequence.

        Args:
            dimensions: How many coordinates a point has, at most `MAX_DIMENSIONS`.
            scramble: Where random draws come from; None leaves the sequence as it is.
        """
        self._directions = [_compute_directions(dimension) for dimension in range(dimensions)]
        self._shifts = [0] * dimensions
        if scramble is not None:
            self._directions = [_map_directions(directions, scramble) for directions in self._directions]
            self._shifts = [scramble.getrandbits(_BITS) for _ in self._shifts]

    def compute_point(self, index: int) -> Sequence[float]:
        """The coordinates of a point."""
        gray = index ^ (index >> 1)
        bits = [bit for bit in range(gray.bit_length()) if gray >> bit & 1]
        point = []
        for directions, shift in zip(self._directions, self._shifts, strict=True):
            digits = shift
            for bit in bits:
                digits ^= directions[bit]
            point.append(digits / 2**_BITS)
        return point


class Halton:
    """The Halton sequence: coordinate k has the digits of the index in the k-th prime base, mirrored at the point.

    Scrambled by a random permutation of the digits at each position (Owen, "A randomized Halton algorithm in R", 2017).
    """

    def __init__(self, dimensions: int, scramble: Random | None = None) -> None:
        """Makes the sequence.

        Args:
            dimensions: How many coordinates a point has.
            scramble: Where random draws come from; None leaves the sequence as it is.
        """
        self._bases = list(islice(_generate_primes(), dimensions))
        self._permutations = [_draw_permutations(base, scramble) for base in self._bases]

    def compute_point(self, index: int) -> Sequence[float]:
        """The coordinates of a point."""
        return [
            _mirror(index, base, permutations)
            for base, permutations in zip(self._bases, self._permutations, strict=True)
        ]


def _compute_directions(dimension: int) -> list[int]:
    """The direction numbers of a dimension, as digits after the point, by Bratley and Fox' recurrence."""
    if dimension == 0:
        return [1 << (_BITS - 1 - bit) for bit in range(_INDEX_BITS)]
    polynomial, initial = DIRECTION_NUMBERS[dimension - 1]
    degree = len(initial)
    numbers = list(initial)
    for bit in range(degree, _INDEX_BITS):
        number = numbers[bit - degree]
        for power in range(1, degree + 1):
            if polynomial >> (degree - power) & 1:
                number ^= numbers[bit - power] << power
        numbers.append(number)
    return [number << (_BITS - 1 - bit) for bit, number in enumerate(numbers)]


def _map_directions(directions: Sequence[int], random: Random) -> list[int]:
    """The directions after a random map: each digit becomes itself plus random ones of those before it, modulo 2."""
    rows = []
    for bit in range(_BITS):
        own = 1 << (_BITS - 1 - bit)
        rows.append((random.getrandbits(bit) << (_BITS - bit) if bit else 0) | own)
    mapped = []
    for direction in directions:
        digits = 0
        for row in rows:
            digits = digits << 1 | (row & direction).bit_count() & 1
        mapped.append(digits)
    return mapped


def _generate_primes() -> Iterator[int]:
    found: list[int] = []
    for number in count(2):
        if all(number % prime for prime in found):
            found.append(number)
            yield number


def _draw_permutations(base: int, random: Random | None) -> list[list[int]]:
    """A permutation of the digits for each position of a number as small as 2^-52."""
    length = next(length for length in count(1) if base**length >= 2**_BITS)
    permutations = [list(range(base)) for _ in range(length)]
    if random is not None:
        for permutation in permutations:
            random.shuffle(permutation)
    return permutations


def _mirror(index: int, base: int, permutations: Sequence[Sequence[int]]) -> float:
    digits, scale = 0, 1
    for permutation in permutations:
        index, digit = divmod(index, base)
        digits = digits * base + permutation[digit]
        scale *= base
    return min(digits / scale, 1 - 2**-53)
