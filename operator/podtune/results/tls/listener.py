"""Listens with TLS.

asyncio's own servers tell of a connection only when TLS is agreed on. Until then nobody would count it, and as many
handshakes as come at once would be made in one go. So connections are accepted here, and counted.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl

import structlog
from aiohttp import web

from podtune.results.connections import Connections, read_address
from podtune.results.loop_rate_limiter import LoopRateLimiter

log = structlog.get_logger(__name__)

_BACKLOG = 128
_HANDSHAKES_AT_A_TIME = 4
"""Handshakes begun without letting anything else in between: each is about a millisecond's work."""
_FAREWELL_SECONDS = 3.0
"""How long a client may take to agree to the end of its connection."""
_PAUSE_SECONDS = 1.0
"""Until connections are accepted again when there are no file descriptors left for them."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class TlsListener:
    """Accepts connections on all interfaces, and agrees on TLS."""

    def __init__(self, connections: Connections, server: web.Server, port: int, tls: ssl.SSLContext) -> None:
        """Begins to listen.

        Raises:
            OSError: The port is taken.
        """
        self._connections = connections
        self._server = server
        self._tls = tls
        self._limiter = LoopRateLimiter(_HANDSHAKES_AT_A_TIME)
        has_both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if has_both else socket.AF_INET
        self._socket = socket.create_server(("", port), family=family, backlog=_BACKLOG, dualstack_ipv6=has_both)
        self._socket.setblocking(False)
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._socket.getsockname()[1])

    async def close(self) -> None:
        """Accepts no more; connections on which TLS is agreed stay open."""
        tasks = [self._accepting, *self._handshakes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._socket.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, peer = await loop.sock_accept(self._socket)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    log.warning("connections are not accepted for a second", message=str(error))
                    await asyncio.sleep(_PAUSE_SECONDS)
                continue  # else the client has gone away meanwhile
            address = read_address(peer)
            if not self._connections.admit(address):
                connection.close()
                continue
            handshake = loop.create_task(self._agree(connection, address))
            self._handshakes.add(handshake)
            handshake.add_done_callback(self._handshakes.discard)

    async def _agree(self, connection: socket.socket, address: str) -> None:
        """Agrees on TLS, and hands a connection to the server; what a client gets wrong is its own matter."""
        guarded = self._connections.guard(self._server())
        try:
            await self._limiter.wait(address)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: guarded,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=self._connections.header_seconds,
                ssl_shutdown_timeout=_FAREWELL_SECONDS,
            )
        except OSError as error:  # as ssl.SSLError is
            log.debug("no agreement on TLS", client=address, message=str(error))
        finally:
            if not guarded.is_made:
                connection.close()
                self._connections.leave(address)
