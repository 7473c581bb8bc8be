"""The table for other programs: CSV for spreadsheets, JSON for the rest. All pages of it, in the columns shown."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from typing import Any

from podtune.dashboard.numbers import read_finite
from podtune.dashboard.table.columns import STATE_COLUMN, TRIAL_COLUMN, Cell, TableColumn
from podtune.dashboard.trial_rows import TrialRow

_NUMBER = r"[+-](?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*(?:$|[;,\t\n\r\])}])"
_FORMULA = re.compile(rf"(?:^|[;,\t\n\r])[^\S\t\n\r]*(?=[=+\-@＝＋－＠])(?!{_NUMBER})")
"""Where a formula may begin: spreadsheets take other separators than commas, too, and pass over spaces. Numbers are no
formulas, nor are those in a list."""


def write_csv(columns: Sequence[TableColumn], rows: Sequence[TrialRow]) -> str:
    """The table as RFC 4180 has it. A text that a spreadsheet would run as a formula has an apostrophe before."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([disarm(column.name) for column in columns])
    writer.writerows([disarm(write_cell(column, row)) for column in columns] for row in rows)
    return out.getvalue()


def write_json(columns: Sequence[TableColumn], rows: Sequence[TrialRow], facts: dict[str, Any]) -> str:
    """The table as one object: `facts`, and the rows as `items`, which leave out what they have no value for."""
    cells = ({column.name: write_cell(column, row) for column in columns} for row in rows)
    items = [{name: cell for name, cell in entry.items() if cell is not None} for entry in cells]
    return json.dumps({**facts, "items": items}, ensure_ascii=False, allow_nan=False)


def write_cell(column: TableColumn, row: TrialRow) -> Cell:
    """What stands in a cell for programs: texts as they are, numbers with all their digits."""
    if column.name == TRIAL_COLUMN:
        return row.name
    if column.name == STATE_COLUMN:
        return str(row.progress)
    return column.get(row)


def disarm(cell: Cell) -> Cell:
    """A cell that no spreadsheet runs as a formula."""
    if not isinstance(cell, str) or read_finite(cell) is not None:
        return cell
    return ("'" if cell.startswith(("\t", "\r")) else "") + _FORMULA.sub(r"\g<0>'", cell)
