"""Reads event files back, by the definitions of their formats alone, and checks every checksum."""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ReadEvent:
    """An event, as far as anybody asks."""

    time: float = 0.0
    step: int = 0
    version: str = ""
    scalars: dict[str, float] = field(default_factory=dict)
    restarts: bool = False
    plugin_tags: list[str] = field(default_factory=list)
    plugin_data: list[bytes] = field(default_factory=list)


def read_events(data: bytes) -> list[ReadEvent]:
    events = []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12])[0] == mask(data[:8])
        body = data[12 : 12 + length]
        assert struct.unpack("<I", data[12 + length : 16 + length])[0] == mask(body)
        events.append(_read_event(read_fields(body)))
        data = data[16 + length :]
    return events


def _read_event(fields: dict[int, list[Any]]) -> ReadEvent:
    event = ReadEvent(*fields.get(1, [0.0]), *fields.get(2, [0]), *(text.decode() for text in fields.get(3, [b""])))
    event.restarts = 7 in fields
    for summary in fields.get(5, []):
        for value in read_fields(summary).get(1, []):
            read = read_fields(value)
            tag = read[1][0].decode()
            if 2 in read:
                event.scalars[tag] = read[2][0]
            else:
                (plugin,) = read_fields(read[9][0])[1]
                assert read_fields(plugin)[1] == [b"hparams"]
                event.plugin_tags.append(tag)
                event.plugin_data += read_fields(plugin)[2]
    return event


def read_fields(data: bytes) -> dict[int, list[Any]]:
    """The fields of a message: whole numbers, floats, and bytes of texts and messages."""
    fields: defaultdict[int, list[Any]] = defaultdict(list)
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind = key & 7
        value: Any
        if kind == 0:
            value, at = _read_varint(data, at)
        elif kind == 2:
            length, at = _read_varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            size, form = (8, "<d") if kind == 1 else (4, "<f")
            (value,), at = struct.unpack(form, data[at : at + size]), at + size
        fields[key >> 3].append(value)
    return fields


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def mask(data: bytes) -> int:
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum ^= byte
        for _ in range(8):
            checksum = checksum >> 1 ^ (0x82F63B78 if checksum & 1 else 0)
    checksum ^= 0xFFFFFFFF
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) % (1 << 32)
