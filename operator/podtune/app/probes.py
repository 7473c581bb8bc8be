"""Metrics and health probes."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest


class Probes:
    """Answers `/metrics`, `/healthz` and `/readyz`.

    Ready is who can take over at any time, so a standby is ready too; else Helm would wait for it for ever. Healthy is
    whose watches still tell it something.
    """

    def __init__(self, is_healthy: Callable[[], bool]) -> None:
        self._is_healthy = is_healthy
        self.is_ready = False

    def application(self) -> web.Application:
        """The server's routes."""
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        return application

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _healthz(self, _: web.Request) -> web.Response:
        if self._is_healthy():
            return web.Response(text="ok")
        return web.Response(status=500, text="a write has not come back through the watch for a minute")

    async def _readyz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok") if self.is_ready else web.Response(status=503, text="starting")
