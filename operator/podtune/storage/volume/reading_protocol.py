"""What a person's command line and the pod that mounts a volume say to each other, through standard input and output.

A request is one line of JSON. Its answer is a sequence of frames, each a line of JSON that may announce bytes: pieces
of the answer with their SHA-256, and at the end that all is said, or what went wrong. A connection that breaks is never
taken for an end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeGuard

from podtune.storage import errors

GREETING = b'{"podtune-volume": 1}\n'
"""The first line that the pod says: what says something else is another program."""
MAX_HEADER = 64 << 10
MAX_PIECE = 4 << 20
KEYS_OF_A_PIECE = 1000
GET, LIST, EXISTS = "get", "list", "exists"
_KINDS: dict[str, type[errors.StoreError]] = {
    kind.__name__: kind
    for kind in (
        errors.StoreSettingsError,
        errors.NotFound,
        errors.AccessDenied,
        errors.RequestRejected,
        errors.Unreachable,
        errors.OutOfSpace,
        errors.TimedOut,
    )
}


class Garbled(Exception):
    """What came is not what the other side can have said: it was cut off, or changed on its way."""


class LineSource(Protocol):
    """Where bytes come from."""

    def readline(self, size: int, /) -> bytes:
        """The next bytes up to a line break, at most so many; none at the end."""

    def read(self, size: int, /) -> bytes:
        """The next bytes: so many, unless the end comes first."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What is asked for.

    Attributes:
        operation: GET, LIST or EXISTS.
        key: The object's key; with LIST, a prefix.
        start: With GET, the first byte that is wanted.
        size: With GET, how many bytes are wanted; all that follow when None.
    """

    operation: str
    key: str
    start: int = 0
    size: int | None = None

    def encode(self) -> bytes:
        """As a line."""
        return f"{json.dumps(asdict(self))}\n".encode()


def parse_request(line: bytes) -> ReadRequest:
    """Reads a line.

    Raises:
        Garbled: It is no request.
    """
    body = _parse_line(line)
    operation, key, start, size = (body.get(name) for name in ("operation", "key", "start", "size"))
    if operation not in (GET, LIST, EXISTS) or not isinstance(key, str) or not _is_count(start or 0):
        raise Garbled(f"{line!r:.100} is no request")
    if size is not None and not _is_count(size):
        raise Garbled(f"{line!r:.100} is no request")
    return ReadRequest(operation, key, start or 0, size)


def encode_piece(piece: bytes) -> bytes:
    """A frame with a piece of the answer."""
    header = {"bytes": len(piece), "sha256": hashlib.sha256(piece).hexdigest()}
    return json.dumps(header).encode() + b"\n" + piece


def encode_end() -> bytes:
    """The frame after the last piece."""
    return b'{"end": true}\n'


def encode_error(error: errors.StoreError) -> bytes:
    """The frame that says why there is no answer, or no more of it."""
    return json.dumps({"error": error.reason, "message": str(error)}).encode() + b"\n"


def read_pieces(source: LineSource) -> Iterator[bytes]:
    """Reads an answer, piece by piece, each with the right hash.

    Raises:
        Garbled: It was cut off, or changed on its way.
        StoreError: The pod says so.
    """
    while True:
        body = _parse_line(source.readline(MAX_HEADER))
        if body.get("end") is True:
            return
        if "error" in body:
            raise _KINDS.get(str(body["error"]), errors.RequestRejected)(str(body.get("message", "")))
        size = body.get("bytes")
        if not _is_count(size) or size > MAX_PIECE:
            raise Garbled(f"an answer begins with {body!r:.100}")
        piece = source.read(size)
        if hashlib.sha256(piece).hexdigest() != body.get("sha256"):
            raise Garbled("an answer was cut off" if len(piece) < size else "an answer was changed on its way")
        yield piece


def _parse_line(line: bytes) -> dict[str, Any]:
    if not line.endswith(b"\n"):
        raise Garbled("an answer was cut off" if not line else f"{line!r:.100} is cut off")
    try:
        body = json.loads(line)
    except ValueError as error:
        raise Garbled(f"{line!r:.100} is not JSON") from error
    if not isinstance(body, dict):
        raise Garbled(f"{line!r:.100} is no object of JSON")
    return body


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
