"""Somebody whose report never comes to its end, against the server as the operator runs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from e2e.chaos.processes.free_ports import free_port
from podtune.app import servers
from podtune.app.servers import serve
from podtune.results import server as server_module
from podtune.results.server import ResultsServer
from tests.unit.cluster.fake_client import FakeCluster
from tests.unit.results.test_server import REPORT, URL, Gate, ReportHandler

SECONDS = 0.3
WAIT = 30
"""Seconds for what comes in moments: a busy machine is no fault."""
HEAD = f"POST {URL}/results HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """Where the server is; it has less patience than in a cluster."""
    monkeypatch.setattr(server_module, "BODY_SECONDS", SECONDS)
    monkeypatch.setattr(servers, "LINGER_SECONDS", SECONDS)
    results = ResultsServer(ReportHandler(), Gate(), FakeCluster())  # type: ignore[arg-type]
    port = free_port()
    async with serve(results.build_application(), {port: None}):
        yield port


async def drip(writer: asyncio.StreamWriter) -> None:
    """Sends a body a byte at a time, until nobody takes any more."""
    while not writer.is_closing():
        writer.write(b" ")
        await asyncio.sleep(SECONDS / 10)


async def report(port: int) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{port}{URL}/results", data=REPORT.to_json()) as answer,
    ):
        return answer.status


async def test_a_body_that_drips_is_given_up_and_holds_neither_connection_nor_task(port: int) -> None:
    before = asyncio.all_tasks()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD.encode())
    dripping = asyncio.create_task(drip(writer))
    try:
        async with asyncio.timeout(WAIT):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 408 "), head
            text = f"the report did not arrive within {SECONDS:g} s".encode()
            assert await reader.readexactly(len(text)) == text
            assert await report(port) == 200, "others are answered meanwhile"
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.readexactly(1)  # the server closes the connection, whatever is still sent
            dripping.cancel()
            await asyncio.gather(dripping, return_exceptions=True)
            while left := asyncio.all_tasks() - before:
                await asyncio.wait(left)
    finally:
        dripping.cancel()
        writer.close()
