"""Text in columns: as wide as it is in a pipe; on a terminal as many columns as have room, and none of them cut."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_GAP = "   "
_NOTHING = "-"
INDENT = "    "
MIN_MESSAGE = 30
"""A message that would have fewer columns than this beside its row stands below it."""


@dataclass(frozen=True, eq=False, slots=True)
class RankedColumn:
    """A column that may have no room on a terminal.

    Attributes:
        rank: Those with the highest have room first; 0 for one that always stays.
        is_number: Whether its cells stand right.
    """

    name: str
    cells: Sequence[str]
    rank: int = 0
    is_number: bool = False

    @property
    def width(self) -> int:
        """Characters of its widest cell, or of its header."""
        return max(len(self.name), *map(len, self.cells))

    @property
    def is_empty(self) -> bool:
        """Whether nothing stands in it."""
        return not any(self.cells)


@dataclass(frozen=True, slots=True)
class FittedColumns:
    """Columns that fit, from left to right, and the names of those that don't."""

    columns: Sequence[RankedColumn]
    left_out: Sequence[str]

    @property
    def note(self) -> str:
        """What is left out, in a sentence; empty where nothing is."""
        return f"no room for {', '.join(self.left_out)}" if self.left_out else ""


def fit_columns(columns: Sequence[RankedColumn], width: int | None, gap: int, last_rank: int = 0) -> FittedColumns:
    """Chooses columns that fit side by side; each is there as a whole, or not at all.

    Args:
        columns: All columns.
        width: Of the terminal; without one, all fit.
        gap: Characters between two columns.
        last_rank: Columns up to this rank are there only if all others are.
    """
    if width is None:
        return FittedColumns(columns, ())
    kept = [column for column in columns if not column.rank]
    room = width - sum(column.width + gap for column in kept) + gap
    others = sorted((column for column in columns if column.rank), key=lambda column: -column.rank)
    for place, column in enumerate(others):
        is_spared = column.rank <= last_rank and any(each not in kept for each in others[:place])
        if column.width + gap <= room and not is_spared:
            kept.append(column)
            room -= column.width + gap
    shown = [column for column in columns if column in kept]
    return FittedColumns(shown, [column.name for column in columns if column not in kept])


def render_columns(columns: Sequence[RankedColumn], width: int | None) -> list[str]:
    """Lines of a table of those columns that fit, and what is left out; an empty cell is a dash."""
    fitted = fit_columns(columns, width, len(_GAP))
    parts = [[column.name, *(cell or _NOTHING for cell in column.cells)] for column in fitted.columns]
    widths = [max(map(len, part)) for part in parts]
    lines = [
        _GAP.join(
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(row, widths, fitted.columns, strict=True)
        ).rstrip()
        for row in zip(*parts, strict=True)
    ]
    return [
        *lines,
        *(textwrap.wrap(f"({fitted.note}; -o wide shows all)", max(width or 0, MIN_MESSAGE)) if fitted.note else ()),
    ]


def render_with_message(
    columns: Sequence[RankedColumn], title: str, messages: Sequence[str], width: int | None
) -> list[str]:
    """The same with a sentence beside each row or below it, which ends with what has no room in a column.

    Args:
        columns: The columns.
        title: Of the sentences.
        messages: By row.
        width: Of the terminal; without one, lines have no end.
    """
    fitted = fit_columns(columns, width, len(_GAP))
    missing = [column for column in columns if column not in fitted.columns]
    header = [*(column.name for column in fitted.columns), title]
    rows = []
    for place, message in enumerate(messages):
        told = (f"{column.name.lower()} {column.cells[place]}" for column in missing if column.cells[place])
        sentence = "; ".join(part for part in (", ".join(told), message) if part)
        rows.append([*(column.cells[place] for column in fitted.columns), sentence])
    return align_with_message(header, rows, width)


def align_columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table, each column as wide as its widest cell; an empty cell is a dash."""
    cells = [list(header), *([cell or _NOTHING for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def align_with_message(header: Sequence[str], rows: Iterable[Sequence[str]], width: int | None) -> list[str]:
    """A table whose last column is a sentence, which is broken, or goes below its row, where there is no room for it.

    Without a `width`, lines have no end.
    """
    given = [tuple(row) for row in rows]
    table = align_columns(header[:-1], (row[:-1] for row in given))
    messages = [header[-1], *(row[-1] for row in given)]
    if not any(messages[1:]):
        return table
    start = max(map(len, table)) + len(_GAP)
    if width is None or start + MIN_MESSAGE <= width:
        return [
            line
            for left, message in zip(table, messages, strict=True)
            for line in _place_beside(left.ljust(start), message, width)
        ]
    return [
        table[0],
        *(line for row in zip(table[1:], messages[1:], strict=True) for line in _place_below(*row, width)),
    ]


def align_labels(facts: Mapping[str, str], width: int | None) -> list[str]:
    """Names and what stands for them, in two columns; what is empty is left out."""
    start = max(map(len, facts)) + 3
    return [
        line for name, value in facts.items() if value for line in _place_beside(f"{name}:".ljust(start), value, width)
    ]


def wrap_line(text: str, width: int | None) -> list[str]:
    """A line that goes on below, further to the right, where a terminal ends."""
    if width is None or len(text) <= width:
        return [text]
    start = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(text.lstrip(), width, initial_indent=start, subsequent_indent=f"{start}{INDENT}")


def _place_beside(left: str, text: str, width: int | None) -> list[str]:
    """A text behind what its first line begins with, and below itself."""
    if width is None:
        return [f"{left}{text}".rstrip()]
    lines = textwrap.wrap(text, max(width - len(left), MIN_MESSAGE)) or [""]
    return [f"{left if number == 0 else ' ' * len(left)}{line}".rstrip() for number, line in enumerate(lines)]


def _place_below(row: str, text: str, width: int) -> list[str]:
    return [row, *(f"{INDENT}{line}" for line in textwrap.wrap(text, max(width - len(INDENT), MIN_MESSAGE)))]
