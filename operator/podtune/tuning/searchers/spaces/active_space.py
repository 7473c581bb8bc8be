"""From sampled values to configurations: conditions, fixed and computed values, constraints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from podtune.api.tuning.configuration import ConfigurationRules, InvalidConfiguration
from podtune.api.tuning.search_space import Parameter, Scalar, format_value
from podtune.tuning.domains.points import Points, find_finite_points
from podtune.tuning.searchers.base import Configuration, NoConfiguration
from podtune.tuning.searchers.spaces.point_tree import PointTree, TooManyCombinations

__all__ = ["ActiveSpace", "InvalidConfiguration", "PointKey", "RejectionCounter"]

PointKey = tuple[str | None, ...]
"""What tells a configuration from others: its sampled values, None where a parameter does not exist."""


class ActiveSpace:
    """What an experiment may try.

    Searchers choose values for the parameters that are sampled, all of them, as if there were no conditions. Here they
    become a configuration: it holds the parameters that exist, in the manifest's order, fixed and computed ones too.

    Attributes:
        sampled: The parameters that a searcher chooses values for, in the manifest's order.
        dependencies: How all parameters hang together.
        refuses: Whether some values make no configuration.
    """

    def __init__(self, parameters: Sequence[Parameter], constraints: Sequence[str] = ()) -> None:
        """Makes the space.

        Args:
            parameters: All parameters of the manifest, in its order.
            constraints: What each configuration has to hold.

        Raises:
            FieldError: They don't fit together.
        """
        self._rules = ConfigurationRules(parameters, constraints)
        self.dependencies = self._rules.dependencies
        self.refuses = self._rules.refuses
        self.sampled = [parameter for parameter in parameters if parameter.is_sampled]
        self._fixed = {parameter.name: parameter.fixed.value for parameter in parameters if parameter.fixed is not None}

    def build_configuration(self, values: Configuration) -> Configuration:
        """The configuration that sampled values make; see `ConfigurationRules.build_configuration`."""
        return self._rules.build_configuration(values)

    def complete(self, given: Configuration) -> Configuration:
        """The configuration that values in a manifest make; see `ConfigurationRules.complete`."""
        return self._rules.complete(given)

    def find_points(self, axis: Callable[[Parameter], Points | None] | None = None) -> PointTree | None:
        """All points of the space; None where they are infinitely many.

        Args:
            axis: The values of a parameter that take part, None where they are infinitely many; without it all values.

        Raises:
            TooManyCombinations: The conditions can meet in too many ways for the points to be counted.
        """
        find_axis = axis or (lambda parameter: find_finite_points(parameter.domain))
        axes = {parameter.name: find_axis(parameter) for parameter in self.sampled}
        finite = {name: points for name, points in axes.items() if points is not None}
        return PointTree(finite, self.dependencies, self._fixed) if len(finite) == len(axes) else None

    def find_countable_points(self) -> PointTree | None:
        """All points of the space; None where they are infinitely many, or nobody can count them."""
        with suppress(TooManyCombinations):
            return self.find_points()
        return None

    def extract_sampled_values(self, configuration: Configuration) -> dict[str, Scalar]:
        """The sampled values of a configuration, without what follows from them."""
        return {p.name: configuration[p.name] for p in self.sampled if p.name in configuration}

    def build_key(self, configuration: Configuration) -> PointKey:
        """What tells a configuration from others."""
        return tuple(
            format_value(configuration[parameter.name]) if parameter.name in configuration else None
            for parameter in self.sampled
        )


class RejectionCounter:
    """Counts what was against the values that were drawn."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._last: dict[str, InvalidConfiguration] = {}

    def add(self, refused: InvalidConfiguration) -> None:
        """Counts one."""
        self._counts[refused.by] += 1
        self._last[refused.by] = refused

    @property
    def count(self) -> int:
        """How many there were."""
        return self._counts.total()

    def build_error(self, tries: int) -> NoConfiguration:
        """What to say when nothing was found: what came up most often."""
        by, count = self._counts.most_common(1)[0]
        return NoConfiguration(
            f"no configuration was found in {tries:,} tries: in {count:,} of them {self._last[by]}; relax it, or "
            "narrow the domains to where it holds"
        )
