"""A few trials side by side: what came of each, and which parameters differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from podtune.cli.views.formats import format_duration
from podtune.dashboard.numbers import NONE
from podtune.dashboard.table.columns import (
    STATE_COLUMN,
    TRIAL_COLUMN,
    Cell,
    TableColumn,
    list_columns,
    make_parameter_column,
)
from podtune.dashboard.trial_rows import ExperimentRows, ShownState, TrialRow

FEWEST, MOST = 2, 20
"""So many trials can be compared: more could not be told apart in one chart."""
Direction = Literal["higher", "lower", ""]


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """What a trial has in a line.

    Attributes:
        text: For people.
        exact: With all digits.
        is_marked: Whether it is the best of its line, or not what the best trial has.
    """

    text: str
    exact: str
    is_marked: bool


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """One measure or parameter of all compared trials.

    Attributes:
        better: Which values are better; empty where none is.
    """

    name: str
    better: Direction
    cells: Sequence[ComparedCell]


@dataclass(frozen=True, slots=True)
class TrialComparison:
    """Trials side by side.

    Attributes:
        best: The one with the best rank; None where none has a value.
        outcome: What came of them.
        different: The parameters whose values differ.
        equal: The other ones, with the value that all have.
        ranks: From 1, by the first objective, among all trials of the experiment.
    """

    rows: Sequence[TrialRow]
    best: TrialRow | None
    outcome: Sequence[ComparedLine]
    different: Sequence[ComparedLine]
    equal: Sequence[tuple[str, ComparedCell]]
    ranks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Measure:
    """A measure of what came of a trial.

    Attributes:
        is_cost: Whether only those that have completed compare: a trial that was stopped has cost less anyway.
    """

    column: TableColumn
    better: Direction = ""
    is_cost: bool = False


def compare_trials(experiment: ExperimentRows, rows: Sequence[TrialRow]) -> TrialComparison:
    """Puts trials side by side, in the order given."""
    ranks = _rank(experiment)
    ranked = [row for row in rows if row.name in ranks]
    best = min(ranked, key=lambda row: ranks[row.name], default=None)
    parameters = _list_parameters(experiment, rows)
    lines = [_compare_parameter(column, rows, best or rows[0]) for column in parameters]
    is_equal = [_is_equal(column, rows) for column in parameters]
    return TrialComparison(
        rows=rows,
        best=best,
        outcome=[_compare_measure(measure, rows) for measure in _list_measures(experiment, rows, ranks)],
        different=[line for line, equal in zip(lines, is_equal, strict=True) if not equal],
        equal=[(line.name, line.cells[0]) for line, equal in zip(lines, is_equal, strict=True) if equal],
        ranks=ranks,
    )


def list_compared_columns(experiment: ExperimentRows, rows: Sequence[TrialRow]) -> list[TableColumn]:
    """What programs get of a comparison: each trial's outcome and all its parameters."""
    columns = list_columns(experiment, rows)
    chosen = [
        columns[TRIAL_COLUMN],
        columns[STATE_COLUMN],
        *(measure.column for measure in _list_measures(experiment, rows, _rank(experiment))),
        columns["reason"],
        TableColumn("message", "Message", _find_message, lambda row: row.view.status.message),
        *_list_parameters(experiment, rows),
    ]
    by_name: dict[str, TableColumn] = {}
    for column in chosen:  # as in the table of trials
        by_name.setdefault(column.name, column)
    return list(by_name.values())


def _rank(experiment: ExperimentRows) -> Mapping[str, int]:
    return {row.name: place for place, row in enumerate(experiment.ranked, start=1)}


def _list_parameters(experiment: ExperimentRows, rows: Sequence[TrialRow]) -> list[TableColumn]:
    own = (name for row in rows for name in row.view.parameters)
    names = dict.fromkeys([*experiment.view.parameters, *own])
    return [make_parameter_column(name, experiment, rows) for name in names]


def _list_measures(
    experiment: ExperimentRows, rows: Sequence[TrialRow], ranks: Mapping[str, int]
) -> Sequence[_Measure]:
    columns = list_columns(experiment, rows)
    return [
        *(
            _Measure(columns[metric], "higher" if sign > 0 else "lower")
            for metric, sign in zip(experiment.metrics, experiment.signs, strict=True)
        ),
        _Measure(_make_column("rank", "Rank", lambda row: ranks.get(row.name), "{:,.0f}".format), "lower"),
        _Measure(columns["iteration"]),
        _Measure(
            _make_column("training_seconds", "Training time", _find_training, format_duration), "lower", is_cost=True
        ),
        _Measure(columns["gpu_hours"], "lower", is_cost=True),
        _Measure(columns["attempt"], "lower"),
        _Measure(columns["failures"], "lower"),
    ]


def _make_column(
    name: str, title: str, get: Callable[[TrialRow], float | None], write: Callable[[float], str]
) -> TableColumn:
    def format_cell(row: TrialRow) -> str:
        value = get(row)
        return "" if value is None else write(value)

    return TableColumn(name, title, get, format_cell, is_number=True)


def _find_message(row: TrialRow) -> str | None:
    return row.view.status.message or None


def _find_training(row: TrialRow) -> float | None:
    usage = row.view.status.usage
    return usage.training_seconds if usage is not None else None


def _compare_measure(measure: _Measure, rows: Sequence[TrialRow]) -> ComparedLine:
    column = measure.column
    best = _find_best(measure, rows)
    cells = [_write_cell(column, row, is_marked=best is not None and _is_best(measure, row, best)) for row in rows]
    return ComparedLine(column.title, measure.better, cells)


def _find_best(measure: _Measure, rows: Sequence[TrialRow]) -> float | None:
    """The best value of a measure; None where fewer than two can be compared, or most have that value."""
    cells = [measure.column.get(row) for row in rows if _counts(measure, row)]
    values = [cell for cell in cells if isinstance(cell, int | float)]
    if not measure.better or len(set(values)) < 2:
        return None
    best = max(values) if measure.better == "higher" else min(values)
    return best if 2 * values.count(best) <= len(values) else None


def _is_best(measure: _Measure, row: TrialRow, best: float) -> bool:
    return _counts(measure, row) and measure.column.get(row) == best


def _counts(measure: _Measure, row: TrialRow) -> bool:
    return not measure.is_cost or row.progress is ShownState.DONE


def _compare_parameter(column: TableColumn, rows: Sequence[TrialRow], best: TrialRow) -> ComparedLine:
    cells = [_write_cell(column, row, is_marked=column.get(row) != column.get(best)) for row in rows]
    return ComparedLine(column.title, "", cells)


def _is_equal(column: TableColumn, rows: Sequence[TrialRow]) -> bool:
    return len({column.get(row) for row in rows}) == 1


def _write_cell(column: TableColumn, row: TrialRow, *, is_marked: bool) -> ComparedCell:
    cell: Cell = column.get(row)
    return ComparedCell(column.format(row) or NONE, "" if cell is None else str(cell), is_marked)
