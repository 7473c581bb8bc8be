"""Puts the operator together, starts it and stops it.

A process waits for the Lease; then it lists everything, starts the watches, and only then decides and takes in results.
It never goes back from leading to waiting: who loses the Lease exits, and starts anew with an empty memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
import sys
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import structlog
import uvloop
from aiohttp import web
from prometheus_client import REGISTRY

from podtune import __version__
from podtune.app.leader_label import LeaderLabel
from podtune.app.observer import EchoingObserver
from podtune.app.probes import Probes
from podtune.app.settings import Settings, SettingsError, read_settings
from podtune.cluster.client import KubernetesClient
from podtune.cluster.errors import ApiError
from podtune.cluster.executor import Executor, Reporter
from podtune.cluster.lease import Lease, LeaseLost, LeaseSettings
from podtune.controllers import metrics
from podtune.controllers.handlers import make_registry, watch
from podtune.controllers.queue import WorkQueue
from podtune.controllers.reconciler import Reconciler
from podtune.controllers.store import Store
from podtune.controllers.sweep import Sweep
from podtune.controllers.watch_health import WatchHealth
from podtune.results.authentication import Authenticator
from podtune.results.server import ResultsServer
from podtune.runner.settings import RunnerSettings

log = structlog.get_logger(__name__)


class Operator:
    """All parts of the operator, connected."""

    def __init__(self, settings: Settings, client: KubernetesClient, rng: random.Random) -> None:
        self.settings = settings
        self.queue = WorkQueue(time.time)
        self.store = Store(RunnerSettings(), self.queue.add, settings.service_accounts)
        self.health = WatchHealth(time.monotonic)
        observer = EchoingObserver(self.store, self.health)
        reporter = Reporter(settings.identity[:128], lambda: datetime.now(UTC).isoformat().replace("+00:00", "Z"))
        executor = Executor(client, observer, settings.agent, reporter)
        self.reconciler = Reconciler(self.store, self.queue, executor, time.time)
        self.sweep = Sweep(client, self.store, settings.namespaces, rng)
        self.results = ResultsServer(self.reconciler, Authenticator(client, time.monotonic), client)
        self.probes = Probes(lambda: self.health.is_alive)
        self.label = LeaderLabel(client, settings.pod_namespace, settings.pod_name)
        lease = LeaseSettings(settings.pod_namespace, settings.lease_name, settings.identity)
        self.lease = Lease(client, lease, time.monotonic, rng)

    async def run(self, stop: asyncio.Event) -> None:
        """Serves until `stop` is set.

        Raises:
            LeaseLost: We led, and no longer do.
        """
        async with contextlib.AsyncExitStack() as servers:
            await servers.enter_async_context(_serving(self.probes.application(), self.settings.probe_port))
            await servers.enter_async_context(_serving(self.results.application(), self.settings.results_port))
            await self.label.drop()
            self.probes.is_ready = True
            log.info("waiting for the lease", identity=self.settings.identity, version=__version__)
            if await _first(self.lease.acquire(), stop.wait()):
                return
            log.info("leading", identity=self.settings.identity)
            try:
                await self._lead(stop)
            finally:
                self.reconciler.is_leading = False
                with contextlib.suppress(ApiError):
                    await self.label.drop()
                    await self.lease.release()

    async def _lead(self, stop: asyncio.Event) -> None:
        """Decides, until `stop` is set or a part fails."""
        metrics.LEADING.set(1)
        REGISTRY.register(metrics.TrialsCollector(self.store))
        async with asyncio.TaskGroup() as group:
            holding = group.create_task(self.lease.hold())
            await self.sweep.first()
            ready, ending = asyncio.Event(), asyncio.Event()
            registry = make_registry(self.store, self.health)
            watching = group.create_task(watch(registry, self.settings.namespaces, ready, ending))
            await ready.wait()
            sweeping = group.create_task(self.sweep.run())
            deciding = group.create_task(self.reconciler.run())
            await self.label.take()
            await stop.wait()
            ending.set()
            await watching
            for task in (holding, sweeping, deciding):
                task.cancel()


@contextlib.asynccontextmanager
async def _serving(application: web.Application, port: int) -> Any:
    """Serves an application on all interfaces."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port).start()
        yield
    finally:
        await runner.cleanup()


async def _first(work: Coroutine[Any, Any, Any], interruption: Coroutine[Any, Any, Any]) -> bool:
    """Waits for one of two; whether it was the interruption."""
    tasks = [asyncio.create_task(work), asyncio.create_task(interruption)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    for task in done:
        task.result()
    return tasks[1] in done


def configure_logging(level: str) -> None:
    """One JSON object a line on stderr, for our own events and for the libraries'."""
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=number, handlers=[handler], force=True)
    logging.getLogger("kopf").setLevel(max(number, logging.WARNING))


async def _main(settings: Settings) -> None:
    rng = random.Random()
    client = await KubernetesClient.connect(rng)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await Operator(settings, client, rng).run(stop)
    finally:
        await client.close()


def main() -> None:
    """Entry point of `podtune-operator`."""
    try:
        settings = read_settings()
    except SettingsError as error:
        sys.exit(f"podtune-operator: {error}")
    configure_logging(settings.log_level)
    try:
        uvloop.run(_main(settings))
    except ApiError as error:
        sys.exit(f"podtune-operator: {error}")
    except BaseExceptionGroup as group:
        lost = group.subgroup(LeaseLost)
        if lost is None:
            raise
        log.error("lease lost", error=str(lost.exceptions[0]))
        sys.exit(1)


if __name__ == "__main__":
    main()
