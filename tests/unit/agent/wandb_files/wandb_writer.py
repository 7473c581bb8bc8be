"""Writes `.wandb` files as the client of W&B does: messages of protobuf in the framing of LevelDB's logs."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

HEADER = b":W&B\xe1\xbe\x00"
BLOCK = 32768


def encode_varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def encode_number(field: int, number: int) -> bytes:
    return encode_varint(field << 3) + encode_varint(number)


def encode_bytes(field: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return encode_varint(field << 3 | 2) + encode_varint(len(content)) + content


def make_item(*path: str, value: str, is_nested: bool = True) -> bytes:
    """A value, by its path, or by its key alone as clients of old wrote it."""
    names = b"".join(encode_bytes(2 if is_nested else 1, name) for name in path)
    return encode_bytes(1, names + encode_bytes(16, value))


def make_history(*items: bytes, step: int | None = None) -> bytes:
    """A record with a row of the history, between what readers don't have to know."""
    row = b"".join(items)
    if step is not None:
        row += encode_bytes(2, encode_number(1, step) if step else b"")
    row += encode_bytes(200, b"")
    return encode_number(1, 7) + encode_bytes(2, row) + encode_bytes(16, encode_number(7, 1)) + encode_bytes(19, "u")


def make_row(values: Mapping[str, Any], step: int | None = None, *, is_nested: bool = True) -> bytes:
    items = (make_item(name, value=json.dumps(value), is_nested=is_nested) for name, value in values.items())
    return make_history(*items, step=step)


def make_run(starting_step: int = 0) -> bytes:
    """A record that begins a run."""
    run = encode_bytes(1, "abc") + (encode_number(14, starting_step) if starting_step else b"")
    return encode_number(1, 1) + encode_bytes(17, run)


def frame(*records: bytes, begin: bytes = HEADER) -> bytes:
    """The records behind what is there already."""
    written = bytearray(begin)
    for record in records:
        rest, is_first = record, True
        while True:
            room = BLOCK - len(written) % BLOCK
            if room < 7:
                written += bytes(room)
                continue
            chunk, rest = rest[: room - 7], rest[room - 7 :]
            kind = (1 if is_first else 4) if not rest else (2 if is_first else 3)
            written += struct.pack("<IHB", zlib.crc32(bytes([kind]) + chunk), len(chunk), kind) + chunk
            is_first = False
            if not rest:
                break
    return bytes(written)
