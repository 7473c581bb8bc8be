"""The search space as Optuna sees it.

Domains with finitely many equally likely values become positions among them: choices a categorical distribution over
0 … n-1, integers and stepped floats an integer one. Optuna then never computes a value, and what is proposed is exactly
what the manifest says; nor does it have to tell apart choices that Python holds to be equal, such as 1, 1.0 and true.
For its models nothing changes: they scale each parameter to its range. Parameters with a single value stay outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from podtune.api.tuning.search_space import (
    ChoiceDomain,
    FloatDomain,
    IntDomain,
    LogNormalDomain,
    NormalDomain,
    Parameter,
    Scalar,
    format_value,
)
from podtune.tuning.domains.normal import NormallyDistributed, quantile, share_below
from podtune.tuning.domains.points import Points, find_fixed_value, find_linear_points
from podtune.tuning.searchers.base import Configuration


@dataclass(frozen=True, slots=True)
class Choices:
    """A choice: the position in the list."""

    values: Sequence[Scalar]

    @property
    def distribution(self) -> BaseDistribution:
        """All positions, without an order."""
        return CategoricalDistribution(range(len(self.values)))

    def encode(self, value: Scalar) -> int:
        """The value's position."""
        written = [format_value(choice) for choice in self.values]
        return written.index(format_value(value))

    def decode(self, position: float) -> Scalar:
        """The value at a position."""
        return self.values[int(position)]


@dataclass(frozen=True, slots=True)
class Steps:
    """An integer or a stepped float on a linear scale: how many steps above the minimum."""

    points: Points
    low: float
    step: float

    @property
    def distribution(self) -> BaseDistribution:
        """All positions, in their order."""
        return IntDistribution(0, self.points.count - 1)

    def encode(self, value: Scalar) -> int:
        """The position nearest to a value."""
        return min(max(round((float(value) - self.low) / self.step), 0), self.points.count - 1)

    def decode(self, position: float) -> Scalar:
        """The value at a position."""
        return self.points.value(min(int(position), self.points.count - 1))


@dataclass(frozen=True, slots=True)
class LogInteger:
    """An integer on a log scale, as it is."""

    domain: IntDomain

    @property
    def distribution(self) -> BaseDistribution:
        """The same domain."""
        return IntDistribution(self.domain.min, self.domain.max, log=True)

    def encode(self, value: Scalar) -> int:
        """The value itself."""
        return int(value)

    def decode(self, value: float) -> Scalar:
        """The value itself."""
        return min(max(int(value), self.domain.min), self.domain.max)


@dataclass(frozen=True, slots=True)
class Interval:
    """A float without a step, as it is."""

    domain: FloatDomain

    @property
    def distribution(self) -> BaseDistribution:
        """The same domain."""
        return FloatDistribution(self.domain.min, self.domain.max, log=self.domain.scale == "log")

    def encode(self, value: Scalar) -> float:
        """The value itself."""
        return float(value)

    def decode(self, value: float) -> Scalar:
        """The value itself, as Python's own float and within the bounds whatever rounding did."""
        return min(max(float(value), self.domain.min), self.domain.max)


@dataclass(frozen=True, slots=True)
class Quantile:
    """A normal or log-normal number: the share of its values that lie below it, which is uniform."""

    domain: NormallyDistributed

    @property
    def distribution(self) -> BaseDistribution:
        """All shares."""
        return FloatDistribution(0, 1)

    def encode(self, value: Scalar) -> float:
        """The share of values below a value."""
        return share_below(self.domain, float(value))

    def decode(self, share: float) -> Scalar:
        """The value that has this share below it."""
        return quantile(self.domain, float(share))


Coordinate = Choices | Steps | LogInteger | Interval | Quantile


class OptunaSpace:
    """Translates configurations between Podtune's values and Optuna's."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self._names = [parameter.name for parameter in parameters]
        self._fixed: dict[str, Scalar] = {}
        self._coordinates: dict[str, Coordinate] = {}
        for parameter in parameters:
            value = find_fixed_value(parameter)
            if value is None:
                self._coordinates[parameter.name] = _coordinate(parameter)
            else:
                self._fixed[parameter.name] = value
        self.distributions: Mapping[str, BaseDistribution] = {
            name: coordinate.distribution for name, coordinate in self._coordinates.items()
        }
        """Optuna's distributions by name, in the manifest's order, of all parameters that vary."""

    def encode(self, configuration: Configuration) -> dict[str, float]:
        """Translates a configuration to Optuna's parameters, in the manifest's order.

        What has no value, since a condition does not hold, has none there either.
        """
        return {
            name: coordinate.encode(configuration[name])
            for name, coordinate in self._coordinates.items()
            if name in configuration
        }

    def decode(self, params: Mapping[str, float]) -> Configuration:
        """Translates Optuna's parameters to a configuration, in the manifest's order."""
        return {
            name: self._fixed[name] if name in self._fixed else self._coordinates[name].decode(params[name])
            for name in self._names
        }


def _coordinate(parameter: Parameter) -> Coordinate:
    domain = parameter.domain
    match domain:
        case ChoiceDomain(values=values):
            return Choices(values)
        case IntDomain(scale="log"):
            return LogInteger(domain)
        case FloatDomain(step=None):
            return Interval(domain)
        case NormalDomain() | LogNormalDomain():
            return Quantile(domain)
        case FloatDomain() | IntDomain():
            points = find_linear_points(domain)
            assert points is not None  # linear integers and stepped floats are finite
            assert domain.step is not None
            return Steps(points, float(domain.min), float(domain.step))
