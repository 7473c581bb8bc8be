"""What is held for a receiver, small enough for its ConfigMap, so that the next operator takes it up.

Of too much, the oldest results are left out first, then the oldest of the rest; how many is told along. Whatever an
object still tells of itself is not among it, so that most of the time it is nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from podtune.webhooks.events import Position
from podtune.webhooks.held_events import HeldEvent
from podtune.webhooks.positions import decode_position, encode_position

MAX_KEPT_BYTES = 384 << 10
"""Of the 1 MiB that a ConfigMap may have, compressed: positions have the rest."""
MAX_KEPT_CONTENT = 4 << 20
"""Bytes of events before they are compressed: some 4,000, which takes a tenth of a second."""
_MAX_UNPACKED = 4 * MAX_KEPT_CONTENT
_GZIP = 31
_HEADER = 128
"""Bytes of what is kept of no event at all, about."""


@dataclass(frozen=True, slots=True)
class HeldObject:
    """What is held of one object.

    Attributes:
        events: The events, in order.
        end: Where the receiver is when it has heard them; None where the object told of nothing else.
    """

    uid: str
    events: tuple[HeldEvent, ...]
    end: Position | None


@dataclass(frozen=True, slots=True)
class KeptEvents:
    """What an operator leaves to the next one.

    Attributes:
        objects: What it held, by object.
        left_out: How many events were too many to be kept, at least.
    """

    objects: tuple[HeldObject, ...] = ()
    left_out: int = 0


def encode_kept_events(kept: KeptEvents, room: int = MAX_KEPT_BYTES) -> bytes:
    """Packs what is to be kept into so many bytes at most; none where nothing is.

    Args:
        kept: What is held, of the object that has waited for longest first.
        room: How many bytes there are for it.
    """
    if not kept.objects and not kept.left_out:
        return b""
    limit, room = MAX_KEPT_CONTENT, min(room, MAX_KEPT_BYTES)
    while True:
        chosen = _choose(kept, limit)
        packed = _pack(chosen)
        if len(packed) <= max(room, _HEADER) or not chosen.objects:
            return packed
        limit = limit * max(room, 0) // len(packed) * 9 // 10


def decode_kept_events(packed: bytes) -> KeptEvents:
    """Reads what was kept. What somebody has damaged counts as one event that was left out: it is missed."""
    if not packed:
        return KeptEvents()
    try:
        header, *lines = zlib.decompressobj(_GZIP).decompress(packed, _MAX_UNPACKED).splitlines()
        return KeptEvents(tuple(map(_decode_object, lines)), int(orjson.loads(header)["leftOut"]))
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError):
        return KeptEvents(left_out=1)


def _choose(kept: KeptEvents, limit: int) -> KeptEvents:
    """The newest events with so many bytes in all; results only where there is room beside all the others."""
    newest_first = [event for held in reversed(kept.objects) for event in reversed(held.events)]
    ranked = sorted(newest_first, key=lambda event: event.is_result)
    size, chosen = 0, set[str]()
    for event in ranked:
        size += event.size
        if size > limit:
            break
        chosen.add(event.id)
    objects = tuple(
        HeldObject(held.uid, tuple(event for event in held.events if event.id in chosen), held.end)
        for held in kept.objects
        if not chosen.isdisjoint(event.id for event in held.events)
    )
    return KeptEvents(objects, kept.left_out + len(ranked) - sum(len(held.events) for held in objects))


def _pack(kept: KeptEvents) -> bytes:
    lines = [orjson.dumps({"leftOut": kept.left_out}), *map(_encode_object, kept.objects)]
    packer = zlib.compressobj(wbits=_GZIP)
    return packer.compress(b"\n".join(lines)) + packer.flush()


def _encode_object(held: HeldObject) -> bytes:
    events = [
        [encode_position(event.position), event.missed, event.is_result, orjson.Fragment(event.content)]
        for event in held.events
    ]
    return orjson.dumps([held.uid, encode_position(held.end) if held.end is not None else None, events])


def _decode_object(line: bytes) -> HeldObject:
    uid, end, events = orjson.loads(line)
    return HeldObject(str(uid), tuple(_decode_events(events)), decode_position(end) if end is not None else None)


def _decode_events(events: Sequence[Any]) -> Iterable[HeldEvent]:
    for position, missed, is_result, event in events:
        yield HeldEvent(str(event["id"]), orjson.dumps(event), decode_position(position), int(missed), bool(is_result))
