"""Reading fields of messages with suspicion: what is not as the protocol says is refused, by name.

Standard library only, as `podtune.protocol.messages`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class ProtocolError(ValueError):
    """A message is not what the protocol says; the text names the field."""


def read_json(data: bytes | str) -> object:
    """JSON that came over the network.

    Raises:
        ProtocolError: It is not.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {error}") from error


def read_object(value: object, name: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ProtocolError: It is not.
    """
    if not isinstance(value, dict):
        raise ProtocolError(f"{name} is not a JSON object")
    return value


def read_list(body: Mapping[str, Any], name: str, limit: int | None = None) -> list[Any]:
    """A list of at most so many items; empty where it is missing.

    Raises:
        ProtocolError: It is not.
    """
    value = body.get(name, [])
    if not isinstance(value, list):
        raise ProtocolError(f"{name} is not a list")
    if limit is not None and len(value) > limit:
        raise ProtocolError(f"{name} holds {len(value)} items; at most {limit} are taken")
    return value


def read_texts(body: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of texts.

    Raises:
        ProtocolError: It is not.
    """
    values = read_list(body, name)
    if not all(isinstance(value, str) for value in values):
        raise ProtocolError(f"{name} is not a list of strings")
    return tuple(values)


def read_text(body: Mapping[str, Any], name: str, limit: int = 1024) -> str:
    """A text that is neither missing nor empty nor too long.

    Raises:
        ProtocolError: It is not.
    """
    value = body.get(name)
    if not isinstance(value, str) or not value or len(value) > limit or not is_unicode(value):
        raise ProtocolError(f"{name} is missing or not a string of 1 to {limit} characters")
    return value


def read_clipped(body: Mapping[str, Any], name: str, limit: int) -> str:
    """A text, cut where it is too long.

    Raises:
        ProtocolError: It is not.
    """
    value = body.get(name, "")
    if not isinstance(value, str) or not is_unicode(value):
        raise ProtocolError(f"{name} is not a text")
    return value[:limit]


def is_unicode(text: str) -> bool:
    """Whether it can be encoded: JSON can write halves of surrogate pairs, which nothing else takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_count(body: Mapping[str, Any], name: str) -> int:
    """A whole number from 0.

    Raises:
        ProtocolError: It is not.
    """
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 53:
        raise ProtocolError(f"{name} is not a whole number from 0")
    return value
