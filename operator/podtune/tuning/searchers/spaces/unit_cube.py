"""Search spaces as points of a unit cube, for methods that work on vectors.

Numbers are scaled to 0 … 1, logarithmically where the domain is, as Optuna's samplers scale them: an integer
has an interval of its own around it, so the ends are as wide as the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

Vector = NDArray[np.float64]
"""Of shape (n,), or (d,) for a point with d coordinates."""
Matrix = NDArray[np.float64]
"""Of shape (n, d): n points, a row each; or (n, m): all pairs of n and m points."""
Tensor = NDArray[np.float64]
"""Of shape (n, m, d): all pairs of points, coordinate by coordinate."""


@dataclass(frozen=True, slots=True)
class NumericRange:
    """The range of a numeric parameter, as a side of the cube.

    Attributes:
        low: Where the range starts, logarithmic if `log`.
        high: Where it ends.
        log: Whether the scale is logarithmic.
        whole: The lowest and highest value, where only integers are allowed.
    """

    low: float
    high: float
    log: bool
    whole: tuple[int, int] | None = None

    def to_cube(self, value: float) -> float:
        """Returns where a value lies, from 0 to 1."""
        return ((math.log(value) if self.log else value) - self.low) / (self.high - self.low)

    def from_cube(self, position: float) -> float:
        """Returns the value at a position from 0 to 1; where only integers are allowed, the nearest one."""
        scaled = self.low + position * (self.high - self.low)
        value = math.exp(scaled) if self.log else scaled
        if self.whole is None:
            return value
        return min(max(round(value) if self.log else math.floor(value + 0.5), self.whole[0]), self.whole[1])


class UnitCube:
    """The numbers of a search space as a unit cube; choices are left out, they have no order."""

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.ranges = {
            name: _build_numeric_range(distribution)
            for name, distribution in distributions.items()
            if not isinstance(distribution, CategoricalDistribution)
        }

    def to_cube(self, params: Mapping[str, float]) -> Vector:
        """Returns the point (d,) of a configuration, given as Optuna's parameters."""
        return np.array([range_.to_cube(params[name]) for name, range_ in self.ranges.items()])

    def from_cube(self, point: Vector) -> dict[str, float]:
        """Returns Optuna's parameters at a point (d,)."""
        return {
            name: range_.from_cube(position)
            for (name, range_), position in zip(self.ranges.items(), point, strict=True)
        }


def _build_numeric_range(distribution: BaseDistribution) -> NumericRange:
    match distribution:
        case FloatDistribution(low=low, high=high, log=True):
            return NumericRange(math.log(low), math.log(high), log=True)
        case FloatDistribution(low=low, high=high):
            return NumericRange(low, high, log=False)
        case IntDistribution(low=low, high=high, log=True):
            return NumericRange(math.log(low - 0.5), math.log(high + 0.5), log=True, whole=(low, high))
        case IntDistribution(low=low, high=high):
            return NumericRange(low - 0.5, high + 0.5, log=False, whole=(low, high))
        case _:
            raise TypeError(f"{distribution!r} is not a distribution of numbers")
