"""Encodes many short words in few values, so that a list fits into a trial's record.

A record's value may have 256 characters and a section 1,024 of them, so several words share a value. They stand in
their order, with a space between two; the values are keyed by their positions, "0", "1", …
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MAX_VALUE = 256
"""Longest value of a record, in characters."""


def encode_words(words: Iterable[str]) -> dict[str, str]:
    """Encodes words, each without a space and at most `MAX_VALUE` long, into as few values as keep their order."""
    values: list[str] = []
    for word in words:
        if values and len(values[-1]) + 1 + len(word) <= MAX_VALUE:
            values[-1] += f" {word}"
        else:
            values.append(word)
    return {str(position): value for position, value in enumerate(values)}


def decode_words(values: Mapping[str, str]) -> list[str]:
    """The words that `encode_words` encoded.

    Raises:
        ValueError: A key is not a position.
    """
    return [word for position in sorted(values, key=int) for word in values[position].split(" ")]


def shortest_repr(number: float) -> str:
    """Writes a number in as few characters as reading it back allows: 3 for 3.0."""
    return repr(number).removesuffix(".0")
