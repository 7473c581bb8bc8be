"""A proxy before an API server, which can be what clients find slow or silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from yarl import URL

from e2e.chaos.processes.free_ports import free_port

_OF_ONE_CONNECTION = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding"}
_MOST_BYTES = 32 << 20


@dataclass
class FaultyProxy:
    """The proxy.

    Attributes:
        api: URL of the API server.
        is_silent: Whether what watches bring is kept back, without a word.
        write_seconds: How long it holds each write of an object of ours.
        port: Where it listens.
    """

    api: str
    is_silent: bool = False
    write_seconds: float = 0.0
    port: int = field(default_factory=free_port)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serves until the context ends; gives its URL."""
        application = web.Application(client_max_size=_MOST_BYTES)
        application.router.add_route("*", "/{tail:.*}", self._pass_on)
        connector, timeout = aiohttp.TCPConnector(limit=0, ssl=False), aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            self._session = session
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self.port).start()
            try:
                yield f"http://127.0.0.1:{self.port}"
            finally:
                await runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/log"):
            return await self._print_for_ever(request)
        if request.method != "GET" and "/podtune.dev/" in request.path:
            await asyncio.sleep(self.write_seconds)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OF_ONE_CONNECTION}
        url = URL(f"{self.api}{request.raw_path}", encoded=True)
        sent = self._session.request(request.method, url, headers=headers, data=await request.read() or None)
        is_watch = request.query.get("watch") in ("1", "true", "True")
        async with sent as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                if not (is_watch and self.is_silent):
                    await response.write(chunk)
            await response.write_eof()
        return response

    async def _print_for_ever(self, request: web.Request) -> web.StreamResponse:
        """Answers as a kubelet does of a program that prints nothing and does not end."""
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
        return response
