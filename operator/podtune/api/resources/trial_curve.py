"""A trial's learning curve in its status: at most 64 points, written as arrays.

In memory the points are packed, because every trial has a curve: 64 points take 1.5 kB instead of 6.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from itertools import chain
from struct import Struct
from typing import Annotated, Any, Self

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from podtune.api.base import StatusModel

MAX_POINTS = 64
"""How many values a curve holds, of all objectives together."""
MAX_CURVE = 1536
"""How many bytes it takes as JSON."""
MAX_OBJECTIVES = 8
_FRAME = 128
"""Bytes of a curve besides its numbers and the commas after them, at most."""
_LONGEST = 23
"""Bytes of a number with the comma after it, at most."""
_WHOLE = 1e15
"""Whole numbers below this are written without a fraction."""

Numbers = Annotated[list[float | None], Field(max_length=MAX_POINTS)]


class CurveArrays(StatusModel):
    """A learning curve as it is written."""

    results: int = Field(
        ge=1,
        description="How many results the curve stands for: those with an objective, without what was run again.",
    )
    every: int = Field(
        ge=1,
        description=(
            "Every so many of them are shown, from the first on, and the last. It doubles whenever the curve is full."
        ),
    )
    steps: list[Annotated[int, Field(ge=0)]] = Field(
        min_length=1,
        max_length=MAX_POINTS,
        description="Their training iterations. They fall only where the trial has cloned one that was behind it.",
    )
    seconds: Numbers = Field(
        description="The training time at each of them, over all attempts, as the result says it (time_total_s)."
    )
    values: list[Numbers] = Field(
        min_length=1,
        max_length=MAX_OBJECTIVES,
        description=(
            "For each objective, its values in 5 digits; null where a value was missing or not finite. They are in "
            "the order of spec.objective of the Experiment; with evaluation.trainingObjective, it is that alone."
        ),
    )


@dataclass(frozen=True, slots=True)
class TrialCurve:
    """The objectives' values over a trial's training.

    Two curves are equal if they are written the same: what is not finite is the same NaN everywhere.

    Attributes:
        width: How many objectives there are.
        results: How many results it stands for.
        every: Every so many of them have a point, from the first on; and the last has one.
        packed: Its points one after the other, each with step, seconds and values.
        size: How many bytes the points but the last take as JSON; below 0 where nobody has looked yet.
    """

    width: int
    results: int = 0
    every: int = 1
    packed: bytes = b""
    size: int = field(default=-1, compare=False)

    @property
    def count(self) -> int:
        """How many points it has."""
        return len(self.packed) // _layout(self.width).size

    @property
    def last_step(self) -> int:
        """Training iteration of its last result; -1 before the first."""
        return int(self._read_last()[0]) if self.packed else -1

    @property
    def is_full(self) -> bool:
        """Whether it takes more than it may, and can do with fewer points."""
        count, room = self.count, MAX_CURVE - _FRAME - _LONGEST * (2 + self.width)
        return count > 2 and (count * self.width > MAX_POINTS or self.size > room)

    def add(self, step: int, seconds: float, values: Iterable[float]) -> TrialCurve:
        """The curve with one more result, in the place of the last one unless that has a point for good."""
        layout = _layout(self.width)
        kept, size = self.packed, self.size if self.size >= 0 else self._measure_points()
        if self.results and (self.results - 1) % self.every:
            kept = kept[: -layout.size]
        elif self.results:
            size += _measure(self._read_last())
        point = layout.pack(float(step), _shorten(seconds), *map(_shorten, values))
        return TrialCurve(self.width, self.results + 1, self.every, kept + point, size)

    def halve(self) -> TrialCurve:
        """The curve with every other point, and the last."""
        points = list(self.list_points())
        kept = points[::2] if len(points) % 2 else [*points[::2], points[-1]]
        packed = array("d", chain.from_iterable(kept)).tobytes()
        size = _measure(chain.from_iterable(kept[:-1]))
        return TrialCurve(self.width, self.results, 2 * self.every, packed, size)

    def list_points(self) -> Iterator[tuple[float, ...]]:
        """Its points, each with step, seconds and values; NaN where one is missing or not finite."""
        return _layout(self.width).iter_unpack(self.packed)

    def list_columns(self) -> list[list[float]]:
        """The same as one list each of steps, of seconds, and of the values of each objective."""
        numbers = array("d", self.packed)
        columns = 2 + self.width
        return [numbers[place::columns].tolist() for place in range(columns)]

    def to_arrays(self) -> dict[str, Any]:
        """The curve as it is written."""
        steps, seconds, *values = self.list_columns()
        return {
            "results": self.results,
            "every": self.every,
            "steps": list(map(int, steps)),
            "seconds": list(map(_write, seconds)),
            "values": [list(map(_write, each)) for each in values],
        }

    @classmethod
    def from_arrays(cls, arrays: CurveArrays) -> Self:
        """Reads a curve.

        Raises:
            ValueError: Its arrays have not the same length.
        """
        columns = (arrays.steps, arrays.seconds, *arrays.values)
        points = chain.from_iterable(zip(*columns, strict=True))
        packed = array("d", [math.nan if each is None else each for each in points]).tobytes()
        return cls(len(arrays.values), arrays.results, arrays.every, packed)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Reads and writes it as `CurveArrays`."""
        written = core_schema.no_info_after_validator_function(cls.from_arrays, handler.generate_schema(CurveArrays))
        return core_schema.json_or_python_schema(
            json_schema=written,
            python_schema=core_schema.union_schema(
                [core_schema.is_instance_schema(cls), written], mode="left_to_right"
            ),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.to_arrays),
        )

    def _measure_points(self) -> int:
        return _measure(chain.from_iterable(list(self.list_points())[:-1]))

    def _read_last(self) -> tuple[float, ...]:
        layout = _layout(self.width)
        return layout.unpack_from(self.packed, len(self.packed) - layout.size)


@cache
def _layout(width: int) -> Struct:
    """How a point is packed: every number takes eight bytes, which whole numbers below 2^53 fit into."""
    return Struct(f"{2 + width}d")


def _shorten(number: float) -> float:
    """A number in 5 digits; NaN where it is not finite. Negative zero, which JSON loses, is zero."""
    short = float("%.5g" % number) + 0.0  # noqa: UP031 - each result takes this way
    return short if math.isfinite(short) else math.nan


def _write(number: float) -> float | int | None:
    if number != number:  # noqa: PLR0124 - NaN
        return None
    return int(number) if -_WHOLE < number < _WHOLE and number.is_integer() else number


def _measure(numbers: Iterable[float]) -> int:
    """Bytes of numbers with the commas after them, as the API server writes them."""
    return sum(map(_measure_number, numbers))


def _measure_number(number: float) -> int:
    text = repr(_write(number))  # None takes as much room as null
    if "e" in text and 1e-6 <= abs(number) < 1e21:  # the API server writes these without an exponent
        text = f"{Decimal(text):f}"
    return len(text) + 1
