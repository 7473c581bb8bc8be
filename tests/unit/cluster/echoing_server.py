"""A server that refuses requests in many ways, each of which repeats the headers that it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

_Answer = Callable[[bytes], bytes]


def _refuse(status: str) -> _Answer:
    """In the reason, in headers that clients read, and in the body."""

    def answer(head: bytes) -> bytes:
        told = b" ".join(head.replace(b";", b"").replace(b"=", b"").split())  # as the name of a cookie
        body = b"you sent " + told
        names = (b"Retry-After", b"Location", b"WWW-Authenticate", b"Set-Cookie", b"Content-Encoding")
        fields = b"".join(b"%b: %b=1\r\n" % (name, told) for name in names)
        return b"HTTP/1.1 %b %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status.encode(), told, fields, len(body), body)

    return answer


def _reject_spans(head: bytes) -> bytes:
    """As a collector that has taken a request and tells why it has not taken all of its spans."""
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 1
    answer.partial_success.error_message = head.decode()
    body = answer.SerializeToString()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


ECHOES: Mapping[str, _Answer] = {
    "unauthorized": _refuse("401"),
    "failure": _refuse("500"),
    "unavailable": _refuse("503"),
    "bad-request": _refuse("400"),
    "redirect": _refuse("307"),
    "gone": _refuse("410"),
    "no-http": lambda head: head,
    "bad-status": lambda head: b"HTTP/1.1 x " + b" ".join(head.split()) + b"\r\n\r\n",
    "bad-header": lambda head: b"HTTP/1.1 500 Failed\r\n" + b" ".join(head.split()) + b"\r\n\r\n",
    "bad-length": lambda head: b"HTTP/1.1 500 Failed\r\nContent-Length: " + b" ".join(head.split()) + b"\r\n\r\n",
    "bad-chunk": lambda head: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + head,
    "cut-head": lambda head: b"HTTP/1.1 500 " + b" ".join(head.split()),
    "cut-header": lambda head: b"HTTP/1.1 500 Failed\r\nX-Told: " + b" ".join(head.split()) + b"\r\n",
    "cut-body": lambda head: b"HTTP/1.1 500 Failed\r\nContent-Length: 100000\r\n\r\n" + head,
    "rejection": _reject_spans,
}
"""The ways by name; each makes an answer of the head of a request."""


@dataclass(slots=True)
class EchoingServer:
    """The server.

    Attributes:
        port: Where it listens.
        heads: The heads of all requests, by the way in which it answered.
    """

    port: int = 0
    heads: dict[str, str] = field(default_factory=dict)
    _connections: list[asyncio.Task[None]] = field(default_factory=list)

    def address(self, way: str) -> str:
        """Where it answers in a way."""
        return f"http://127.0.0.1:{self.port}/{way}"

    @asynccontextmanager
    async def up(self) -> AsyncIterator[EchoingServer]:
        """It can be reached while the context lasts."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self
            await asyncio.gather(*self._connections)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.append(asyncio.create_task(self._answer(reader, writer)))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):  # it was a connection without a request
            head = await reader.readuntil(b"\r\n\r\n")
            way = head.split(maxsplit=2)[1].decode().split("/")[1]
            self.heads[way] = self.heads.get(way, "") + head.decode()
            writer.write(ECHOES[way](head))
            await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
