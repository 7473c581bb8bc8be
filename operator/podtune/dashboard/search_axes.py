"""The parameters of a search as axes that trials are drawn on.

They are read from the manifest and not from its model, as a newer operator may know other kinds of parameters; what the
manifest does not say is taken from the trials.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podtune.api.json_values import canonicalize
from podtune.api.tuning.search_space import format_value
from podtune.cli.views.parameter_text import describe_parameter
from podtune.dashboard.numbers import read_finite

MOST_CHOICES = 40
"""More than this can't be told from each other on an axis; the others share the last place."""
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class SearchAxis:
    """One parameter.

    Attributes:
        name: Its name.
        sentence: What it can be, and when it exists.
        choices: Its values where it is no number, as trials have them; empty for numbers.
        low: The least value.
        high: The greatest value.
        is_log: Whether the scale is logarithmic.
        is_conditional: Whether some trials do without it.
        is_settled: Whether a value between `low` and `high` leaves both as they are.
    """

    name: str
    sentence: str
    choices: tuple[str, ...]
    low: float
    high: float
    is_log: bool
    is_conditional: bool
    is_settled: bool = True

    @property
    def is_text(self) -> bool:
        """Whether some of its values are no numbers, so that a column of them stands left."""
        return any(read_finite(choice) is None for choice in self.choices)

    def has_room_for(self, text: str) -> bool:
        """Whether another trial with this value surely leaves the axis as it is."""
        if self.choices:
            return text in self.choices and self.choices[-1] != OTHERS
        number = read_finite(text)
        return self.is_settled and number is not None and self.low <= number <= self.high

    def find_position(self, text: str | None) -> float | None:
        """Where a value is on the axis: a number as it is, a choice by its place; None where there is none."""
        if text is None:
            return None
        if not self.choices:
            return read_finite(text)
        return float(self.choices.index(text) if text in self.choices else len(self.choices) - 1)


def make_axes(
    parameters: Sequence[Mapping[str, Any]], configurations: Sequence[Mapping[str, str]]
) -> tuple[SearchAxis, ...]:
    """The axes of a search space; parameters that never change have none."""
    axes = (_make_axis(parameter, configurations) for parameter in parameters if "name" in parameter)
    return tuple(axis for axis in axes if axis is not None)


def _make_axis(parameter: Mapping[str, Any], configurations: Sequence[Mapping[str, str]]) -> SearchAxis | None:
    name = str(parameter["name"])
    seen = [values[name] for values in configurations if name in values]
    numbers = [number for number in map(read_finite, seen) if number is not None]
    kind = next((kind for kind, domain in parameter.items() if kind not in ("name", "when") and domain is not None), "")
    domain = parameter.get(kind) or {}
    if kind == "fixed":
        return None
    sentence, is_conditional = describe_parameter(parameter), bool(parameter.get("when"))
    if kind == "choice" or len(numbers) < len(seen):
        choices = _list_choices(domain if kind == "choice" else {}, seen)
        top = float(max(len(choices) - 1, 1))
        return SearchAxis(
            name, sentence, choices, 0.0, top, is_log=False, is_conditional=is_conditional, is_settled=bool(choices)
        )
    bounds = domain if isinstance(domain, Mapping) and kind in ("float", "int") else {}
    given = [float(bounds[end]) for end in ("min", "max") if isinstance(bounds.get(end), int | float)]
    low, high = min([*given, *numbers], default=0.0), max([*given, *numbers], default=1.0)
    is_log = low > 0 and (bounds.get("scale") == "log" or kind == "logNormal")
    is_settled = len({*given, *numbers}) > 1
    if low == high:
        low, high = (low / 2, high * 2) if is_log else (low - 0.5, high + 0.5)
    return SearchAxis(
        name, sentence, (), low, high, is_log=is_log, is_conditional=is_conditional, is_settled=is_settled
    )


def _list_choices(domain: Mapping[str, Any], seen: Sequence[str]) -> tuple[str, ...]:
    listed = [_write_choice(value) for value in domain.get("values") or ()]
    choices = tuple(dict.fromkeys([*listed, *sorted(set(seen) - set(listed))]))
    return choices if len(choices) <= MOST_CHOICES else (*choices[: MOST_CHOICES - 1], OTHERS)


def _write_choice(value: Any) -> str:
    if isinstance(value, list | dict):
        return canonicalize(value)
    return format_value(value) if isinstance(value, bool | int | float | str) else json.dumps(value)
