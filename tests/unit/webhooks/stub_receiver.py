"""A receiver of webhooks on loopback that answers as it is told, and can be away for a while."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from e2e.chaos.processes.free_ports import free_port


@dataclass
class StubReceiver:
    """The receiver.

    Attributes:
        port: Where it listens while it is up.
        answers: What it answers next, as status and headers; then 204.
        requests: Headers and bodies of what it was sent, whatever it answered.
        events: The events that it has taken, in order, those that came again included.
    """

    port: int = field(default_factory=free_port)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    answer_to: Callable[[list[dict[str, Any]]], int] = lambda events: 204
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/events"

    @asynccontextmanager
    async def up(self) -> AsyncIterator[None]:
        """It can be reached while the context lasts."""
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._take)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        try:
            yield
        finally:
            await runner.cleanup()

    async def wait_until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        """Waits for a request after which something holds."""
        async with asyncio.timeout(seconds):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append((dict(request.headers), body))
        content = json.loads(body)
        events = content if isinstance(content, list) else [content]
        status, headers = self.answers.pop(0) if self.answers else (self.answer_to(events), {})
        if status < 300:
            self.events += events
        self._changed.set()
        return web.Response(status=status, headers=headers)

    @property
    def ids(self) -> list[str]:
        """The ids that it has taken."""
        return [event["id"] for event in self.events]
