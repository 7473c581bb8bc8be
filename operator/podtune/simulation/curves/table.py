"""Curves that were measured: a CSV file of what real trainings reported.

One line a result, with a column for each parameter that is searched, one for the time attribute (or for
`training_iteration`), one for each metric, and, where it is known, one named `seconds`: how long the iteration took.
Lines with the same parameters are one curve. A parameter that was switched off is left empty.

Parameters that the experiment fixes or computes need no column. Where a fixed one has a column, lines with another
value are of other experiments, and left out; a computed one follows from the others, so nobody looks at its column.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import override

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.search_space import ChoiceDomain, Parameter, Scalar, format_value, parse_value
from podtune.simulation.curves.base import CurveError, Curves, LearningCurve
from podtune.simulation.curves.position import compute_position
from podtune.trial.layout import ITERATION
from podtune.tuning.searchers.base import Configuration

SECONDS = "seconds"
"""The column that says how long an iteration took."""
TablePoint = tuple[float | str, ...]
"""A configuration: numbers by their position in the domain, choices as they are written."""


@dataclass(frozen=True, slots=True)
class MeasuredCurve(LearningCurve):
    """A curve of the table.

    Attributes:
        durations: How long each iteration takes.
    """

    results: tuple[Mapping[str, float], ...]
    durations: tuple[float, ...]

    @property
    @override
    def length(self) -> int:
        return len(self.results)

    @override
    def compute_metrics(self, iteration: int) -> Mapping[str, float]:
        return self.results[iteration - 1]

    @override
    def compute_seconds(self, iteration: int) -> float:
        return self.durations[iteration - 1]


class MeasuredCurves(Curves):
    """Looks up the measured configuration that is nearest to a proposed one."""

    def __init__(
        self, parameters: Sequence[Parameter], curves: Mapping[TablePoint, LearningCurve], optimum: float | None
    ) -> None:
        """Makes a table; `read_curves` reads one."""
        self._parameters = tuple(parameters)
        self._curves = curves
        self._optimum = optimum

    def __len__(self) -> int:
        return len(self._curves)

    def __iter__(self) -> Iterator[LearningCurve]:
        return iter(self._curves.values())

    @property
    @override
    def optimum(self) -> float | None:
        """The best value of the objective anywhere in the table."""
        return self._optimum

    @override
    def build_curve(self, configuration: Configuration, trial: int) -> LearningCurve:
        """The curve of the nearest configuration, the first in the file among equals.

        Distances are Euclidean, each parameter going from 0 to 1 in its own scale; other choices are 1 apart.
        """
        wanted = _build_table_point(self._parameters, configuration)
        exact = self._curves.get(wanted)
        return (
            exact
            if exact is not None
            else self._curves[min(self._curves, key=lambda point: _measure_distance(wanted, point))]
        )


def read_curves(
    lines: Iterable[str], parameters: Sequence[Parameter], objective: Objective, *, time: str, seconds: float
) -> MeasuredCurves:
    """Reads a table.

    Args:
        lines: Lines of the CSV file.
        parameters: The experiment's search space.
        objective: Its objective.
        time: Its time attribute.
        seconds: How long an iteration takes where the file doesn't say.

    Raises:
        CurveError: It is not a table of this experiment's curves.
    """
    reader = csv.DictReader(lines)
    columns = reader.fieldnames or []
    searched = [parameter for parameter in parameters if parameter.is_sampled]
    settings = {parameter.name for parameter in parameters}
    optimised = [criterion.metric for criterion in objective.criteria]
    wanted = [*(parameter.name for parameter in searched), *optimised]
    missing = [name for name in wanted if name not in columns]
    clock = next((name for name in (time, ITERATION) if name in columns), None)
    if missing or clock is None:
        names = ", ".join(missing) or time
        raise CurveError(f"the curves lack the column {names}; they have {', '.join(columns) or 'none'}")
    fixed = {parameter.name: parameter for parameter in parameters if parameter.fixed and parameter.name in columns}
    rows: dict[TablePoint, dict[float, dict[str, float]]] = {}
    for row in reader:
        numbers = _Row(row, reader.line_num)
        if not numbers.has(fixed.values()):
            continue
        point = _build_table_point(searched, numbers.read_configuration(searched))
        metrics = {name: numbers.read_number(name) for name in columns if name not in settings and row[name]}
        if empty := [name for name in (clock, *optimised) if name not in metrics]:
            raise CurveError(f"line {reader.line_num}: {', '.join(empty)} is empty; complete the line, or remove it")
        if metrics[clock] in rows.setdefault(point, {}):
            raise CurveError(
                f"line {reader.line_num}: {clock} {metrics[clock]:g} of these parameters was there already; keep one "
                "of the two lines"
            )
        rows[point][metrics[clock]] = metrics
    if not rows:
        having = f" with the fixed {' and '.join(fixed)}" if fixed else ""
        raise CurveError(f"the curves have no line besides the header{having}; give at least one result")
    values = [metrics[objective.metric] for curve in rows.values() for metrics in curve.values()]
    known = [value for value in values if not math.isnan(value)]
    best = max if objective.mode == "max" else min
    return MeasuredCurves(
        searched,
        {point: _build_curve([curve[moment] for moment in sorted(curve)], seconds) for point, curve in rows.items()},
        best(known) if known else None,
    )


class _Row:
    """A line of the file, with its number for what is wrong with it."""

    def __init__(self, cells: Mapping[str, str | None], line: int) -> None:
        self._cells = cells
        self._line = line

    def read_number(self, name: str) -> float:
        try:
            return float(self._cells[name] or "")
        except ValueError:
            raise CurveError(f"line {self._line}: {name} is {self._cells[name]!r}, which is no number") from None

    def has(self, fixed: Iterable[Parameter]) -> bool:
        """Whether parameters have the values that they are fixed to, or none where they were switched off."""
        for parameter in fixed:
            written = self._cells[parameter.name]
            assert parameter.fixed is not None  # the caller has looked
            if written and not _is_same(written, parameter.fixed.value):
                return False
        return True

    def read_configuration(self, parameters: Sequence[Parameter]) -> Configuration:
        written = {parameter.name: self._cells[parameter.name] for parameter in parameters}
        try:
            return {p.name: parse_value(p, value) for p in parameters if (value := written[p.name])}
        except ValueError as error:
            raise CurveError(f"line {self._line}: {error}; correct it or remove the line") from error


def _build_curve(curve: Sequence[dict[str, float]], seconds: float) -> MeasuredCurve:
    durations = tuple(metrics.pop(SECONDS, seconds) for metrics in curve)
    return MeasuredCurve(tuple(curve), durations)


def _build_table_point(parameters: Sequence[Parameter], configuration: Configuration) -> TablePoint:
    point: list[float | str] = []
    for parameter in parameters:
        value = configuration.get(parameter.name)
        if value is None or isinstance(parameter.domain, ChoiceDomain):
            point.append("" if value is None else f"={format_value(value)}")
        else:
            point.append(compute_position(parameter, value))
    return tuple(point)


def _is_same(written: str, value: Scalar) -> bool:
    """Whether a cell says this value: 0.10, 1e-1 and 0.1 are one."""
    if written == format_value(value):
        return True
    if isinstance(value, bool | str):
        return False
    try:
        return float(written) == value
    except ValueError:
        return False


def _measure_distance(one: TablePoint, other: TablePoint) -> float:
    """The square of the distance between two configurations."""
    total = 0.0
    for a, b in zip(one, other, strict=True):
        total += (a - b) ** 2 if isinstance(a, float) and isinstance(b, float) else float(a != b)
    return total
