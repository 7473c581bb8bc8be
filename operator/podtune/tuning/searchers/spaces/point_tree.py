"""All points of a finite search space, conditional or not, in an order and without a list of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podtune.api.tuning.dependencies import Dependencies
from podtune.api.tuning.search_space import Scalar, format_value
from podtune.tuning.domains.points import Points

MAX_STEPS = 20_000
"""How many combinations of values and conditions are checked to count the points."""

State = tuple[str | None, ...]
"""What later parameters depend on: of each parent whose children come later, its value as `format_value` writes it,
`_UNNAMED` for all values that no condition names, None where it does not exist."""
_UNNAMED = "\0"
_SHORT = 256
"""Longest axis that is looked through from its beginning; no list of choices is longer."""


class TooManyCombinations(ValueError):
    """The conditions of a space can meet in too many ways for its points to be counted."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring values on an axis which the conditions don't tell apart."""

    start: int
    count: int
    written: str


class PointTree:
    """The points of a finite space, by their numbers.

    The first parameter changes slowest, the last one fastest, each through its values in their order; a parameter that
    a condition leaves out has one way to be. Parents come before their children, whatever the manifest's order.
    """

    def __init__(self, axes: Mapping[str, Points], dependencies: Dependencies, fixed: Mapping[str, Scalar]) -> None:
        """Makes the tree.

        Raises:
            TooManyCombinations: The conditions can meet in too many ways.
        """
        values = {name: Points(1, lambda _, value=value: value) for name, value in fixed.items()}  # type: ignore[misc]
        self._axes = {**axes, **values}
        self._sampled = tuple(axes)
        self._order = dependencies.order
        self._conditions = dependencies.conditions
        self._live = self._list_parents_of_later()
        self._runs = {name: list(_runs(self._axes[name], self._list_named_values(name))) for name in self._order}
        self._counts: dict[tuple[int, State], int] = {}
        self._steps = 0
        self.count = self._count(0, ())
        """How many points there are."""

    def get_point(self, number: int) -> dict[str, Scalar]:
        """The values at a position, from 0; only parameters that exist there have one."""
        state: State = ()
        values: dict[str, Scalar] = {}
        for depth, name in enumerate(self._order):
            if not self._exists(depth, state):
                state = self._find_next(depth, state, None)
                continue
            for run in self._runs[name]:
                below = self._find_next(depth, state, run.written)
                size = self._count(depth + 1, below)
                if number < run.count * size:
                    break
                number -= run.count * size
            position, number = divmod(number, size)
            values[name] = self._axes[name].value(run.start + position)
            state = below
        return {name: values[name] for name in self._sampled if name in values}

    def _list_parents_of_later(self) -> Sequence[tuple[str, ...]]:
        """At each depth: those parameters above it which others at this depth or below are conditioned on."""
        return [
            tuple(
                name
                for name in self._order[:depth]
                if any(name in self._conditions[later] for later in self._order[depth:])
            )
            for depth in range(len(self._order) + 1)
        ]

    def _list_named_values(self, parent: str) -> set[str]:
        return {value for conditions in self._conditions.values() for value in conditions.get(parent, ())}

    def _exists(self, depth: int, state: State) -> bool:
        above = dict(zip(self._live[depth], state, strict=True))
        return all(above[parent] in allowed for parent, allowed in self._conditions[self._order[depth]].items())

    def _find_next(self, depth: int, state: State, written: str | None) -> State:
        """What later parameters depend on once the one at this depth has its value."""
        above = dict(zip(self._live[depth], state, strict=True)) | {self._order[depth]: written}
        return tuple(above[name] for name in self._live[depth + 1])

    def _count(self, depth: int, state: State) -> int:
        """How many points there are below."""
        if depth == len(self._order):
            return 1
        known = self._counts.get((depth, state))
        if known is None:
            if self._exists(depth, state):
                runs = self._runs[self._order[depth]]
                self._steps += len(runs)
                if self._steps > MAX_STEPS:
                    raise TooManyCombinations("the conditions (when) can meet in too many ways; make them simpler")
                known = sum(
                    run.count * self._count(depth + 1, self._find_next(depth, state, run.written)) for run in runs
                )
            else:
                known = self._count(depth + 1, self._find_next(depth, state, None))
            self._counts[depth, state] = known
        return known


def _runs(axis: Points, named: set[str]) -> Sequence[_Run]:
    """Splits an axis into its named values and what lies between them."""
    positions = sorted((position, value) for value in named if (position := _find_position(axis, value)) is not None)
    runs: list[_Run] = []
    start = 0
    for position, value in positions:
        runs += [_Run(start, position - start, _UNNAMED), _Run(position, 1, value)]
        start = position + 1
    runs.append(_Run(start, axis.count - start, _UNNAMED))
    return [run for run in runs if run.count]


def _find_position(axis: Points, written: str) -> int | None:
    """Where on an axis a value lies; long axes are of ascending numbers."""
    low, high = 0, axis.count
    if high <= _SHORT:
        return next((position for position in range(high) if format_value(axis.value(position)) == written), None)
    number = float(written)
    while low < high:
        middle = (low + high) // 2
        if float(axis.value(middle)) < number:
            low = middle + 1
        else:
            high = middle
    return low if low < axis.count and format_value(axis.value(low)) == written else None
