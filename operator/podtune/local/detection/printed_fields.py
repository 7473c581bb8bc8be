"""The numbers with names that a program prints, and which of its lines are of one form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from podtune.local.detection.metric_names import find_mode, is_beside, is_time, rank_objective

PRINTED_NUMBER = r"(?:[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|NaN|inf|Infinity))"
_QUALIFIER = r"(?:train|training|val|valid|validation|test|eval|dev|best|avg|average|mean|\w+'s)"
_NAME = rf"(?:(?i:{_QUALIFIER}) )*[A-Za-z_][\w@./'-]*"
_BETWEEN = r"[\"']?\s*[=:]\s*[\"'\[]?|\s*\[|\s+(?:(?:is|was|of)\s+)?"
_FIELD = re.compile(
    rf"(?<![\w.])(?P<name>{_NAME})(?P<between>{_BETWEEN})(?P<value>{PRINTED_NUMBER})(?![\w.]*\w|[-:]\d)"
)
_COUNT = re.compile(r"\s*(?:\[(?P<bracketed>\d+)\]|(?P<plain>\d+):)(?=\s)")
"""Begins the lines of gradient boosting: the number of the iteration."""
_NO_NAMES = frozenset(
    "after and at by for from in is line of on pid port than the to took v version was with".split()  # noqa: SIM905
)
_MOST_FIELDS = 8
_LONGEST_LINE = 4096


@dataclass(frozen=True, slots=True)
class PrintedField:
    """One number in a line.

    Attributes:
        name: As it is printed; empty where the line begins with a count that has none.
        lead: What stands before the number, from the begin of its name.
        value: The number.
        start: Where `lead` begins in the line.
        end: Where the number ends.
    """

    name: str
    lead: str
    value: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LineForm:
    """Lines that name the same numbers in the same order.

    Attributes:
        names: These names.
        lines: The lines.
        fields: The numbers of each line.
    """

    names: tuple[str, ...]
    lines: Sequence[str]
    fields: Sequence[Sequence[PrintedField]]

    @property
    def rank(self) -> int:
        """How much it looks like what is optimised."""
        return max(map(rank_objective, self.names))

    @property
    def has_time(self) -> bool:
        """Whether it says how far training is."""
        return "" in self.names or any(map(is_time, self.names))

    @property
    def is_usable(self) -> bool:
        """Whether it may hold results: it names something known, or comes again and isn't a time alone."""
        is_known = any(find_mode(name) for name in self.names)
        return is_known or (len(self.lines) > 1 and not all(not name or is_time(name) for name in self.names))


def find_forms(lines: Sequence[str]) -> list[LineForm]:
    """The forms of a program's lines, in the order in which they have come."""
    grouped: dict[tuple[str, ...], tuple[list[str], list[Sequence[PrintedField]]]] = {}
    for line in lines:
        fields = list(find_fields(line))
        if fields:
            held = grouped.setdefault(tuple(field.name for field in fields), ([], []))
            held[0].append(line)
            held[1].append(fields)
    return [LineForm(names, *held) for names, held in grouped.items()]


def find_fields(line: str) -> Iterator[PrintedField]:
    """The numbers of a line that have names; of a progress bar, which overwrites itself, those that are seen last."""
    if len(line) > _LONGEST_LINE:
        return
    begin = line.rstrip("\r").rfind("\r") + 1
    seen = set()
    if count := _COUNT.match(line, begin):
        group = count.lastgroup or ""
        seen.add("")
        lead = "[" if group == "bracketed" else ""
        yield PrintedField("", lead, count[group], count.start(group) - len(lead), count.end(group))
    for match in _FIELD.finditer(line, begin):
        name = match["name"].rstrip("'")
        if name in seen or name.lower() in _NO_NAMES or is_beside(name):
            continue
        seen.add(name)
        lead = line[match.start() : match.start("value")]
        yield PrintedField(name, lead, match["value"], match.start(), match.end("value"))
        if len(seen) == _MOST_FIELDS:
            return
