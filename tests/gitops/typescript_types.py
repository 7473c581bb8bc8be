"""Reads interfaces of TypeScript: enough of the language for integrations/headlamp/src/api.ts, and no more.

A type is a set of alternatives; each is `Primitive`, a `Literal`, an array, or an object with fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_INTERFACE = re.compile(r"export interface (\w+) (?=\{)")
_TOKEN = re.compile(r"'[^']*'|\w+|\[\]|[{}<>,;:?|&()]")


@dataclass(frozen=True)
class TypeOfField:
    """What a field may hold.

    Attributes:
        names: Names of simple types, such as string.
        literals: The values that it may have, if only these.
        fields: Types of its own fields, if it is an object.
        items: Type of its items, if it is an array, or of its values, if it maps names to them.
    """

    names: frozenset[str] = frozenset()
    literals: frozenset[str] = frozenset()
    fields: Mapping[str, TypeOfField] = field(default_factory=dict)
    items: TypeOfField | None = None

    def join(self, other: TypeOfField) -> TypeOfField:
        """Either of them, or both at once."""
        return TypeOfField(
            self.names | other.names,
            self.literals | other.literals,
            {**self.fields, **other.fields},
            self.items or other.items,
        )


def read_interfaces(text: str) -> dict[str, TypeOfField]:
    """The interfaces that a file exports, by name."""
    text = _COMMENT.sub("", text)
    bodies = {match[1]: text[match.end() :] for match in _INTERFACE.finditer(text)}
    return {name: _Reader(body, bodies).read_type() for name, body in bodies.items()}


class _Reader:
    def __init__(self, text: str, bodies: Mapping[str, str]) -> None:
        self._tokens: Iterator[str] = (match[0] for match in _TOKEN.finditer(text))
        self._next = next(self._tokens)
        self._bodies = bodies

    def read_type(self) -> TypeOfField:
        found = self._read_single()
        while self._next in ("|", "&"):
            self._take()
            found = found.join(self._read_single())
        return found

    def _take(self) -> str:
        taken, self._next = self._next, next(self._tokens, "")
        return taken

    def _read_single(self) -> TypeOfField:
        found = self._read_item()
        while self._next == "[]":
            self._take()
            found = TypeOfField(items=found)
        return found

    def _read_item(self) -> TypeOfField:
        token = self._take()
        if token == "{":
            return TypeOfField(fields=dict(self._read_fields()))
        if token.startswith("'"):
            return TypeOfField(literals=frozenset({token.strip("'")}))
        if token == "Record":
            for expected in ("<", "string", ","):
                assert self._take() == expected
            values = self.read_type()
            assert self._take() == ">"
            return TypeOfField(items=values)
        if token in self._bodies:
            return _Reader(self._bodies[token], self._bodies).read_type()
        return TypeOfField(names=frozenset({token}))

    def _read_fields(self) -> Iterator[tuple[str, TypeOfField]]:
        while self._next != "}":
            name = self._take()
            if self._next == "?":
                self._take()
            assert self._take() == ":", name
            yield name, self.read_type()
            if self._next == ";":
                self._take()
        self._take()
