"""Which trials a table shows, and in which order."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from podtune.dashboard.numbers import read_finite
from podtune.dashboard.table.columns import Cell, TableColumn
from podtune.dashboard.table.query import TableQuery, Term
from podtune.dashboard.trial_rows import TrialRow

Item = TypeVar("Item")
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class TablePage:
    """One page of a table.

    Attributes:
        rows: The trials on it.
        total: How many there are on all pages.
        page: Its number, from 1; the last one where a later one was asked for.
        pages: How many pages there are, at least one.
    """

    rows: Sequence[TrialRow]
    total: int
    page: int
    pages: int
    first: int


def select_rows(rows: Iterable[TrialRow], query: TableQuery, columns: Mapping[str, TableColumn]) -> list[TrialRow]:
    """The trials that are asked for, in the order that is asked for; those without a value come last."""
    wanted = frozenset(query.progress)
    found = [row for row in rows if not wanted or row.progress in wanted]
    for term in query.terms:
        found = [row for row in found if _holds(term, row, columns)]
    return sort_by(columns[query.sort].get, found, descending=query.descending) if query.sort else found


def sort_by(get: Callable[[Item], Cell], items: Sequence[Item], *, descending: bool) -> list[Item]:
    """Items in the order of what stands in a column, numbers before texts; those without a value come last."""
    valued = [(cell, item) for item in items if (cell := get(item)) is not None]
    valued.sort(key=lambda pair: _rank(pair[0]), reverse=descending)
    return [*(item for _, item in valued), *(item for item in items if get(item) is None)]


def cut_page(rows: Sequence[TrialRow], query: TableQuery) -> TablePage:
    """The page that is asked for."""
    pages = max(1, -(-len(rows) // query.size))
    page = min(query.page, pages)
    first = (page - 1) * query.size
    return TablePage(rows[first : first + query.size], len(rows), page, pages, first)


def _rank(cell: Cell) -> tuple[int, float, str]:
    return (1, 0.0, cell.casefold()) if isinstance(cell, str) else (0, cell or 0.0, "")


def _holds(term: Term, row: TrialRow, columns: Mapping[str, TableColumn]) -> bool:
    if not term.column:
        view = row.view
        return any(term.value in text.casefold() for text in (view.name, view.display_name, view.status.reason))
    column = columns[term.column]
    cell = column.get(row)
    if term.operator in _OPERATORS:
        return not isinstance(cell, str) and cell is not None and _compare(term, cell)
    number = read_finite(cell) if isinstance(cell, str) else cell
    is_equal = number == term.number if term.number is not None and number is not None else _is_same(term, row, column)
    return is_equal == (term.operator == "=")


def _compare(term: Term, cell: float) -> bool:
    return term.number is not None and _OPERATORS[term.operator](cell, term.number)


def _is_same(term: Term, row: TrialRow, column: TableColumn) -> bool:
    cell = column.get(row)
    texts = (column.format(row), "" if cell is None else str(cell))
    return term.value.casefold() in (text.casefold() for text in texts)
