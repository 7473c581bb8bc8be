"""Lists and maps as values of parameters.

Inside Podtune such a value is its JSON, written in one way only: a text, which is hashable and comparable like every
other value. It becomes a list or a map again where a program or a person reads it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

MAX_VALUE_TEXT = 1024
"""Longest value of a parameter, in characters."""
_MAX_DEPTH = 8
"""How many lists and maps may lie in each other."""


class JsonText(str):
    """The JSON of a list or a map; `canonicalize` writes it."""

    __slots__ = ()


def canonicalize(value: Sequence[Any] | Mapping[str, Any]) -> JsonText:
    """Writes a list or a map as JSON: keys in order, no spaces, so that equal values are equal texts."""
    return JsonText(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def read_json_text(text: str) -> str:
    """Reads what a person writes for a value: the canonical text where it is a list or a map, else the text itself."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return canonicalize(json.loads(text))
    except (ValueError, RecursionError):
        return text


def decode_value(value: bool | int | float | str) -> JsonValue:
    """Turns a parameter's value into what a program reads: a list or a map again, where it is one."""
    decoded: JsonValue = json.loads(value) if isinstance(value, JsonText) else value
    return decoded


def read_parameter_value(value: Any) -> bool | int | float | str:
    """Reads the value of a parameter from a manifest.

    Raises:
        ValueError: It can't be one; the text says why, and what to do.
    """
    problem = "a null can't be a value; use another one, or a text" if value is None else _find_problem(value)
    if problem:
        raise ValueError(problem)
    read: bool | int | float | str = canonicalize(value) if isinstance(value, list | dict) else value
    if isinstance(read, str) and len(read) > MAX_VALUE_TEXT:
        kind = "list or map whose JSON has" if isinstance(read, JsonText) else "string of"
        raise ValueError(f"a {kind} {len(read)} characters; shorten it to {MAX_VALUE_TEXT}")
    return read


def _find_problem(value: Any, depth: int = 0) -> str:
    """Says what JSON can't say of a value; empty where it can."""
    match value:
        case list() | dict() if depth == _MAX_DEPTH:
            return f"nests more than {_MAX_DEPTH} lists and maps in each other; make it flatter"
        case list():
            problems = (_find_problem(entry, depth + 1) for entry in value)
            return next(filter(None, problems), "")
        case dict():
            for key, entry in value.items():
                if not isinstance(key, str):
                    return f"has the key {key!r:.64}, which is not a string; put it in quotes"
                if problem := _find_problem(entry, depth + 1):
                    return problem
            return ""
        case float() if not math.isfinite(value):
            return f"{value} is not a finite number; write one, or a string"
        case None | bool() | int() | float() | str():
            return ""
        case _:
            return f"a {type(value).__name__} can't be a value; use a string, number, boolean, list or map"
