"""Makes results of numbers that a program has logged for another reader: their names, and which of them count.

Names become such as an Experiment can name: without spaces and `=`. A result holds only so many values, so those that
decide about the trial come first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from podtune.agent.state.result_line import MAX_VALUES
from podtune.protocol.messages import MetricValue, find_metric_problem
from podtune.trial.layout import RESERVED_KEYS

_NOT_IN_A_NAME = re.compile(r"[\s=]+")
_LARGEST_EXACT = 1 << 53
"""Up to this, each whole number is one of the floating-point numbers."""


def make_metric_name(parts: Iterable[str]) -> str:
    """Makes one name of several parts, with slashes between them; spaces and `=` become underscores."""
    return "/".join(_NOT_IN_A_NAME.sub("_", part) for part in parts)


def choose_metrics(values: Mapping[str, float], first: Iterable[str]) -> dict[str, MetricValue]:
    """Chooses the values that a result may hold.

    Args:
        values: All that there are.
        first: The names that come first, in their order, as far as there are values of them.
    """
    chosen: dict[str, MetricValue] = {}
    for name in _list_names(values, first):
        if len(chosen) == MAX_VALUES:
            break
        if name not in RESERVED_KEYS and find_metric_problem(name, values[name]) is None:
            chosen[name] = values[name]
    return chosen


def make_whole(value: float) -> int | float:
    """A number without its fraction where it has none: a step or an epoch is printed so."""
    return int(value) if abs(value) < _LARGEST_EXACT and value == int(value) else value


def _list_names(values: Mapping[str, float], first: Iterable[str]) -> Iterator[str]:
    front = dict.fromkeys(name for name in first if name in values)
    yield from front
    yield from (name for name in values if name not in front)
