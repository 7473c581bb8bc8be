"""A process in a container, against an API server that speaks the protocol of `kubectl exec`."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from aiohttp import WSMsgType, web

from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import ServerAccess
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal
from podtune.storage.volume.remote_store import ConnectionLost, ReaderConnection

POD = paths.pod("vision", "reader")
SUCCESS = {"status": "Success"}

Behaviour = Callable[[web.WebSocketResponse], Awaitable[None]]


class Server:
    """Runs in a thread; `behave` says what the process in the container does."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.behave: Behaviour = echo
        self.refusal: tuple[int, dict[str, Any]] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.url = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(60)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> str:
        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if self.refusal is not None:
            return web.json_response(self.refusal[1], status=self.refusal[0])
        socket = web.WebSocketResponse(protocols=["v4.channel.k8s.io"])
        await socket.prepare(request)
        await self.behave(socket)
        return socket


async def echo(socket: web.WebSocketResponse) -> None:
    """Says on standard output what it hears on standard input, in two messages."""
    async for message in socket:
        if message.type == WSMsgType.BINARY and message.data[:1] == b"\0":
            heard = message.data[1:]
            await socket.send_bytes(b"\1" + heard[:3])
            await socket.send_bytes(b"\1" + heard[3:])


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.stop()


@pytest.fixture
def start(server: Server) -> Iterator[Callable[[], ReaderConnection]]:
    started: list[ReaderConnection] = []

    def start_one() -> ReaderConnection:
        access = ServerAccess(server.url, "vision", None, {"Authorization": "Bearer abc"})
        started.append(HttpApi(access).execute(POD, "reader", ["podtune-agent", "read-volume"]))
        return started[-1]

    yield start_one
    for connection in started:
        connection.close()


def test_bytes_and_lines_come_through_whatever_messages_they_are_cut_into(
    server: Server, start: Callable[[], ReaderConnection]
) -> None:
    connection = start()
    connection.write(b"first line\nbinary \0\xff\n\nrest")
    assert connection.readline(100) == b"first line\n"
    assert connection.readline(4) == b"bina"
    assert connection.read(6) == b"ry \0\xff\n"
    assert connection.readline(100) == b"\n"
    assert connection.read(4) == b"rest"
    (request,) = server.requests
    assert request.path == f"{POD}/exec"
    assert request.query.getall("command") == ["podtune-agent", "read-volume"]
    assert request.query["container"] == "reader"
    assert [request.query[stream] for stream in ("stdin", "stdout", "stderr")] == ["true"] * 3
    assert request.headers["Authorization"] == "Bearer abc"


def test_a_process_that_has_ended_gives_what_it_said_and_then_nothing(
    server: Server, start: Callable[[], ReaderConnection]
) -> None:
    async def end(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\1the end")
        await socket.send_bytes(b"\3" + json.dumps(SUCCESS).encode())

    server.behave = end
    connection = start()
    assert connection.readline(100) == b"the end"
    assert connection.readline(100) == b""


def test_a_process_that_has_failed_says_why(server: Server, start: Callable[[], ReaderConnection]) -> None:
    async def fail(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\2invalid choice:\n 'read-volume'")
        failure = {"status": "Failure", "message": "command terminated with non-zero exit code"}
        await socket.send_bytes(b"\3" + json.dumps(failure).encode())

    server.behave = fail
    with pytest.raises(ConnectionLost, match=r"non-zero exit code \(invalid choice: 'read-volume'\)"):
        start().readline(100)


def test_a_connection_that_ends_before_the_process_is_lost(
    server: Server, start: Callable[[], ReaderConnection]
) -> None:
    async def go(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\1half a li")
        await socket.close()

    server.behave = go
    with pytest.raises(ConnectionLost):
        start().readline(100)


def test_a_refusal_is_that_of_the_server(server: Server, start: Callable[[], ReaderConnection]) -> None:
    message = 'pods "reader" is forbidden: User "ada" cannot create resource "pods/exec"'
    server.refusal = 403, {"kind": "Status", "reason": "Forbidden", "message": message}
    with pytest.raises(ApiRefusal) as caught:
        start()
    assert (caught.value.status, caught.value.message) == (403, message)
    assert caught.value.is_lack_of_rights


def test_nobody_is_followed_elsewhere(server: Server, start: Callable[[], ReaderConnection]) -> None:
    server.refusal = 302, {}
    with pytest.raises((ConnectionLost, ApiRefusal)):
        start()
    assert len(server.requests) == 1


def test_a_server_that_is_not_there_is_named(start: Callable[[], ReaderConnection]) -> None:
    access = ServerAccess("http://127.0.0.1:1", "vision", None)
    with pytest.raises(ConnectionLost, match=r"http://127.0.0.1:1 does not start a process in the pod"):
        HttpApi(access).execute(POD, "reader", ["podtune-agent"])
