"""The operator's HTTP servers: how they listen, and those for metrics and health probes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Mapping

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from podtune.app.metrics_readers import METRICS_ROUTE, MetricsDenied, MetricsReaders
from podtune.controllers import metrics
from podtune.kube.errors import ApiError
from podtune.results.connections import IDLE_SECONDS, Connections
from podtune.results.tls.listener import TlsListener

log = structlog.get_logger(__name__)

LINGER_SECONDS = 2.0
"""How long the rest of a request is read that was answered before it had come; then its connection is closed."""


class CannotListen(Exception):
    """A port can't be listened on; the text names it."""


@contextlib.asynccontextmanager
async def serve(application: web.Application, ports: Mapping[int, ssl.SSLContext | None]) -> AsyncIterator[None]:
    """Serves on all interfaces while the context lasts; a request whose client has gone away is cancelled.

    Args:
        application: What to serve.
        ports: Where; with the context of TLS, or None for plain HTTP.

    Raises:
        CannotListen: A port is taken.
    """
    connections = Connections()
    application.middlewares.append(connections.middleware)
    runner = web.AppRunner(
        application,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=1.0,
        keepalive_timeout=IDLE_SECONDS,
        lingering_time=LINGER_SECONDS,
    )
    await runner.setup()
    assert runner.server is not None  # it is set up
    try:
        async with contextlib.AsyncExitStack() as listening:
            for port, tls in ports.items():
                try:
                    if tls is not None:
                        listening.push_async_callback(TlsListener(connections, runner.server, port, tls).close)
                    else:
                        listening.callback((await connections.listen(runner.server, port)).close)
                except OSError as error:
                    raise CannotListen(f"port {port} can't be listened on: {error}") from error
            yield
    finally:
        await runner.cleanup()


class MetricsEndpoint:
    """Answers `/metrics`."""

    def __init__(self, readers: MetricsReaders | None) -> None:
        """Makes the answers, for `readers` only, where there are some."""
        self._readers = readers

    def build_application(self) -> web.Application:
        """The route of a server of its own."""
        application = web.Application()
        self.add_to(application)
        return application

    def add_to(self, application: web.Application) -> None:
        """Has another server answer as well."""
        application.router.add_get(METRICS_ROUTE, self._answer)

    async def _answer(self, request: web.Request) -> web.Response:
        if self._readers is not None:
            try:
                await self._readers.check(request.headers.get("Authorization", ""))
            except MetricsDenied as denied:
                raise (web.HTTPForbidden if denied.is_known else web.HTTPUnauthorized)(text=str(denied)) from denied
            except ApiError as error:
                log.warning("reader of metrics not reviewed", message=str(error))
                raise web.HTTPServiceUnavailable(text="the token could not be reviewed") from error
        metrics.EVENT_LOOP_TASKS.set(len(asyncio.all_tasks()))
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})


class Probes:
    """Answers `/healthz` and `/readyz`, to anybody.

    Ready is who can take over at any time, so a standby is ready too; else Helm would wait for it for ever. Healthy is
    whose watches still tell it something.
    """

    def __init__(self, is_healthy: Callable[[], bool]) -> None:
        self._is_healthy = is_healthy
        self.is_ready = False

    def build_application(self) -> web.Application:
        """The server's routes."""
        application = web.Application()
        application.router.add_get("/healthz", self._answer_healthz)
        application.router.add_get("/readyz", self._answer_readyz)
        return application

    async def _answer_healthz(self, _: web.Request) -> web.Response:
        if self._is_healthy():
            return web.Response(text="ok")
        return web.Response(status=500, text="a write has not come back through the watch for a minute")

    async def _answer_readyz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok") if self.is_ready else web.Response(status=503, text="starting")
