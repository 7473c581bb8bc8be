"""From sampled values to configurations: conditions, fixed and computed values, constraints."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from podtune.api.dependencies import Dependencies, exists
from podtune.api.expression import Expression, ExpressionError, UnknownName
from podtune.api.search_space import Domain, Parameter, Scalar, format_value, plain_value
from podtune.tuning.searchers.base import Configuration, NoConfiguration
from podtune.tuning.searchers.domains import Points, finite_points
from podtune.tuning.searchers.tree import PointTree, TooEntangled

Key = tuple[str | None, ...]
"""What tells a configuration from others: its sampled values, None where a parameter does not exist."""


class Refused(ValueError):
    """Sampled values make no configuration.

    Attributes:
        by: What is against it, such as: the constraint 'batch <= 64'.
    """

    def __init__(self, by: str, why: str) -> None:
        super().__init__(f"{by} {why}")
        self.by = by


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
        self.dependencies = Dependencies(parameters)
        self.sampled = [parameter for parameter in parameters if parameter.is_sampled]
        self._constraints = self.dependencies.constraints(constraints)
        self._names = [parameter.name for parameter in parameters]
        self._fixed = {parameter.name: parameter.fixed.value for parameter in parameters if parameter.fixed is not None}
        self.refuses = bool(self._constraints or self.dependencies.expressions)

    def configuration(self, values: Configuration) -> Configuration:
        """The configuration that sampled values make.

        Args:
            values: A value for each sampled parameter; those of parameters that don't exist then are passed over.

        Raises:
            Refused: A constraint does not hold, or an expression has no value.
            KeyError: A parameter that exists is given no value.
        """
        active: dict[str, Scalar] = {}
        for name in self.dependencies.order:
            if exists(self.dependencies.conditions[name], active):
                active[name] = self._fixed[name] if name in self._fixed else values[name]
        for name, expression in self.dependencies.expressions.items():
            if exists(self.dependencies.conditions[name], active):
                _compute(name, expression, active)
        for constraint in self._constraints:
            _demand(constraint, active)
        return {name: active[name] for name in self._names if name in active}

    def points(self, axis: Callable[[Domain], Points | None] = finite_points) -> PointTree | None:
        """All points of the space; None where they are infinitely many.

        Args:
            axis: The values of a domain that take part; None where they are infinitely many.

        Raises:
            TooEntangled: The conditions can meet in too many ways for the points to be counted.
        """
        axes = {parameter.name: axis(parameter.domain) for parameter in self.sampled}
        finite = {name: points for name, points in axes.items() if points is not None}
        return PointTree(finite, self.dependencies, self._fixed) if len(finite) == len(axes) else None

    def countable_points(self) -> PointTree | None:
        """All points of the space; None where they are infinitely many, or nobody can count them."""
        with suppress(TooEntangled):
            return self.points()
        return None

    def sampled_values(self, configuration: Configuration) -> dict[str, Scalar]:
        """The sampled values of a configuration, without what follows from them."""
        return {p.name: configuration[p.name] for p in self.sampled if p.name in configuration}

    def key(self, configuration: Configuration) -> Key:
        """What tells a configuration from others."""
        return tuple(
            format_value(configuration[parameter.name]) if parameter.name in configuration else None
            for parameter in self.sampled
        )


class Refusals:
    """Counts what was against the values that were drawn."""

    def __init__(self) -> None:
        """Starts at none."""
        self._counts: Counter[str] = Counter()
        self._last: dict[str, Refused] = {}

    def add(self, refused: Refused) -> None:
        """Counts one."""
        self._counts[refused.by] += 1
        self._last[refused.by] = refused

    @property
    def count(self) -> int:
        """How many there were."""
        return self._counts.total()

    def error(self, tries: int) -> NoConfiguration:
        """What to say when nothing was found: what came up most often.

        Args:
            tries: How many values were drawn in all.
        """
        by, count = self._counts.most_common(1)[0]
        return NoConfiguration(
            f"no configuration was found in {tries:,} tries: in {count:,} of them {self._last[by]}; relax it, or "
            "narrow the domains to where it holds"
        )


def _compute(name: str, expression: Expression, active: dict[str, Scalar]) -> None:
    """Adds a computed value; there is none where it needs a parameter that does not exist."""
    by = f"the expression {expression.text!r} of {name}"
    try:
        value = expression.evaluate(active)
    except UnknownName:
        return
    except ExpressionError as error:
        raise Refused(by, f"has no value ({error})") from error
    if isinstance(value, float) and not math.isfinite(value):
        raise Refused(by, f"comes to {value}, which is not a finite number")
    active[name] = plain_value(format_value(value))


def _demand(constraint: Expression, active: Mapping[str, Scalar]) -> None:
    """Refuses what does not hold; nothing is demanded of a parameter that does not exist."""
    by = f"the constraint {constraint.text!r}"
    try:
        if constraint.holds(active):
            return
    except UnknownName:
        return
    except ExpressionError as error:
        raise Refused(by, f"has no value ({error})") from error
    raise Refused(by, "does not hold")
