"""The rows of a run's history in the records of a `.wandb` file, which are messages `Record` in protobuf's encoding.

Each call of `run.log` makes a row, whose values are JSON. The row's step is in one of two places, or in neither: then
it is the one after the last. Names of nested values are called as W&B shows them, with dots. What begins with an
underscore is W&B's own. Images and histograms are objects that say their `_type`; newer clients write each part of such
an object as a value by itself.
Field numbers: https://github.com/wandb/wandb/blob/main/wandb/proto/wandb_internal.proto
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence

from podtune.agent.metric_files.logged_scalars import (
    BYTES,
    VARINT,
    LoggedScalar,
    ScalarEvent,
    read_fields,
    read_signed,
)

_RECORD_HISTORY, _RECORD_RUN = (2, BYTES), (17, BYTES)
_RUN_STARTING_STEP = (14, VARINT)
_HISTORY_ITEM, _HISTORY_STEP = (1, BYTES), (2, BYTES)
_STEP_NUMBER = (1, VARINT)
_ITEM_KEY, _ITEM_NESTED_KEY, _ITEM_VALUE = (1, BYTES), (2, BYTES), (16, BYTES)
_STEP, _TIMESTAMP, _OWN = "_step", "_timestamp", "_"
_TYPE = "_type"
_NAMED_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})
_MOST_SCALARS = 1000
_LARGEST_STEP = float(1 << 62)

_Path = tuple[str, ...]


class HistoryParser:
    """Reads the records of one run in their order."""

    def __init__(self) -> None:
        self._next_step = 0

    def parse(self, record: bytes) -> ScalarEvent | None:
        """The row of a record; None where it has none, or one without numbers.

        Raises:
            BadMessage: It is no record.
        """
        for key, _, content in read_fields(record):
            if key == _RECORD_HISTORY:
                return self._parse_row(content)
            if key == _RECORD_RUN:
                self._next_step = max(self._next_step, _find_number(content, _RUN_STARTING_STEP))
        return None

    def _parse_row(self, row: bytes) -> ScalarEvent | None:
        step: int | None = None
        values: list[tuple[_Path, object]] = []
        for key, _, content in read_fields(row):
            if key == _HISTORY_ITEM:
                values += _parse_item(content)
            elif key == _HISTORY_STEP:
                step = _find_number(content, _STEP_NUMBER)
        numbers = list(_choose_numbers(values))
        own = {scalar.tag: scalar.value for scalar in numbers if scalar.tag.startswith(_OWN)}
        if step is None:
            told = own.get(_STEP, math.nan)
            step = int(told) if abs(told) < _LARGEST_STEP else self._next_step
        self._next_step = step + 1
        scalars = tuple(scalar for scalar in numbers if not scalar.tag.startswith(_OWN))
        return ScalarEvent(own.get(_TIMESTAMP, 0.0), step, scalars[:_MOST_SCALARS]) if scalars else None


def _find_number(message: bytes, field: tuple[int, int]) -> int:
    """A number of a message; 0 where it is left out."""
    return next((read_signed(number) for key, number, _ in read_fields(message) if key == field), 0)


def _parse_item(item: bytes) -> Iterator[tuple[_Path, object]]:
    """The values of an item, each with its path: one, or several where it is an object."""
    names: list[str] = []
    value = b""
    for key, _, content in read_fields(item):
        if key in (_ITEM_KEY, _ITEM_NESTED_KEY):
            names.append(content.decode("utf-8", "replace"))
        elif key == _ITEM_VALUE:
            value = content
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return
    stack: list[tuple[_Path, object]] = [(tuple(names), parsed)]
    while stack:
        path, found = stack.pop()
        if isinstance(found, dict):
            stack.extend(((*path, key), found[key]) for key in reversed(found))
        else:
            yield path, found


def _choose_numbers(values: Sequence[tuple[_Path, object]]) -> Iterator[LoggedScalar]:
    """The numbers, but for those of images and the like."""
    typed = {path[:-1] for path, _ in values if len(path) > 1 and path[-1] == _TYPE}
    for path, value in values:
        number = _read_number(value)
        if number is not None and not any(path[:length] in typed for length in range(1, len(path))):
            yield LoggedScalar(".".join(path), number)


def _read_number(value: object) -> float | None:
    if isinstance(value, str) and value in _NAMED_NUMBERS:
        return float(value)
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value
