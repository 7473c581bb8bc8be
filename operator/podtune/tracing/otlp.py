"""Spans as OTLP has them in protocol buffers, and what a collector answers.

After https://github.com/open-telemetry/opentelemetry-proto/tree/main/opentelemetry/proto, packages `trace.v1` and
`collector.trace.v1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from podtune.storage.event_files.protobuf import (
    encode_fixed64,
    encode_given_int,
    encode_int,
    encode_message,
    encode_text,
)
from podtune.tracing.spans import SpanAttributes, SpanEvent, TraceSpan

_INTERNAL = 1
"""`SPAN_KIND_INTERNAL`."""
_ERROR = 2
"""`STATUS_CODE_ERROR`."""
_VARINT, _LENGTH_DELIMITED = 0, 2


def encode_span(span: TraceSpan) -> bytes:
    """One span."""
    fields = [
        encode_message(1, span.trace_id),
        encode_message(2, span.span_id),
        *([encode_message(4, span.parent_id)] if span.parent_id else []),
        encode_text(5, span.name),
        encode_int(6, _INTERNAL),
        encode_fixed64(7, _to_nanoseconds(span.start)),
        encode_fixed64(8, _to_nanoseconds(span.end)),
        _encode_attributes(9, span.attributes),
        *(encode_message(11, _encode_event(event)) for event in span.events),
    ]
    if span.error is not None:
        fields.append(encode_message(15, encode_text(2, span.error) + encode_int(3, _ERROR)))
    return b"".join(fields)


def encode_request(spans: Iterable[bytes], resource: Mapping[str, str], version: str) -> bytes:
    """A request with spans that were encoded.

    Args:
        spans: The spans.
        resource: Attributes of what they are of.
        version: Of Podtune.
    """
    scope = encode_message(1, encode_text(1, "podtune") + encode_text(2, version))
    of_scope = scope + b"".join(encode_message(2, span) for span in spans)
    of_resource = encode_message(1, _encode_attributes(1, resource)) + encode_message(2, of_scope)
    return encode_message(1, of_resource)


def read_rejection(answer: bytes) -> tuple[int, str]:
    """How many spans a collector has rejected of a request that it took, and why; what is no answer rejects none."""
    try:
        partial = next((value for number, value in _read_fields(answer) if number == 1), b"")
        found = dict(_read_fields(partial)) if isinstance(partial, bytes) else {}
    except IndexError:
        return 0, ""
    count, message = found.get(1, 0), found.get(2, b"")
    words = message.decode("utf-8", "replace") if isinstance(message, bytes) else ""
    return (count if isinstance(count, int) else 0), words


def _encode_event(event: SpanEvent) -> bytes:
    return (
        encode_fixed64(1, _to_nanoseconds(event.time))
        + encode_text(2, event.name)
        + _encode_attributes(3, event.attributes)
    )


def _encode_attributes(field: int, attributes: SpanAttributes) -> bytes:
    return b"".join(
        encode_message(field, encode_text(1, name) + encode_message(2, _encode_value(value)))
        for name, value in attributes.items()
    )


def _encode_value(value: str | int) -> bytes:
    return encode_given_int(3, value) if isinstance(value, int) else encode_message(1, value.encode("utf-8", "replace"))


def _to_nanoseconds(seconds: float) -> int:
    """To the microsecond, which is what a float of seconds can tell."""
    return max(0, round(seconds * 1_000_000)) * 1000


def _read_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message by their numbers, up to one of a kind that the answers of collectors don't have.

    Raises:
        IndexError: It ends in the middle of a field.
    """
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        value, place = _read_varint(message, place)
        if key & 7 == _VARINT:
            yield key >> 3, value
        elif key & 7 == _LENGTH_DELIMITED:
            yield key >> 3, message[place : place + value]
            place += value
        else:
            return


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := message[place]) > 0x7F:
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
    return value | byte << shift, place + 1
