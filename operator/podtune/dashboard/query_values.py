"""Reads values from the query of an address. What can't be meant is refused in words; an empty value is none at all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from podtune.dashboard.trial_rows import read_moment

if TYPE_CHECKING:
    from multidict import MultiMapping

MOST_TOLD = 30
"""So many of the values that there are stand in a refusal: an experiment may have hundreds of parameters."""
_COUNT = re.compile("[0-9]{1,9}")
Choice = TypeVar("Choice", bound=str)


class QueryError(ValueError):
    """An address asks for what can't be meant; the text says which value that is, and what to write instead."""


def read_choice(query: MultiMapping[str], name: str, known: Iterable[Choice], default: Choice) -> Choice:
    """A value that is one of some.

    Raises:
        QueryError: It is none of them.
    """
    written = query.get(name, "")
    return check_choice(name, written, known) if written else default


def read_choices(query: MultiMapping[str], name: str, known: Iterable[Choice]) -> tuple[Choice, ...]:
    """All values of a name, each once; raises as `read_choice`."""
    choices = list(known)
    return tuple(dict.fromkeys(check_choice(name, text, choices) for text in query.getall(name, []) if text))


def check_choice(what: str, written: str, known: Iterable[Choice]) -> Choice:
    """A value as one of some.

    Args:
        what: What it is, for the refusal.
        written: The value.
        known: Those that there are.

    Raises:
        QueryError: It is none of them.
    """
    choices = list(known)
    found = next((choice for choice in choices if choice == written), None)
    if found is None:
        more = f" and {len(choices) - MOST_TOLD} more" if len(choices) > MOST_TOLD else ""
        raise QueryError(f"{what} is {written!r}; take one of {', '.join(choices[:MOST_TOLD])}{more}")
    return found


def read_whole_number(query: MultiMapping[str], name: str, default: int, *, least: int = 1, meaning: str = "") -> int:
    """A whole number.

    Args:
        query: The query.
        name: Name of the value.
        default: What it is where there is none.
        least: The least that it may be.
        meaning: What it counts, for the refusal.

    Raises:
        QueryError: It is none, or too small.
    """
    written = query.get(name, "")
    if not written:
        return default
    if not _COUNT.fullmatch(written) or int(written) < least:
        raise QueryError(f"{name} is {written!r}; write a whole number from {least} on{meaning and f': {meaning}'}")
    return int(written)


def read_time(query: MultiMapping[str], name: str) -> float | None:
    """A time in seconds since 1970; None where there is none.

    Raises:
        QueryError: It can't be read.
    """
    written = query.get(name, "")
    moment = read_moment(written)
    if written and moment is None:
        raise QueryError(f"{name} is {written!r}; write a time as 2026-01-31T15:30:00, in UTC")
    return moment
