"""The table of trials and the comparison as `podtune trials` and `podtune compare` print them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from podtune.cli.views.columns import RankedColumn, align_columns, render_columns, wrap_line
from podtune.cli.views.formats import format_curve
from podtune.dashboard.query_values import check_choice
from podtune.dashboard.table.columns import TRIAL_COLUMN, TableColumn, list_columns, select_columns
from podtune.dashboard.table.comparison import ComparedLine, TrialComparison, list_compared_columns
from podtune.dashboard.table.downloads import write_cell
from podtune.dashboard.table.query import TableQuery, parse_terms
from podtune.dashboard.table.selection import select_rows
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows, ShownState, TrialRow

CURVE_COLUMN = "curve"
_FIRST_RANK = 1000
_MARK = "*"
_GAP = 3


def make_query(
    experiment: ExperimentRows, text: str, sort: str, states: Iterable[ShownState], columns: str
) -> TableQuery:
    """Reads what is asked for on the command line.

    Args:
        experiment: Whose trials are shown.
        text: The filter.
        sort: A column; with - before it, the greatest come first.
        states: How far the trials are that are asked for; none for all.
        columns: Names of columns, with commas between them; empty for the usual ones.

    Raises:
        QueryError: There is no such column, or a condition can't be meant.
    """
    known = list(list_columns(experiment))
    chosen = [name.strip() for name in columns.split(",") if name.strip()]
    name = sort.removeprefix("-")
    return TableQuery(
        text=text,
        terms=parse_terms(text, known),
        progress=tuple(states),
        sort=check_choice("--sort", name, known) if name else "",
        descending=sort.startswith("-"),
        columns=tuple(check_choice("--columns", each, [*known, CURVE_COLUMN]) for each in chosen),
    )


def select_trials(experiment: ExperimentRows, query: TableQuery) -> list[TrialRow]:
    """The trials that are asked for, in the order that is asked for."""
    return select_rows(experiment.rows, query, list_columns(experiment))


def render_table(
    experiment: ExperimentRows,
    rows: Sequence[TrialRow],
    chosen: Sequence[str],
    width: int | None,
    *,
    is_wide: bool = False,
) -> list[str]:
    """The lines of the table; of the columns that nobody has chosen, as many as have room.

    Learning curves are for terminals: programs that read a pipe want numbers.
    """
    columns = list_columns(experiment, rows)
    usual = _select_columns(columns, list(columns) if is_wide and not chosen else chosen)
    # They have room from left to right: the state, what was reached, what was tried, the curve, and the rest.
    shown = [_make_column(column, rows, _FIRST_RANK - place if place else 0) for place, column in enumerate(usual)]
    if CURVE_COLUMN in chosen or (not chosen and width is not None):
        place = len(shown) if chosen else 2 + len(experiment.metrics) + len(experiment.view.parameters)
        curves = [format_curve(row.view.status.curve) for row in rows]
        shown.insert(place, RankedColumn("CURVE", curves, _FIRST_RANK - place))
    if not chosen and not is_wide:
        shown = [column for column in shown if not column.is_empty or column.rank == 0]
    return render_columns(shown, width)


def _select_columns(columns: Mapping[str, TableColumn], chosen: Sequence[str]) -> list[TableColumn]:
    """The trial's name and the chosen columns but the curve, which pages have no column for; else the usual ones."""
    names = [name for name in chosen if name != CURVE_COLUMN]
    return select_columns(columns, names) if names or not chosen else [columns[TRIAL_COLUMN]]


def _make_column(column: TableColumn, rows: Sequence[TrialRow], rank: int) -> RankedColumn:
    title = column.title.upper() if column.title != column.name else column.name
    return RankedColumn(title, [column.format(row) for row in rows], rank, column.is_number)


def collect_items(experiment: ExperimentRows, rows: Sequence[TrialRow], chosen: Sequence[str]) -> list[dict[str, Any]]:
    """The chosen columns for programs, with all digits."""
    columns = _select_columns(list_columns(experiment), chosen)
    return [{column.name: write_cell(column, row) for column in columns} | _find_curve(row, chosen) for row in rows]


def _find_curve(row: TrialRow, chosen: Sequence[str]) -> dict[str, Any]:
    if CURVE_COLUMN not in chosen:
        return {}
    curve = row.view.status.curve
    return {CURVE_COLUMN: curve.to_arrays() if curve is not None else None}


def render_comparison(compared: TrialComparison, width: int | None) -> list[str]:
    """Trials side by side; where there is no room for all, a few and then the next.

    Of each measure the best is marked. Of parameters, only those have a line that differ.
    """
    names = [row.name for row in compared.rows]
    states = ["State", *(STATE_WORDS[row.progress] for row in compared.rows)]
    table = [["", *names], states, *(_list_cells(line) for line in (*compared.outcome, *compared.different))]
    lines: list[str] = []
    for block in _split(table, width):
        lines += [*([""] if lines else []), *align_columns(block[0], block[1:])]
    if any(cell.is_marked for line in compared.outcome for cell in line.cells):
        lines += ["", f"{_MARK} best of its line"]
    if compared.equal:
        same = ", ".join(f"{name} {cell.text}" for name, cell in compared.equal)
        lines += ["", *wrap_line(f"the same in all: {same}", width)]
    return lines


def _list_cells(line: ComparedLine) -> list[str]:
    marks = [f" {_MARK}" if cell.is_marked and line.better else "" for cell in line.cells]
    return [line.name, *(f"{cell.text}{mark}" for cell, mark in zip(line.cells, marks, strict=True))]


def _split(table: Sequence[Sequence[str]], width: int | None) -> list[list[list[str]]]:
    """The table as blocks that fit, each with the names of the lines; one trial at least in each."""
    first = max(len(row[0]) for row in table)
    blocks: list[list[int]] = [[]]
    room = (width or 0) - first
    for place in range(1, len(table[0])):
        needed = _GAP + max(len(row[place]) for row in table)
        if width is not None and needed > room and blocks[-1]:
            blocks.append([])
            room = width - first
        blocks[-1].append(place)
        room -= needed
    return [[[row[0], *(row[place] for place in block)] for row in table] for block in blocks]


def collect_comparison(experiment: ExperimentRows, compared: TrialComparison) -> dict[str, Any]:
    """The comparison for programs: each trial with its outcome and all its parameters."""
    columns = list_compared_columns(experiment, compared.rows)
    return {
        "experiment": experiment.view.name,
        "best": compared.best.name if compared.best is not None else None,
        "differ": [line.name for line in compared.different],
        "items": [{column.name: write_cell(column, row) for column in columns} for row in compared.rows],
    }
