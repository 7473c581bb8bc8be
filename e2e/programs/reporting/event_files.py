"""Logs to TensorBoard as Keras and PyTorch do, with the standard library alone; it knows nothing of Podtune.

It takes the directory as its argument, and its values from BASE. Tests of the agent's reader write their files with it.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from pathlib import Path


def compute_crc32c(data: bytes) -> int:
    """The checksum, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def frame(data: bytes) -> bytes:
    """A record of a file: its length and itself, each with a checksum."""

    def check(part: bytes) -> bytes:
        crc = compute_crc32c(part)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + check(length) + data + check(data)


def encode_number(value: int) -> bytes:
    """A number as protobuf has it: seven bits a byte."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def encode_bytes(number: int, content: bytes) -> bytes:
    """A field that holds bytes."""
    return encode_number(number << 3 | 2) + encode_number(len(content)) + content


def encode_event(time: float, step: int, *values: bytes) -> bytes:
    """An event with values of tags."""
    summary = b"".join(encode_bytes(1, value) for value in values)
    return struct.pack("<Bd", 1 << 3 | 1, time) + encode_number(2 << 3) + encode_number(step) + encode_bytes(5, summary)


def encode_simple(tag: str, value: float) -> bytes:
    """A value in the older form, as PyTorch writes it."""
    return encode_bytes(1, tag.encode()) + struct.pack("<Bf", 2 << 3 | 5, value)


def encode_tensor(tag: str, value: float, plugin: str = "scalars") -> bytes:
    """A value in the newer form, as TensorFlow 2 and Keras write it."""
    tensor = encode_number(1 << 3) + encode_number(1) + encode_bytes(2, b"") + encode_bytes(4, struct.pack("<f", value))
    metadata = encode_bytes(1, encode_bytes(1, plugin.encode())) + encode_number(4 << 3) + encode_number(1)
    return encode_bytes(1, tag.encode()) + encode_bytes(8, tensor) + (encode_bytes(9, metadata) if plugin else b"")


VERSION = frame(struct.pack("<Bd", 1 << 3 | 1, 1.7e9) + encode_bytes(3, b"brain.Event:2"))
"""The record that each file begins with."""


def main() -> None:
    """Trains three epochs, and validates after each."""
    base = float(os.environ["BASE"])
    files = {}
    for run in ("train", "validation"):
        directory = Path(sys.argv[1], run)
        directory.mkdir(parents=True)
        files[run] = (directory / f"events.out.tfevents.{int(time.time())}.host.{os.getpid()}.0.v2").open("wb")
        files[run].write(VERSION)
    for epoch in range(3):
        files["train"].write(frame(encode_event(time.time(), epoch, encode_tensor("epoch_value", base))))
        value = encode_tensor("epoch_value", base - 1 / (epoch + 2))
        files["validation"].write(frame(encode_event(time.time(), epoch, value)))
        for file in files.values():
            file.flush()


if __name__ == "__main__":
    main()
