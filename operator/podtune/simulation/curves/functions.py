"""Standard functions of optimisation, to be minimised: Surjanovic and Bingham, https://www.sfu.ca/~ssurjano/."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

FunctionPoint = Sequence[float]


@dataclass(frozen=True, slots=True)
class ObjectiveFunction:
    """A function on a box.

    Attributes:
        name: Its name on the command line.
        formula: Computes it at a point of the box.
        box: The ends of each dimension; the last one's are those of all further dimensions too.
        lowest: Its least value; of those that any number of dimensions goes with, a dimension's part in it.
        least: The fewest dimensions that it has.
        most: The most; None for as many as are given.
    """

    name: str
    formula: Callable[[FunctionPoint], float]
    box: tuple[tuple[float, float], ...]
    lowest: float
    least: int = 1
    most: int | None = None

    def count_dimensions(self, given: int) -> int:
        """How many of the dimensions it depends on: the first ones."""
        return given if self.most is None else min(given, self.most)

    def compute_minimum(self, given: int) -> float:
        """Its least value where there are so many dimensions."""
        return self.lowest if self.most is not None else self.lowest * given

    def evaluate(self, shares: Sequence[float]) -> float:
        """Its value where each dimension lies at a share, 0 to 1, of the way from one end of the box to the other."""
        used = shares[: self.count_dimensions(len(shares))]
        ends = [self.box[min(index, len(self.box) - 1)] for index in range(len(used))]
        return self.formula([low + (high - low) * share for share, (low, high) in zip(used, ends, strict=True)])


def _branin(point: FunctionPoint) -> float:
    x, y = point
    curved = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    return curved**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


def _sphere(point: FunctionPoint) -> float:
    return sum(x**2 for x in point)


def _rosenbrock(point: FunctionPoint) -> float:
    return sum(100 * (y - x**2) ** 2 + (1 - x) ** 2 for x, y in pairwise(point))


def _ackley(point: FunctionPoint) -> float:
    count = len(point)
    distance = math.sqrt(sum(x**2 for x in point) / count)
    ripples = sum(math.cos(2 * math.pi * x) for x in point) / count
    return 20 + math.e - 20 * math.exp(-0.2 * distance) - math.exp(ripples)


def _rastrigin(point: FunctionPoint) -> float:
    return sum(x**2 - 10 * math.cos(2 * math.pi * x) + 10 for x in point)


def _styblinski_tang(point: FunctionPoint) -> float:
    return sum(x**4 - 16 * x**2 + 5 * x for x in point) / 2


_HARTMANN_WEIGHTS = (1.0, 1.2, 3.0, 3.2)
_HARTMANN_SCALES = (
    (10.0, 3.0, 17.0, 3.5, 1.7, 8.0),
    (0.05, 10.0, 17.0, 0.1, 8.0, 14.0),
    (3.0, 3.5, 1.7, 10.0, 17.0, 8.0),
    (17.0, 8.0, 0.05, 10.0, 0.1, 14.0),
)
_HARTMANN_CENTRES = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def _hartmann6(point: FunctionPoint) -> float:
    value = 0.0
    for weight, scales, centres in zip(_HARTMANN_WEIGHTS, _HARTMANN_SCALES, _HARTMANN_CENTRES, strict=True):
        distance = sum(scale * (x - centre) ** 2 for scale, x, centre in zip(scales, point, centres, strict=True))
        value -= weight * math.exp(-distance)
    return value


_ALL = (
    ObjectiveFunction("sphere", _sphere, ((-5.12, 5.12),), 0.0),
    ObjectiveFunction("branin", _branin, ((-5.0, 10.0), (0.0, 15.0)), 0.39788735772973816, least=2, most=2),
    ObjectiveFunction("rosenbrock", _rosenbrock, ((-2.048, 2.048),), 0.0, least=2),
    ObjectiveFunction("ackley", _ackley, ((-32.768, 32.768),), 0.0),
    ObjectiveFunction("rastrigin", _rastrigin, ((-5.12, 5.12),), 0.0),
    ObjectiveFunction("hartmann6", _hartmann6, ((0.0, 1.0),), -3.322368011415514, least=6, most=6),
    ObjectiveFunction("styblinski-tang", _styblinski_tang, ((-5.0, 5.0),), -39.16616570377142),
)
CURVE_FUNCTIONS = {function.name: function for function in _ALL}
"""The functions by name."""


def compute_rising_value(trial: int, iteration: int) -> float:
    """A value that rises to a level of the trial's own, and wavers: for trials that have no configuration to go by."""
    level = 0.5 + 0.45 * math.sin(12.9898 * (trial + 1))
    return round(level * (1 - math.exp(-iteration / 4)) + 0.01 * math.sin(7.0 * iteration + trial), 6)
