"""The wire format of protocol buffers, as far as event files and traces need it; our images have no library for it.

After https://protobuf.dev/programming-guides/encoding/. Fields that hold their default are left out, as in proto3.
"""

from __future__ import annotations

import struct

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def encode_int(field: int, value: int) -> bytes:
    """A field of type int32, int64 or bool, or of an enumeration."""
    return encode_varint(field << 3 | _VARINT) + encode_varint(value) if value else b""


def encode_double(field: int, value: float) -> bytes:
    """A field of type double."""
    return encode_varint(field << 3 | _FIXED64) + struct.pack("<d", value) if value else b""


def encode_given_double(field: int, value: float) -> bytes:
    """A field of type double that is in a oneof: it is written even where it is 0."""
    return encode_varint(field << 3 | _FIXED64) + struct.pack("<d", value)


def encode_given_float(field: int, value: float) -> bytes:
    """A field of type float that is in a oneof; what is too large for one is infinite."""
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return encode_varint(field << 3 | _FIXED32) + packed


def encode_given_int(field: int, value: int) -> bytes:
    """A field as of `encode_int` that is in a oneof."""
    return encode_varint(field << 3 | _VARINT) + encode_varint(value)


def encode_fixed64(field: int, value: int) -> bytes:
    """A field of type fixed64."""
    return encode_varint(field << 3 | _FIXED64) + struct.pack("<Q", value) if value else b""


def encode_text(field: int, value: str) -> bytes:
    """A field of type string."""
    return encode_message(field, value.encode("utf-8", "replace")) if value else b""


def encode_message(field: int, content: bytes) -> bytes:
    """A field of type bytes, or that is a message of its own, as it was encoded; written even where it is empty."""
    return encode_varint(field << 3 | _BYTES) + encode_varint(len(content)) + content


def encode_varint(value: int) -> bytes:
    """A whole number, seven bits a byte; negative ones as those of 64 bits without a sign."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
