"""What a record of a file says that a program has logged metrics to, whatever wrote it, and what is wrong with one.

The records are messages in the encoding of protobuf: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Types of fields on the wire."""
_LENGTHS = {FIXED64: 8, FIXED32: 4}
_LONGEST_VARINT = 10

FieldKey = tuple[int, int]
_Field = tuple[FieldKey, int, bytes]
"""Number and type, the number that it holds, or its bytes."""


class BadMessage(ValueError):
    """Bytes are no message."""


class CorruptFile(ValueError):
    """From some place on, the file holds no records."""


@dataclass(frozen=True, slots=True)
class LoggedScalar:
    """One value of a tag."""

    tag: str
    value: float


@dataclass(frozen=True, slots=True)
class ScalarEvent:
    """What a record says.

    Attributes:
        time: When it was logged, in seconds since the epoch.
        step: The step that it belongs to.
        scalars: In their order, at least one.
    """

    time: float
    step: int
    scalars: tuple[LoggedScalar, ...]


def read_fields(message: bytes) -> Iterator[_Field]:
    """The fields of a message, in their order.

    Raises:
        BadMessage: It is none.
    """
    position, end = 0, len(message)
    while position < end:
        key, position = _read_varint(message, position)
        wire_type = key & 7
        if wire_type == VARINT:
            number, position = _read_varint(message, position)
            yield (key >> 3, wire_type), number, b""
            continue
        if wire_type == BYTES:
            length, position = _read_varint(message, position)
        elif wire_type in _LENGTHS:
            length = _LENGTHS[wire_type]
        else:
            raise BadMessage(f"type {wire_type} of a field is not known")
        content, position = message[position : position + length], position + length
        if position > end:
            raise BadMessage("it ends in the midst of a field")
        yield (key >> 3, wire_type), 0, content


def read_signed(number: int) -> int:
    """A number of 64 bits that may be negative."""
    return number - (1 << 64) if number >> 63 else number


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    """A number, and where what follows it begins."""
    value = 0
    for count, byte in enumerate(message[position : position + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + count + 1
    raise BadMessage("a number has no end")
