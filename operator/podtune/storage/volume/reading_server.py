"""Answers what a person's command line asks of a volume; see `reading_protocol`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Protocol

from podtune.storage.errors import StoreError
from podtune.storage.object_store import ReadableStore
from podtune.storage.volume import reading_protocol as protocol
from podtune.storage.volume.reading_protocol import ReadRequest


class Sink(Protocol):
    """Where answers go."""

    def write(self, data: bytes, /) -> object:
        """Takes some bytes."""

    def flush(self) -> None:
        """Passes on what it has taken."""


def answer_requests(store: ReadableStore, source: protocol.LineSource, sink: Sink) -> None:
    """Answers requests, one after the other, until the other side has gone.

    Raises:
        Garbled: Something else than a request has come.
        OSError: The other side has gone without a word.
    """
    sink.write(protocol.GREETING)
    sink.flush()
    while line := source.readline(protocol.MAX_HEADER):
        request = protocol.parse_request(line)
        try:
            for piece in _answer(store, request):
                sink.write(protocol.encode_piece(piece))
            sink.write(protocol.encode_end())
        except StoreError as error:
            sink.write(protocol.encode_error(error))
        sink.flush()


def _answer(store: ReadableStore, request: ReadRequest) -> Iterator[bytes]:
    match request.operation:
        case protocol.GET:
            yield from store.get(request.key, request.start, request.size)
        case protocol.LIST:
            keys = store.list(request.key)
            while some := list(itertools.islice(keys, protocol.KEYS_OF_A_PIECE)):
                yield json.dumps(some).encode()
        case _:
            yield json.dumps(store.exists(request.key)).encode()
