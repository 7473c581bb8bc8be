"""A volume that is mounted elsewhere, read through a pod that mounts it; see `reading_protocol`."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from podtune.storage.address import VolumeAddress
from podtune.storage.errors import StoreError, Unreachable
from podtune.storage.volume import reading_protocol as protocol
from podtune.storage.volume.reading_protocol import Garbled, ReadRequest


class ConnectionLost(Exception):
    """A connection to the pod has broken, or could not be made; the text says why."""


class ReaderConnection(Protocol):
    """Standard input and output of a process in the pod that answers. All methods may raise `ConnectionLost`."""

    def write(self, data: bytes) -> None:
        """Sends something."""

    def readline(self, size: int, /) -> bytes:
        """See `LineSource.readline`."""

    def read(self, size: int, /) -> bytes:
        """See `LineSource.read`."""

    def close(self) -> None:
        """Ends the process, if it is still there; raises nothing."""


class RemoteVolumeStore:
    """The objects on a volume, to be read.

    Each answer comes by a connection of its own, so that an object is read whole even if it is replaced meanwhile; a
    connection that is free again serves the next request.
    """

    def __init__(self, address: VolumeAddress, connect: Callable[[], ReaderConnection]) -> None:
        """Connects to nothing yet.

        Args:
            address: The volume.
            connect: Starts a process that answers, or raises `ConnectionLost`.
        """
        self._address = address
        self._connect = connect
        self._free: list[ReaderConnection] = []
        self._lock = threading.Lock()

    def check(self) -> None:
        """See `ReadableStore.check`."""
        self.exists("podtune")

    def get(self, key: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
        """See `ReadableStore.get`."""
        return self._ask(ReadRequest(protocol.GET, key, start, size), f"reading {key}")

    def get_bytes(self, key: str, limit: int) -> bytes:
        """See `ReadableStore.get_bytes`."""
        return b"".join(self.get(key, size=limit + 1))

    def exists(self, key: str) -> bool:
        """See `ReadableStore.exists`."""
        return json.loads(b"".join(self._ask(ReadRequest(protocol.EXISTS, key), f"looking for {key}"))) is True

    def list(self, prefix: str) -> Iterator[str]:
        """See `ReadableStore.list`; all keys are fetched before the first is given."""
        for piece in tuple(self._ask(ReadRequest(protocol.LIST, prefix), f"listing {prefix}")):
            yield from json.loads(piece)

    def connect(self) -> None:
        """Makes sure that there is a connection.

        Raises:
            ConnectionLost: None can be made.
        """
        self._give_back(self._take_free() or self._connect_anew())

    def close(self) -> None:
        """Ends the connections that are free."""
        while (connection := self._take_free()) is not None:
            connection.close()

    def _ask(self, request: ReadRequest, doing: str) -> Iterator[bytes]:
        try:
            connection, first, others = self._begin(request)
        except (ConnectionLost, Garbled) as error:
            raise self._build_unreachable(doing, error) from error
        is_free = False
        try:
            yield from first
            yield from others
            is_free = True
        except StoreError:
            is_free = True  # that was all of the answer
            raise
        except (ConnectionLost, Garbled) as error:
            raise self._build_unreachable(doing, error) from error
        finally:
            if is_free:
                self._give_back(connection)
            else:
                connection.close()

    def _begin(self, request: ReadRequest) -> tuple[ReaderConnection, Sequence[bytes], Iterator[bytes]]:
        """Has a request answered; returns the connection, the first piece, where there is one, and those that follow.

        A connection may have broken while nobody used it, and then the next one is tried.
        """
        while (free := self._take_free()) is not None:
            try:
                return self._send(free, request)
            except (ConnectionLost, Garbled):
                free.close()
        new = self._connect_anew()
        try:
            return self._send(new, request)
        except (ConnectionLost, Garbled):
            new.close()
            raise

    def _send(
        self, connection: ReaderConnection, request: ReadRequest
    ) -> tuple[ReaderConnection, Sequence[bytes], Iterator[bytes]]:
        pieces = protocol.read_pieces(connection)
        try:
            connection.write(request.encode())
            return connection, tuple(itertools.islice(pieces, 1)), pieces
        except StoreError:
            self._give_back(connection)
            raise

    def _connect_anew(self) -> ReaderConnection:
        connection = self._connect()
        try:
            greeting = connection.readline(protocol.MAX_HEADER)
            if greeting != protocol.GREETING:
                raise ConnectionLost(f"the pod says {greeting!r:.200}")
        except ConnectionLost:
            connection.close()
            raise
        return connection

    def _take_free(self) -> ReaderConnection | None:
        with self._lock:
            return self._free.pop() if self._free else None

    def _give_back(self, connection: ReaderConnection) -> None:
        with self._lock:
            self._free.append(connection)

    def _build_unreachable(self, doing: str, error: Exception) -> Unreachable:
        return Unreachable(f"{self._address.where} is not reached while {doing}: {error}; try again")
