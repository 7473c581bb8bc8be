"""The columns of the trials' table: what stands in each, as a value to sort and filter by and as a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from podtune.cli.views.formats import format_duration
from podtune.dashboard.numbers import (
    choose_decimals,
    format_aligned,
    format_hours,
    format_hours_column,
    format_text,
)
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows, TrialRow

Cell = float | str | None
TRIAL_COLUMN = "trial"
STATE_COLUMN = "state"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column.

    Attributes:
        name: By which an address names it.
        title: Its heading.
        get: What stands in it for a trial; None for nothing.
        format: The same for people.
        is_number: Whether its cells stand right.
        is_shown: Whether it is shown unless one chooses.
    """

    name: str
    title: str
    get: Callable[[TrialRow], Cell]
    format: Callable[[TrialRow], str]
    is_number: bool = False
    is_shown: bool = True


def list_columns(experiment: ExperimentRows, page: Sequence[TrialRow] = ()) -> dict[str, TableColumn]:
    """The columns of an experiment's table, by name.

    Args:
        experiment: Whose trials they are.
        page: The trials that are shown: their numbers get one precision in each column.
    """
    columns = [
        TableColumn(TRIAL_COLUMN, "Trial", lambda row: row.view.index, lambda row: row.name),
        TableColumn(STATE_COLUMN, "State", _find_state, _find_state),
        *(_make_objective(metric, place, page) for place, metric in enumerate(experiment.metrics)),
        *(make_parameter_column(name, experiment, page) for name in experiment.view.parameters),
        _make_number("iteration", "Iteration", lambda row: row.view.status.iteration, str),
        _make_number("attempt", "Attempts", lambda row: row.view.status.attempt, str),
        _make_number("failures", "Failures", lambda row: row.view.status.failures, str, is_shown=False),
        TableColumn(
            "duration",
            "Duration",
            lambda row: row.duration,
            lambda row: "" if row.duration is None else format_duration(row.duration),
            is_number=True,
        ),
        _make_gpu_hours(page),
        _make_text("reason", "Reason", lambda row: row.view.status.reason, is_shown=False),
        _make_text("display_name", "Display name", lambda row: row.view.display_name, is_shown=False),
        _make_text("started", "Started", lambda row: row.view.status.start_time or "", is_shown=False),
        _make_text("ended", "Ended", lambda row: row.view.status.completion_time or "", is_shown=False),
    ]
    by_name: dict[str, TableColumn] = {}
    for column in columns:  # a parameter may have the name of another column: that one was there first
        by_name.setdefault(column.name, column)
    return by_name


def _find_state(row: TrialRow) -> str:
    return STATE_WORDS[row.progress]


def _make_objective(metric: str, place: int, page: Sequence[TrialRow]) -> TableColumn:
    decimals = choose_decimals(value for row in page if (value := row.values[place]) is not None)

    def get(row: TrialRow) -> Cell:
        return row.values[place]

    def write(row: TrialRow) -> str:
        value = row.values[place]
        return "" if value is None else format_aligned(value, decimals)

    return TableColumn(metric, metric, get, write, is_number=True)


def make_parameter_column(name: str, experiment: ExperimentRows, page: Sequence[TrialRow]) -> TableColumn:
    """A parameter's column; its numbers get one precision where they are not spread over magnitudes."""
    axis = next((axis for axis in experiment.axes if axis.name == name), None)
    is_spread = axis is None or axis.is_log or bool(axis.choices)
    decimals = None if is_spread else choose_decimals(row.numbers[name] for row in page if name in row.numbers)
    is_text = axis is not None and axis.is_text

    def get(row: TrialRow) -> Cell:
        return row.numbers.get(name, row.view.parameters.get(name))

    def write(row: TrialRow) -> str:
        number = None if is_text else row.numbers.get(name)
        text = row.view.parameters.get(name, "")
        return format_text(text) if number is None else format_aligned(number, decimals)

    return TableColumn(name, name, get, write, is_number=not is_text)


def _make_gpu_hours(page: Sequence[TrialRow]) -> TableColumn:
    texts = dict(zip((row.name for row in page), format_hours_column([row.gpu_hours for row in page]), strict=True))

    def write(row: TrialRow) -> str:
        return "" if row.gpu_hours is None else texts.get(row.name, format_hours(row.gpu_hours))

    return TableColumn("gpu_hours", "GPU-hours", lambda row: row.gpu_hours, write, is_number=True)


def _make_number(
    name: str, title: str, get: Callable[[TrialRow], int], write: Callable[[int], str], *, is_shown: bool = True
) -> TableColumn:
    return TableColumn(name, title, get, lambda row: write(get(row)), is_number=True, is_shown=is_shown)


def _make_text(name: str, title: str, get: Callable[[TrialRow], str], *, is_shown: bool) -> TableColumn:
    return TableColumn(name, title, lambda row: get(row) or None, get, is_shown=is_shown)


def select_columns(columns: Mapping[str, TableColumn], chosen: Sequence[str]) -> list[TableColumn]:
    """The columns that are shown, in the order in which they are chosen; the trial's name is always the first."""
    names = chosen or [name for name, column in columns.items() if column.is_shown]
    return [columns[TRIAL_COLUMN], *(columns[name] for name in names if name != TRIAL_COLUMN)]
