"""Event files of TensorBoard: a result is an event, each of its numbers a scalar.

A file is a series of records, each with its length and checksums (CRC32C, masked), after
https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details. A record is an `Event` of
https://github.com/tensorflow/tensorboard/blob/master/tensorboard/compat/proto/event.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from podtune.protocol.messages import MetricValue
from podtune.storage.event_files.checksums import compute_crc32c, mask_checksum
from podtune.storage.event_files.protobuf import (
    encode_double,
    encode_given_float,
    encode_int,
    encode_message,
    encode_text,
)

_VERSION = "brain.Event:2"
_SESSION_START = 1
"""`SessionLog.START`."""


def encode_version(time: float) -> bytes:
    """The record that begins each file."""
    return _frame(encode_double(1, time) + encode_text(3, _VERSION))


def encode_scalars(time: float, step: int, metrics: Mapping[str, MetricValue]) -> bytes:
    """The record of a result: what is no number is left out; empty where nothing is left."""
    values = [
        encode_message(1, encode_text(1, name) + encode_given_float(2, _read(value)))
        for name, value in metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return encode_summary(time, step, b"".join(values)) if values else b""


def encode_restart(time: float, step: int) -> bytes:
    """The record that has readers drop what they have read from a step on: training goes on from before it."""
    return _frame(encode_double(1, time) + encode_int(2, step) + encode_message(7, encode_int(1, _SESSION_START)))


def encode_summary(time: float, step: int, summary: bytes) -> bytes:
    """The record of a summary that was encoded."""
    return _frame(encode_double(1, time) + encode_int(2, step) + encode_message(5, summary))


def format_file_name(time: float) -> str:
    """The name of a file: TensorBoard knows them by its begin, and reads those of a folder in the order of names."""
    return f"events.out.tfevents.{max(0, int(time)):010d}.podtune"


def _read(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _frame(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return b"".join((length, _encode_checksum(length), data, _encode_checksum(data)))


def _encode_checksum(data: bytes) -> bytes:
    return struct.pack("<I", mask_checksum(compute_crc32c(data)))
