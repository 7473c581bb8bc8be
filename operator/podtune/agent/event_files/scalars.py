"""The scalars in a record of an event file, which is a message `Event` of TensorBoard, in the encoding of protobuf.

A scalar comes in one of two forms. In the older one, `simple_value` has it. In the newer one it is a tensor of one
number, whose tag was said to be one of scalars where it came first; other plugins have tensors of their own.
Field numbers: https://github.com/tensorflow/tensorboard/tree/master/tensorboard/compat/proto
"""

from __future__ import annotations

import struct

from podtune.agent.metric_files.logged_scalars import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    LoggedScalar,
    ScalarEvent,
    read_fields,
    read_signed,
)

_EVENT_TIME, _EVENT_STEP, _EVENT_SUMMARY = (1, FIXED64), (2, VARINT), (5, BYTES)
_SUMMARY_VALUE = (1, BYTES)
_VALUE_TAG, _VALUE_SIMPLE, _VALUE_TENSOR, _VALUE_METADATA = (1, BYTES), (2, FIXED32), (8, BYTES), (9, BYTES)
_METADATA_PLUGIN, _PLUGIN_NAME = (1, BYTES), (1, BYTES)
_TENSOR_CONTENT = (4, BYTES)
_FLOATS, _ONE_FLOAT = (5, BYTES), (5, FIXED32)
_DOUBLES, _ONE_DOUBLE = (6, BYTES), (6, FIXED64)
_TENSOR_TYPE = (1, VARINT)
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_FORMATS = {1: _FLOAT, 2: _DOUBLE}
"""By the number of the tensor's type."""
_SCALARS = b"scalars"
"""Name of the plugin that shows them."""
_MAX_TAGS = 10_000
"""Tags that are known to be of scalars at most."""
_SHORTEST_DIGITS, _MOST_DIGITS = 6, 9
"""A number of 32 bits is told by that many digits."""


class ScalarParser:
    """Reads the records of one file in their order."""

    def __init__(self) -> None:
        self._scalar_tags: set[bytes] = set()

    def parse(self, record: bytes) -> ScalarEvent | None:
        """The scalars of a record; None where it has none.

        Raises:
            BadMessage: It is no event.
        """
        time, step = 0.0, 0
        scalars: list[LoggedScalar] = []
        for key, number, content in read_fields(record):
            if key == _EVENT_TIME:
                time = _DOUBLE.unpack(content)[0]
            elif key == _EVENT_STEP:
                step = read_signed(number)
            elif key == _EVENT_SUMMARY:
                values = (body for field, _, body in read_fields(content) if field == _SUMMARY_VALUE)
                scalars += filter(None, map(self._parse_value, values))
        return ScalarEvent(time, step, tuple(scalars)) if scalars else None

    def _parse_value(self, body: bytes) -> LoggedScalar | None:
        tag, simple, tensor, metadata = b"", b"", b"", b""
        for key, _, content in read_fields(body):
            if key == _VALUE_TAG:
                tag = content
            elif key == _VALUE_SIMPLE:
                simple = content
            elif key == _VALUE_TENSOR:
                tensor = content
            elif key == _VALUE_METADATA:
                metadata = content
        if metadata and _read_plugin(metadata) == _SCALARS and len(self._scalar_tags) < _MAX_TAGS:
            self._scalar_tags.add(tag)
        value = None
        if simple:
            value = _shorten(simple)
        elif tensor and tag in self._scalar_tags:
            value = _read_number(tensor)
        return None if value is None else LoggedScalar(tag.decode("utf-8", "replace"), value)


def _read_plugin(metadata: bytes) -> bytes:
    name = b""
    for key, _, content in read_fields(metadata):
        if key == _METADATA_PLUGIN:
            name = next((body for field, _, body in read_fields(content) if field == _PLUGIN_NAME), b"")
    return name


def _read_number(tensor: bytes) -> float | None:
    """The one number of a tensor; None where it has more or less, or others than floating-point numbers."""
    number_type, content = 0, b""
    for key, number, body in read_fields(tensor):
        if key == _TENSOR_TYPE:
            number_type = number
        elif key in (_TENSOR_CONTENT, _FLOATS, _ONE_FLOAT, _DOUBLES, _ONE_DOUBLE):
            content += body
    form = _FORMATS.get(number_type)
    if form is None or len(content) != form.size:
        return None
    return _shorten(content) if form is _FLOAT else float(form.unpack(content)[0])


def _shorten(content: bytes) -> float:
    """A number of 32 bits with as few digits as tell it from others: 0.1, and not 0.10000000149."""
    value: float = _FLOAT.unpack(content)[0]
    for digits in range(_SHORTEST_DIGITS, _MOST_DIGITS + 1):
        short = float(f"{value:.{digits}g}")
        if abs(short) <= _LARGEST_FLOAT and _FLOAT.pack(short) == content:
            return short
    return value


_LARGEST_FLOAT: float = _FLOAT.unpack(b"\xff\xff\x7f\x7f")[0]
