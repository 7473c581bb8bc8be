"""Starts the server, watches the cluster for it, answers the kubelet's probes, and ends in good order."""

from __future__ import annotations

import asyncio
import signal
import socket
from functools import partial

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from podtune.cli.client.api_client import Api, HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.cli.errors import CliError
from podtune.dashboard.access.gate import Access
from podtune.dashboard.access.reviews import Reviewer
from podtune.dashboard.addresses import lead_to, make_host_rule
from podtune.dashboard.app import AppSettings, make_app
from podtune.dashboard.live.cluster_source import ClusterSource
from podtune.dashboard.live.joined_source import JoinedSource
from podtune.dashboard.live.object_reader import TokenReader
from podtune.dashboard.server.logs import get_field_logger
from podtune.dashboard.server.settings import ServerSettings
from podtune.dashboard.server.tls_renewal import TlsRenewal
from podtune.dashboard.serving import make_runner, spare_collector
from podtune.dashboard.stores.access import MountedStores

SHUTDOWN_SECONDS = 5.0
"""How long answers that are under way may take at the end; streams end at once."""
STARTING = "the dashboard is starting: it reads what the cluster has\n"
_log = get_field_logger(__name__)


class ProbeAnswers:
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
        async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.path == "/healthz":
                return web.Response(text="ok\n")
            if not self.is_ready:
                return web.Response(status=503, text=STARTING, headers={"Retry-After": "2"})
            return web.Response(text="ok\n") if request.path == "/readyz" else await handler(request)

        return answer


def run_server(settings: ServerSettings) -> None:
    """Serves a cluster's experiments until SIGTERM or SIGINT.

    Raises:
        CliError: The address is taken, or the experiments may not be read.
        ApiError: The API server can't be reached at the start.
    """
    listener = _listen(settings)
    source = _make_source(settings)
    try:
        asyncio.run(_serve(settings, source, listener))
    finally:
        source.stop()
        listener.close()


def build_application(
    settings: ServerSettings, source: ClusterSource | JoinedSource, probes: ProbeAnswers
) -> web.Application:
    """The pages below their prefix, and the probes beside them."""
    app = make_app(
        source,
        AppSettings(
            prefix=settings.prefix,
            allows_host=make_host_rule(settings.allowed_hosts),
            access=Access(
                reviewer=None if settings.is_open else Reviewer(_connect),
                session=settings.session,
                proxy=settings.proxy,
                offers_actions=settings.offers_actions,
            ),
            connect_as=_connect_as if settings.offers_actions else None,
            price=settings.price,
            reader=None if settings.is_open else TokenReader(_connect_as),
            stores=MountedStores(settings.stores) if settings.stores else None,
        ),
    )
    if not settings.prefix:
        app.middlewares.insert(0, probes.middleware)
        return app
    outer = web.Application(middlewares=[probes.middleware])
    outer.router.add_get("/", partial(_lead_to, f"{settings.prefix}/"))
    outer.router.add_get(settings.prefix, partial(_lead_to, f"{settings.prefix}/"))
    outer.add_subapp(settings.prefix, app)
    return outer


async def _lead_to(location: str, _: web.Request) -> web.Response:
    return lead_to(location)


def _connect() -> Api:
    return HttpApi(connect())


def _connect_as(token: str) -> Api:
    return HttpApi(connect(token=token))


def _make_source(settings: ServerSettings) -> ClusterSource | JoinedSource:
    if len(settings.namespaces) > 1:
        return JoinedSource(
            {namespace: ClusterSource(_connect, namespace) for namespace in settings.namespaces}, settings.title
        )
    return ClusterSource(_connect, next(iter(settings.namespaces), None), title=settings.title)


def _listen(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
    try:
        return socket.create_server(
            (settings.address, settings.port), family=family, dualstack_ipv6=settings.address == "::"
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CliError(f"--address {settings.address} --port {settings.port}: {reason}") from error


async def _serve(settings: ServerSettings, source: ClusterSource | JoinedSource, listener: socket.socket) -> None:
    probes, stopped = ProbeAnswers(), asyncio.Event()
    runner = make_runner(
        build_application(settings, source, probes),
        handler_cancellation=True,
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    await runner.setup()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    starting = asyncio.create_task(asyncio.to_thread(source.start))
    renewing = asyncio.create_task(_renew_tls(settings, stopped))
    try:
        await web.SockSite(runner, listener, ssl_context=settings.tls).start()
        _log_settings(settings, listener)
        await _start(starting, stopped, probes)
        await stopped.wait()
        _log.info("dashboard ends")
    finally:
        renewing.cancel()
        source.stop()
        await runner.cleanup()


async def _start(starting: asyncio.Task[None], stopped: asyncio.Event, probes: ProbeAnswers) -> None:
    """Waits until all is known that there is, or the program is to end."""
    ending = asyncio.create_task(stopped.wait())
    await asyncio.wait({starting, ending}, return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    if starting.done():
        starting.result()
        spare_collector()
        probes.is_ready = True
        _log.info("dashboard is ready")


async def _renew_tls(settings: ServerSettings, stopped: asyncio.Event) -> None:
    """Takes renewed certificates into use; has the program end, to be started anew, where that is not enough."""
    if settings.tls is None:
        return
    await TlsRenewal(settings.tls_files, settings.tls).wait_for_authority()
    _log.info("the proxy has another authority", file=str(settings.tls_files.proxy_authority))
    stopped.set()


def _log_settings(settings: ServerSettings, listener: socket.socket) -> None:
    address, port, *_ = listener.getsockname()
    _log.info(
        "dashboard listens",
        address=address,
        port=port,
        base_path=settings.prefix or "/",
        namespaces=list(settings.namespaces),
        tls=settings.tls is not None,
        open=settings.is_open,
        offers_actions=settings.offers_actions,
        proxy=bool(settings.proxy.user_header),
        stores=[f"{each.namespace}: {each.address.uri}" for each in settings.stores],
    )
