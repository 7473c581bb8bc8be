"""Search spaces as points, for models: numbers from 0 to 1, choices as their positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution

from podtune.tuning.searchers.spaces.unit_cube import Matrix, NumericRange, UnitCube, Vector

_FEW = 32
"""An integer with so many values or fewer is tried at all of them, others at some around the present one."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A coordinate.

    Attributes:
        steps: Makes the values (k,) to try from the present one; None where all from 0 to 1 are possible.
        is_choice: Whether these have no order.
    """

    steps: Callable[[float], Vector] | None = None
    is_choice: bool = False


class ModelSpace:
    """The search space as points (d,): first the numbers, each from 0 to 1, then the choices, as their positions.

    Attributes:
        axes: The coordinates (d).
        choices: Which of them are choices (d,).
    """

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        """Makes the space of Optuna's distributions, none of them with a single value."""
        self._cube = UnitCube(distributions)
        self._counts = {
            name: len(distribution.choices)
            for name, distribution in distributions.items()
            if isinstance(distribution, CategoricalDistribution)
        }
        self._names = [*self._cube.ranges, *self._counts]
        self.axes = [
            *(Axis() if range_.whole is None else Axis(_IntegerSteps(range_)) for range_ in self._cube.ranges.values()),
            *(Axis(_ChoiceSteps(count), is_choice=True) for count in self._counts.values()),
        ]
        self.choices = np.array([axis.is_choice for axis in self.axes])

    def to_point(self, params: Mapping[str, float]) -> Vector:
        """Returns the point (d,) of a configuration, given as Optuna's parameters."""
        return np.concatenate([self._cube.to_cube(params), [params[name] for name in self._counts]])

    def to_params(self, point: Vector) -> dict[str, float]:
        """Returns Optuna's parameters at a point (d,)."""
        numbers = len(self._cube.ranges)
        positions = zip(self._counts, point[numbers:], strict=True)
        return self._cube.from_cube(point[:numbers]) | {name: round(position) for name, position in positions}

    def draw(self, random: np.random.Generator, count: int) -> Matrix:
        """Draws points (count, d), each that of a configuration, uniformly."""
        drawn = random.random((count, len(self._names)))
        for column, range_ in enumerate(self._cube.ranges.values()):
            if range_.whole is not None:
                drawn[:, column] = [range_.to_cube(range_.from_cube(position)) for position in drawn[:, column]]
        for column, choices in enumerate(self._counts.values(), start=len(self._cube.ranges)):
            drawn[:, column] = np.minimum(np.floor(drawn[:, column] * choices), choices - 1)
        return drawn


class _ChoiceSteps:
    """The values (k,) of a choice's coordinate: all positions."""

    def __init__(self, count: int) -> None:
        self._all = np.arange(count, dtype=float)

    def __call__(self, position: float) -> Vector:  # noqa: ARG002 - all are worth a look from everywhere
        return self._all


class _IntegerSteps:
    """The values (k,) of an integer's coordinate that are worth a look, from where it is now."""

    def __init__(self, range_: NumericRange) -> None:
        assert range_.whole is not None
        self._range = range_
        low, high = range_.whole
        self._all = [*range(low, high + 1)] if high - low < _FEW else []

    def __call__(self, position: float) -> Vector:
        assert self._range.whole is not None
        low, high = self._range.whole
        present = self._range.from_cube(position)
        around = (present + sign * (1 << power) for power in range((high - low).bit_length()) for sign in (-1, 1))
        values = self._all or [value for value in around if low <= value <= high]
        return np.array([self._range.to_cube(value) for value in values])
