"""Checks the types of a manifest's values against the definition, as the API server does.

The models read a number in quotes as the number; the API server does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podtune.api.crd.schema import INT_OR_STRING, PRESERVE_UNKNOWN, Schema

Path = tuple[str | int, ...]

_WRONG: Mapping[str, str] = {
    "boolean": "is neither true nor false; write one of the two",
    "integer": "is not a whole number; write one without quotes",
    "number": "is not a number; write one without quotes",
    "string": "is not a string; put it in quotes",
    "array": "is not a list; write each entry with a dash",
    "object": "is not a map; write fields below it",
}
_TYPES: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (Mapping,),
}


def find_wrong_types(value: Any, schema: Schema, path: Path = ()) -> Iterator[tuple[Path, Any, str]]:
    """The values below one that are of another type than the schema's, each with its path and what to say of it."""
    kind = schema.get("type")
    if kind is None or INT_OR_STRING in schema:
        return
    if value is None and ("default" in schema or schema.get("nullable")):
        return  # the API server puts the default in its place, if there is one
    if not _has_type(value, kind):
        yield path, value, _WRONG[kind]
    elif kind == "array":
        yield from _find_below(enumerate(value), [schema["items"]] * len(value), path)
    elif kind == "object" and PRESERVE_UNKNOWN not in schema:
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        known = [(name, entry) for name, entry in value.items() if name in properties or others]
        yield from _find_below(known, [properties.get(name, others) for name, _ in known], path)


def _find_below(entries: Any, schemas: Sequence[Schema], path: Path) -> Iterator[tuple[Path, Any, str]]:
    for (key, entry), schema in zip(entries, schemas, strict=True):
        yield from find_wrong_types(entry, schema, (*path, key))


def _has_type(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()  # as kubectl writes it to the API server
    return isinstance(value, _TYPES[kind])
