"""Clients that send slowly, or open many connections, against a real server on the loopback interface."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop
from aiohttp import web

from podtune.results import connections as connections_module
from podtune.results.connections import Connections

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Client]]
WAIT = 30
"""Seconds for what comes in moments: a busy machine is no fault."""
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
LONG = 600.0
"""Seconds for headers that no machine needs: they pass when a test says so."""


class LoopClock:
    """The running event loop's clock, which can be put forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = 0.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: time.monotonic() + self._ahead)

    async def put_forward(self, seconds: float) -> None:
        """Lets so much time pass, and all happen that is due then."""
        self._ahead += seconds
        await asyncio.sleep(0.01)


async def answer_at_once() -> None:
    """Has nothing to wait for."""


@asynccontextmanager
async def serving(
    header_seconds: float = 0.3, most_of_one: int = 100, work: Callable[[], Awaitable[object]] = answer_at_once
) -> AsyncIterator[Connect]:
    async def answer(_: web.Request) -> web.Response:
        await work()
        return web.Response(text="ok")

    guard = Connections(header_seconds, most_of_one)
    application = web.Application(middlewares=[guard.middleware])
    application.router.add_get("/", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1, keepalive_timeout=1000 * LONG)
    await runner.setup()
    assert runner.server is not None
    listening = await guard.listen(runner.server, 0)
    port = next(s.getsockname()[1] for s in listening.sockets if s.family == socket.AF_INET)
    try:
        yield lambda: asyncio.open_connection("127.0.0.1", port)
    finally:
        listening.close()
        await runner.cleanup()


async def ended(reader: asyncio.StreamReader) -> bool:
    """Waits until the server has closed a connection."""
    try:
        async with asyncio.timeout(WAIT):
            return await reader.read(1) == b""
    except ConnectionError:
        return True


async def answered(client: Client) -> bool:
    reader, writer = client
    writer.write(REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(2)
    return head.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\n"])
async def test_headers_that_do_not_come_are_not_waited_for(sent: bytes) -> None:
    async with serving() as connect:
        reader, writer = await connect()
        writer.write(sent)
        assert await ended(reader)
        writer.close()


async def test_nor_are_those_of_a_later_request(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = LoopClock(monkeypatch)
    async with serving(header_seconds=LONG) as connect:
        reader, writer = await connect()
        assert await answered((reader, writer))
        writer.write(REQUEST[:10])
        gone = asyncio.create_task(reader.read(1))
        while not gone.done():  # the server sees the first byte a moment later
            await clock.put_forward(LONG)
        assert isinstance(gone.exception(), ConnectionError) or gone.result() == b""
        writer.close()


async def test_headers_that_drip_have_no_more_time() -> None:
    async with serving() as connect:
        reader, writer = await connect()
        gone = asyncio.create_task(ended(reader))
        for byte in REQUEST[:-1]:
            if gone.done():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)
        assert await gone
        writer.close()


async def test_an_answer_may_take_longer_and_a_connection_may_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = LoopClock(monkeypatch)
    async with serving(header_seconds=LONG, work=lambda: clock.put_forward(LONG + 1)) as connect:
        client = await connect()
        assert await answered(client)
        await clock.put_forward(LONG + 1)
        assert await answered(client)
        client[1].close()


async def test_an_address_has_so_many_connections_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections_module, "_is_own", lambda _: False)
    async with serving(header_seconds=30, most_of_one=3) as connect:
        clients = [await connect() for _ in range(3)]
        for client in clients:
            assert await answered(client)
        reader, writer = await connect()
        assert await ended(reader)
        writer.close()
        clients.pop()[1].close()
        async with asyncio.timeout(WAIT):
            while True:  # the server sees the end of the third a moment later
                reader, writer = await connect()
                try:
                    assert await answered((reader, writer))
                except (ConnectionError, asyncio.IncompleteReadError):
                    continue
                finally:
                    writer.close()
                break
        for client in clients:
            assert await answered(client)
            client[1].close()


def test_the_operators_own_event_loop_serves_as_well() -> None:
    """uvloop's transports are none of asyncio's classes."""

    async def asked() -> bool:
        async with serving(header_seconds=30) as connect:
            client = await connect()
            try:
                async with asyncio.timeout(WAIT):
                    return await answered(client)
            finally:
                client[1].close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(asked())


async def test_our_own_pod_has_as_many_as_it_likes() -> None:
    async with serving(header_seconds=30, most_of_one=1) as connect:
        clients = [await connect() for _ in range(5)]
        for client in clients:
            assert await answered(client)
            client[1].close()


async def test_a_refusal_is_answered_and_nothing_of_it_is_kept_with_the_connection() -> None:
    async def refuse() -> None:
        raise web.HTTPServiceUnavailable(text="not yet", headers={"Retry-After": "1"})

    async with serving(work=refuse) as connect:
        reader, writer = await connect()
        for _ in range(2):
            writer.write(REQUEST)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert b"\r\nRetry-After: 1\r\n" in head
            assert b"\r\nContent-Type: text/plain; charset=utf-8\r\n" in head
            assert await reader.readexactly(7) == b"not yet"
        kept = [each for each in gc.get_objects() if isinstance(each, web.HTTPException)]
        assert "not yet" not in [refusal.text for refusal in kept]
        writer.close()
