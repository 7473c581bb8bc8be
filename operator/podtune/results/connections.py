"""Limits what clients may do: how many connections an address may have, and how slowly requests may arrive.

Anybody who can reach the port may open connections. A client that sends nothing, or its headers byte by byte, would
hold a file descriptor and memory indefinitely; aiohttp itself ends only idle connections.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from typing import Protocol, cast

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

HEADER_SECONDS = 10.0
"""From a connection's begin, or the first byte of its next request, until the headers have to be there."""
IDLE_SECONDS = 75.0
"""Until a connection without a request is closed; agents that find theirs closed open another."""
MAX_OF_ONE_ADDRESS = 1000
"""Connections of one address: the pods of a node may share one, and an agent has up to three."""


class Connections:
    """Guards the connections of one server."""

    def __init__(self, header_seconds: float = HEADER_SECONDS, most_of_one: int = MAX_OF_ONE_ADDRESS) -> None:
        """Makes a guard.

        Args:
            header_seconds: How long a request's headers may take.
            most_of_one: How many connections an address may have; our own pod's may have any number.
        """
        self._header_seconds = header_seconds
        self._most_of_one = most_of_one
        self._of_address: Counter[str] = Counter()
        self._guarded: dict[object, _Guarded] = {}

    @property
    def middleware(self) -> Middleware:
        """The part of the application by which the guard learns that a request's headers have come."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = self._guarded.get(request.protocol)
            if connection is None:
                return await _answer(request, handler)
            connection.begins()
            try:
                return await _answer(request, handler)
            finally:
                connection.ends()

        return guard

    async def listen(self, server: web.Server, port: int) -> asyncio.Server:
        """Listens on all interfaces.

        Raises:
            OSError: The port is taken.
        """
        return await asyncio.get_running_loop().create_server(lambda: _Guarded(self, server()), port=port, backlog=128)

    def guard(self, inner: _Inner) -> _Guarded:
        """Makes the guard of a connection that is counted in already."""
        return _Guarded(self, inner, is_counted=True)

    def add(self, connection: _Guarded) -> None:
        """Has the requests on a connection known as its own."""
        self._guarded[connection.inner] = connection

    def remove(self, connection: _Guarded) -> None:
        """The opposite of `add`."""
        del self._guarded[connection.inner]

    def admit(self, address: str) -> bool:
        """Counts a connection in, unless its address has as many as it may have."""
        if self._of_address[address] >= self._most_of_one and not _is_own(address):
            return False
        self._of_address[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Counts a connection out."""
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]

    @property
    def header_seconds(self) -> float:
        """How long a request's headers may take."""
        return self._header_seconds


class _Inner(Protocol):
    """What is guarded: aiohttp's own protocol."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, exc: BaseException | None) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool | None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class _Guarded(asyncio.Protocol):
    """One connection: passes everything on, and looks at the clock.

    Attributes:
        inner: aiohttp's own protocol.
        is_made: Whether the connection has begun, and has been or will be counted out at its end.
    """

    def __init__(self, connections: Connections, inner: _Inner, *, is_counted: bool = False) -> None:
        self.inner = inner
        self.is_made = False
        self._connections = connections
        self._is_counted = is_counted
        self._address = ""
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_working = False

    def begins(self) -> None:
        """The headers of a request have come, and it is worked on."""
        self._is_working = True
        self._disarm()

    def ends(self) -> None:
        """It is answered."""
        self._is_working = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)  # as uvloop's is, too, which does not inherit from it
        self._address = read_address(stream.get_extra_info("peername"))
        if not self._is_counted and not self._connections.admit(self._address):
            stream.abort()
            return
        self.is_made = True
        self._transport = stream
        self._connections.add(self)
        self._arm()
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        if not self._is_working and self._deadline is None:
            self._arm()
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received() if self._transport is not None else None

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return
        self._disarm()
        self._transport = None
        self._connections.remove(self)
        self._connections.leave(self._address)
        self.inner.connection_lost(exc)

    def _arm(self) -> None:
        assert self._transport is not None  # it is open
        self._deadline = asyncio.get_running_loop().call_later(self._connections.header_seconds, self._transport.abort)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What a handler answers; of a refusal that it raises, no more than the answer.

    aiohttp keeps its last answer until a connection's next request. An exception would keep its traceback, and so all
    frames and the request, in a cycle: ten kilobytes that outlive the connection, for long if the collector has set
    them aside meanwhile (`app/garbage.py`).
    """
    try:
        return await handler(request)
    except web.HTTPException as refusal:
        return web.Response(
            status=refusal.status, reason=refusal.reason, body=refusal.body, headers=refusal.headers.copy()
        )


def read_address(peer: tuple[str, int] | None) -> str:
    """A client's address; one of IPv4 that came over a socket of IPv6 as what it is."""
    return str(peer[0]).removeprefix("::ffff:") if peer else ""


def _is_own(address: str) -> bool:
    """Whether a client is in our own pod."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
