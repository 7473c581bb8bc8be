"""Answers `/healthz` and `/readyz`, beside all prefixes and without a login."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Middleware

PageHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]
STARTING = "the dashboard is starting: it reads what the cluster has\n"


class Probes:
    """Healthy is who answers; ready is who knows the cluster. While its API server is away, pages say so.

    Attributes:
        is_ready: Whether all is known that there was at the start.
    """

    def __init__(self) -> None:
        self.is_ready = False

    @property
    def middleware(self) -> Middleware:
        """Answers the probes, and keeps pages back until there is something to show."""

        @web.middleware
        async def answer(request: web.Request, handler: PageHandler) -> web.StreamResponse:
            if request.path == "/healthz":
                return web.Response(text="ok\n")
            if not self.is_ready:
                return web.Response(status=503, text=STARTING, headers={"Retry-After": "2"})
            return web.Response(text="ok\n") if request.path == "/readyz" else await handler(request)

        return answer
