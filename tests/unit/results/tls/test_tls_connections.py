"""The results server's connections with TLS, on the loopback interface, by both kinds of event loop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import uvloop
from aiohttp import web

from podtune.results import connections as connections_module
from podtune.results.connections import Connections
from podtune.results.tls.authorities import Authority, issue_leaf, make_authority
from podtune.results.tls.chain import load_chain, make_server_context
from podtune.results.tls.listener import TlsListener

WAIT = 30
"""Seconds for what comes in moments: a busy machine is no fault."""
LONG = 600.0
"""Seconds for a handshake that nothing but a test waits for."""
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
LARGE = b"x" * 500_000


class Site:
    """A server with TLS, and what its clients trust."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.context = make_server_context()
        self.port = 0
        self.show_new_certificate()

    def show_new_certificate(self) -> None:
        leaf = issue_leaf(self.authority, "127.0.0.1", datetime.now(UTC))
        load_chain(self.context, leaf.certificate, leaf.key)

    async def connect(self, trusted: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=trusted or self.authority.certificate)
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context)


@asynccontextmanager
async def serving(header_seconds: float = WAIT, most_of_one: int = 100) -> AsyncIterator[Site]:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=await request.read() or b"ok")

    site = Site(make_authority(datetime.now(UTC)))
    guard = Connections(header_seconds, most_of_one)
    application = web.Application(middlewares=[guard.middleware], client_max_size=1 << 20)
    application.router.add_route("*", "/", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    assert runner.server is not None
    listening = TlsListener(guard, runner.server, 0, site.context)
    site.port = listening.port
    try:
        yield site
    finally:
        await listening.close()
        await runner.cleanup()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes = REQUEST) -> bytes:
    writer.write(request)
    async with asyncio.timeout(WAIT):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
        return await reader.readexactly(length)


def read_certificate(writer: asyncio.StreamWriter) -> bytes:
    shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    assert shown is not None
    return shown


async def has_ended(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(WAIT):
            return await reader.read(1) == b""
    except (ConnectionError, ssl.SSLError):  # not TimeoutError, which is an OSError, too
        return True


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    def run_in_loop(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(work)

    return run_in_loop


def test_requests_are_answered_over_a_connection_that_is_kept(run: Callable[..., None]) -> None:
    async def work() -> None:
        async with serving() as site:
            reader, writer = await site.connect()
            assert await ask(reader, writer) == b"ok"
            large = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(LARGE), LARGE)
            assert await ask(reader, writer, large) == LARGE
            assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
            writer.close()

    run(work())


def test_a_new_certificate_is_shown_to_new_connections_and_drops_none(run: Callable[..., None]) -> None:
    async def work() -> None:
        async with serving() as site:
            old = await site.connect()
            assert await ask(*old) == b"ok"
            site.show_new_certificate()
            new = await site.connect()
            assert await ask(*new) == b"ok"
            assert read_certificate(old[1]) != read_certificate(new[1])
            assert await ask(*old) == b"ok"
            for _, writer in (old, new):
                writer.close()

    run(work())


def test_a_client_that_trusts_another_authority_goes_away(run: Callable[..., None]) -> None:
    async def work() -> None:
        async with serving() as site:
            other = make_authority(datetime.now(UTC))
            with pytest.raises(ssl.SSLCertVerificationError):
                await site.connect(other.certificate)
            reader, writer = await site.connect()
            assert await ask(reader, writer) == b"ok"
            writer.close()

    run(work())


@pytest.mark.parametrize("sent", [b"", REQUEST, b"\x16\x03\x01"], ids=["nothing", "plain HTTP", "half a hello"])
def test_a_handshake_that_does_not_come_is_not_waited_for(run: Callable[..., None], sent: bytes) -> None:
    async def work() -> None:
        async with serving(header_seconds=0.3) as site:
            reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
            writer.write(sent)
            assert await has_ended(reader)
            writer.close()

    run(work())


def test_a_request_that_does_not_come_after_it_is_not_either(run: Callable[..., None]) -> None:
    async def work() -> None:
        async with serving(header_seconds=0.3) as site:
            reader, writer = await site.connect()
            assert await has_ended(reader)
            writer.close()

    run(work())


def test_connections_count_before_tls_is_agreed_on_and_no_longer_than_they_last(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_module, "_is_own", lambda _: False)

    async def work() -> None:
        async with serving(header_seconds=LONG, most_of_one=3) as site:
            silent = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(2)]
            client = await site.connect()
            assert await ask(*client) == b"ok"
            reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
            assert await has_ended(reader), "the fourth is one too many"
            writer.close()
            for _, other in (*silent, client):
                other.close()
            async with asyncio.timeout(WAIT):
                while True:  # the server sees their ends a moment later
                    try:
                        clients = [await site.connect() for _ in range(3)]
                    except OSError:
                        continue
                    break
            for each in clients:
                assert await ask(*each) == b"ok"
                each[1].close()

    run(work())
