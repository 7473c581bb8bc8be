"""Plain text in columns: as wide as it is in a pipe, and broken where a terminal ends."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence

_GAP = "   "
INDENT = "    "
MIN_MESSAGE = 30
"""A message that would have fewer columns than this beside its row stands below it."""


def align_columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table, each column as wide as its widest cell; an empty cell is a dash."""
    cells = [list(header), *([cell or "-" for cell in row] for row in rows)]
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


def _place_beside(left: str, text: str, width: int | None) -> list[str]:
    """A text behind what its first line begins with, and below itself."""
    if width is None:
        return [f"{left}{text}".rstrip()]
    lines = textwrap.wrap(text, max(width - len(left), MIN_MESSAGE)) or [""]
    return [f"{left if number == 0 else ' ' * len(left)}{line}".rstrip() for number, line in enumerate(lines)]


def _place_below(row: str, text: str, width: int) -> list[str]:
    return [row, *(f"{INDENT}{line}" for line in textwrap.wrap(text, max(width - len(INDENT), MIN_MESSAGE)))]
