"""What the address of the trials' table asks for; the same words restore the same table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self
from urllib.parse import urlencode

from podtune.dashboard.numbers import read_finite
from podtune.dashboard.query_values import QueryError, check_choice, read_choices, read_whole_number
from podtune.dashboard.trial_rows import ShownState

if TYPE_CHECKING:
    from multidict import MultiMapping

PAGE_SIZES = (25, 50, 100, 250)
DEFAULT_SIZE = 50
_COMPARISON = re.compile(r"(?P<column>[^<>=!]+)(?P<operator><=|>=|!=|=|<|>)(?P<value>.*)")
MOST_TERMS = 20


@dataclass(frozen=True, slots=True)
class Term:
    """One condition of a filter: a word that is looked for in names, or a column that is compared with a value.

    Attributes:
        column: Name of the column; empty for a word.
        number: The value as a number, where it is one.
    """

    column: str
    operator: str
    value: str
    number: float | None


@dataclass(frozen=True, slots=True)
class TableQuery:
    """What is asked for.

    Attributes:
        text: The filter, as it was written.
        terms: The same, read: all of them must hold.
        progress: How far the trials are that are asked for; empty for all.
        sort: The column to sort by; empty for the trials' own order.
        columns: The chosen columns; empty for those that are shown unless one chooses.
        page: From 1.
    """

    text: str = ""
    terms: tuple[Term, ...] = ()
    progress: tuple[ShownState, ...] = ()
    sort: str = ""
    descending: bool = False
    columns: tuple[str, ...] = ()
    page: int = 1
    size: int = DEFAULT_SIZE

    def change(self, **fields: object) -> Self:
        """The same with other fields, from the first page on unless that is one of them."""
        return replace(self, **{"page": 1, **fields})  # type: ignore[arg-type]

    def encode(self) -> str:
        """The query of an address that asks for this; `?` alone for what is asked for without one."""
        pairs = [
            *([("q", self.text)] if self.text else []),
            *(("state", str(progress)) for progress in self.progress),
            *([("sort", f"{'-' * self.descending}{self.sort}")] if self.sort else []),
            *(("column", column) for column in self.columns),
            *([("page", str(self.page))] if self.page > 1 else []),
            *([("size", str(self.size))] if self.size != DEFAULT_SIZE else []),
        ]
        return f"?{urlencode(pairs)}" if pairs else "?"


def parse_query(query: MultiMapping[str], known: Iterable[str]) -> TableQuery:
    """Reads the query of an address.

    Args:
        query: Names and values.
        known: The columns that there are.

    Raises:
        QueryError: Something is asked for that there is not.
    """
    columns = tuple(known)
    text = " ".join(query.getall("q", [])).strip()
    sort, descending = parse_sort(query, columns)
    return TableQuery(
        text=text,
        terms=parse_terms(text, columns),
        progress=read_choices(query, "state", ShownState),
        sort=sort,
        descending=descending,
        columns=read_choices(query, "column", columns),
        page=read_whole_number(query, "page", 1),
        size=min(read_whole_number(query, "size", DEFAULT_SIZE), PAGE_SIZES[-1]),
    )


def parse_sort(query: MultiMapping[str], columns: Iterable[str]) -> tuple[str, bool]:
    """The column to sort by, and whether the greatest comes first: -accuracy; an empty one where none is named.

    Raises:
        QueryError: There is no such column.
    """
    written = query.get("sort", "")
    name = written.removeprefix("-")
    return check_choice("sort", name, columns) if name else "", written.startswith("-")


def parse_terms(text: str, columns: Sequence[str]) -> tuple[Term, ...]:
    """Reads a filter: words that are looked for in names, and comparisons of columns such as lr<0.01.

    Raises:
        QueryError: There is no such column, or something is compared with what is no number.
    """
    words = text.split()
    if len(words) > MOST_TERMS:
        raise QueryError(f"the filter has {len(words)} conditions; use at most {MOST_TERMS}")
    return tuple(_parse_term(word, columns) for word in words)


def _parse_term(word: str, columns: Sequence[str]) -> Term:
    match = _COMPARISON.fullmatch(word)
    if match is None:
        return Term("", "", word.casefold(), None)
    column, operator, value = match["column"], match["operator"], match["value"]
    check_choice(f"the column of {word!r}", column, columns)
    number = read_finite(value)
    if number is None and operator in ("<", "<=", ">", ">="):
        raise QueryError(f"{word!r}: {value!r} is not a number; compare with one, or use = or !=")
    return Term(column, operator, value, number)
