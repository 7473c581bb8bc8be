"""Puts the operator together.

A process waits for the Lease; then it lists everything, starts the watches, and only then decides and takes in results.
It never goes back from leading to waiting: who loses the Lease exits, and starts anew with an empty memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import structlog
from aiohttp import web
from prometheus_client import REGISTRY
from prometheus_client.registry import Collector

from podtune import __version__
from podtune.app.metrics_readers import MetricsReaders
from podtune.app.servers import MetricsEndpoint, Probes, serve
from podtune.app.settings import Settings, TlsSettings
from podtune.app.start_retries import StartRetries
from podtune.app.store_updater import StoreUpdater
from podtune.cluster.client import ClusterClient, KubernetesClient
from podtune.cluster.events import Reporter
from podtune.cluster.executor import Executor
from podtune.cluster.lease import LeaderLabel, Lease, LeaseSettings
from podtune.controllers import metrics
from podtune.controllers.action_runner import ActionRunner
from podtune.controllers.collectors import BacklogCollector, StoreCollector
from podtune.controllers.decision_loop import DecisionLoop
from podtune.controllers.pod_waiters import PodWaiters
from podtune.controllers.pods.overdue_pods import OverduePods
from podtune.controllers.report_handler import MachineReportHandler
from podtune.controllers.searcher_threads import SearcherThreads
from podtune.controllers.store.entry import ObjectListener
from podtune.controllers.store.store import Store
from podtune.controllers.watch.kopf import make_handlers, run_kopf
from podtune.controllers.watch.opt_ins import NamespaceGate, OptIns
from podtune.controllers.watch.resync import Resync
from podtune.controllers.watch.watch_health import WatchHealth
from podtune.controllers.work_queue import WorkQueue
from podtune.kube.errors import ApiError, ResourceNotFound
from podtune.results.authentication import Authenticator
from podtune.results.server import ResultsServer
from podtune.results.tls.identity import Identity, MountedIdentity, keep_fresh
from podtune.runner.settings import RunnerSettings
from podtune.tracing.tracing import Tracing
from podtune.webhooks.webhooks import Webhooks

log = structlog.get_logger(__name__)

STEP_DOWN_SECONDS = 3.0
"""How long each step of giving the leadership back may take."""


class Operator:
    """All parts of the operator, connected."""

    def __init__(
        self,
        settings: Settings,
        client: KubernetesClient,
        lease_client: KubernetesClient,
        rng: random.Random,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Makes an operator.

        Args:
            settings: What the installation has chosen.
            client: For all that is done while leading.
            lease_client: For what decides on leading; its connections are its own, so that no other request holds
                up the Lease.
            rng: Draws the jitter.
            monotonic: The clock by which the Lease is held.
        """
        self._settings = settings
        lease = LeaseSettings(settings.pod_namespace, settings.lease_name, settings.identity)
        self._lease = Lease(lease_client, lease, monotonic, rng)
        self._rng = rng
        self._retries = StartRetries(monotonic, rng)
        self._identity = self._build_identity(settings.results_tls, lease_client) if settings.results_tls else None
        self._label = LeaderLabel(lease_client, settings.pod_namespace, settings.pod_name)
        client = client.guard_writes(lambda: self._lease.is_held)
        queue = WorkQueue(time.time)
        limits = RunnerSettings(
            agent_image=settings.agent.image,
            proposal_deadline=settings.proposal_deadline,
            records_transitions=bool(settings.webhooks),
            records_times=settings.tracing is not None,
        )
        self._overdue_pods = OverduePods(client, time.time)
        self._webhooks = Webhooks(
            settings.webhooks,
            client,
            namespace=settings.pod_namespace,
            prefix=settings.lease_name,
            now=time.time,
            monotonic=time.monotonic,
        )
        self._tracing = self._build_tracing(client)
        gate = NamespaceGate(settings.opt_in_command)
        self._store = Store(
            limits,
            queue.add,
            settings.template_policy,
            settings.pod_limits,
            self._overdue_pods,
            listeners=list(self._list_listeners()),
            find_bar=gate.find_bar,
        )
        self._health = WatchHealth(time.monotonic, gate.is_watched)
        observer = StoreUpdater(self._store, self._health)
        agent = settings.agent
        if (identity := self._identity) is not None:
            agent = replace(agent, find_authorities=lambda: identity.trusted)
        executor = Executor(client, observer, agent, self._build_reporter())
        pod_waiters = PodWaiters()
        actions = ActionRunner(queue, executor, SearcherThreads(), settings.proposal_deadline, time.time)
        self._collectors = (
            StoreCollector(self._store),
            BacklogCollector(lambda: len(queue), actions.count_waiting, self._health.compute_lag),
        )
        self._decisions = DecisionLoop(
            self._store,
            queue,
            actions,
            pod_waiters=pod_waiters,
            now=time.time,
            may_decide=lambda: self._lease.is_held,
        )
        handler = MachineReportHandler(self._store, queue, self._decisions, pod_waiters, time.time)
        list_opted_in = gate.list_served if settings.opt_in_command else None
        self._resync = Resync(client, self._store, settings.namespaces, rng, list_opted_in)
        opt_ins = OptIns(client, gate, self._store, self._resync, self._health, monotonic=time.monotonic, rng=rng)
        self._opt_ins = opt_ins if settings.opt_in_command else None
        self._results = ResultsServer(handler, Authenticator(client, time.monotonic), client)
        self._probes = Probes(lambda: self._health.is_alive)
        # A standby is asked for metrics, too, and may write nothing by the leader's client, not even a review.
        readers = MetricsReaders(lease_client, time.monotonic) if settings.metrics_authentication else None
        self._metrics = MetricsEndpoint(readers)

    async def run(self, stop: asyncio.Event, listen_to_signals: Callable[[], None]) -> None:
        """Serves until `stop` is set.

        Args:
            stop: Ends the operator.
            listen_to_signals: Has signals set `stop`; called whenever somebody else may have taken them over.

        Raises:
            LeaseLost: We led, and no longer do (in a group of exceptions, as is whatever a part of it fails with).
            ApiError: The API server can't be worked with.
            CannotListen: A port is taken.
            CertificateError: The results server has no certificate.
        """
        listen_to_signals()
        async with contextlib.AsyncExitStack() as servers:
            await _wait_for_first(self._prepare(servers, stop), stop.wait())
            if stop.is_set():
                return
            self._probes.is_ready = True
            log.info("waiting for the lease", identity=self._settings.identity, version=__version__)
            await _wait_for_first(self._lease.acquire(), stop.wait())
            try:
                if not stop.is_set():
                    log.info("leading", identity=self._settings.identity)
                    await self._lead(stop, listen_to_signals)
            finally:
                if self._lease.is_held:
                    await self._step_down()

    async def _prepare(self, servers: contextlib.AsyncExitStack, stop: asyncio.Event) -> None:
        """Starts the servers, first the one that says that we live: the kubelet kills who does not say so in time."""
        probes, *others = self._list_servers()
        await servers.enter_async_context(serve(*probes))
        if self._identity is not None:
            wait = await self._retries.carry_out("certificate", self._identity.refresh)
            await servers.enter_async_context(_go_along(keep_fresh(self._identity, wait, self._rng), stop))
        for application, ports in others:
            await servers.enter_async_context(serve(application, ports))
        await self._retries.carry_out("label", self._label.drop)

    async def _lead(self, stop: asyncio.Event, listen_to_signals: Callable[[], None]) -> None:
        """Decides, until `stop` is set or a part fails; nothing goes on after it."""
        with _shown_in_metrics(self._collectors):
            async with asyncio.TaskGroup() as group:
                holding = group.create_task(self._lease.hold())
                await _wait_for_first(self._fill(), stop.wait())
                if not stop.is_set():
                    await self._watch(stop, listen_to_signals)
                holding.cancel()

    async def _watch(self, stop: asyncio.Event, listen_to_signals: Callable[[], None]) -> None:
        """The same, from when everything is known that was there."""
        async with asyncio.TaskGroup() as group:
            ready = asyncio.Event()
            handlers = make_handlers(self._store, self._health, self._resync, self._opt_ins)
            watching = group.create_task(run_kopf(handlers, self._settings.namespaces, ready, self._opt_ins))
            watching.add_done_callback(lambda _: stop.set())  # by a signal that kopf took
            await _wait_for_first(ready.wait(), stop.wait())
            listen_to_signals()
            await self._work(stop)
            watching.cancel()

    async def _fill(self) -> None:
        """Takes in everything that is there."""
        if self._identity is not None:
            # Who led before may have replaced the authorities a moment ago.
            await self._retries.carry_out("certificate", self._identity.refresh)
        await self._retries.carry_out("webhooks", self._webhooks.load)
        if self._tracing is not None:
            await self._retries.carry_out("traces", self._tracing.load)
        try:
            await self._retries.carry_out("lists", self._resync.run_first)
        except ResourceNotFound as refusal:
            raise ApiError(
                "the API server knows no Experiments and Trials; install their definitions, the chart podtune-crds"
            ) from refusal

    async def _work(self, stop: asyncio.Event) -> None:
        await self._webhooks.begin()
        try:
            async with asyncio.TaskGroup() as group:
                loops = [self._resync.run(), self._decisions.run(), self._overdue_pods.run(), self._webhooks.run()]
                if self._opt_ins is not None:
                    loops.append(self._opt_ins.run())
                if self._tracing is not None:
                    loops.append(self._tracing.run())
                parts = [group.create_task(loop) for loop in loops]
                await _wait_for_first(self._retries.carry_out("label", self._label.take), stop.wait())
                await stop.wait()
                for part in parts:
                    part.cancel()
        finally:
            await self._close_listeners()

    async def _close_listeners(self) -> None:
        """Has those who tell others of what happens end, at the same time."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._webhooks.close(STEP_DOWN_SECONDS))
            if self._tracing is not None:
                group.create_task(self._tracing.close(STEP_DOWN_SECONDS))

    async def _step_down(self) -> None:
        """Gives the leadership back, so that the next one need not wait."""
        for step in (self._label.drop, self._lease.release):
            try:
                async with asyncio.timeout(STEP_DOWN_SECONDS):
                    await step()
            except (ApiError, TimeoutError) as error:
                log.warning("leadership not given back", message=str(error) or "no answer in time")

    def _build_tracing(self, client: ClusterClient) -> Tracing | None:
        collector = self._settings.tracing
        if collector is None:
            return None
        namespace, name = self._settings.pod_namespace, f"{self._settings.lease_name}-traces"
        return Tracing(collector, client, namespace=namespace, name=name, now=time.time)

    def _list_listeners(self) -> Iterator[ObjectListener]:
        """Who hears of all objects."""
        if self._settings.webhooks:
            yield self._webhooks
        if self._tracing is not None:
            yield self._tracing

    def _build_identity(self, tls: TlsSettings, client: KubernetesClient) -> Identity:
        if tls.directory is not None:
            return MountedIdentity(tls.directory, tls.host)
        # Imported here: it brings a library along that takes its time and memory.
        from podtune.results.tls.authority_secret import AuthoritySecret  # noqa: PLC0415
        from podtune.results.tls.own_identity import OwnIdentity  # noqa: PLC0415

        return OwnIdentity(AuthoritySecret(client, self._settings.pod_namespace, tls.secret), tls.host, time.time)

    def _list_servers(self) -> Iterator[tuple[web.Application, dict[int, ssl.SSLContext | None]]]:
        """What is served, and on which ports: with the context of TLS, or without."""
        settings, tls = self._settings, self._identity.context if self._identity is not None else None
        probes = self._probes.build_application()
        if settings.metrics_port is None:
            self._metrics.add_to(probes)
        yield probes, {settings.probe_port: None}
        if settings.metrics_port is not None:
            yield self._metrics.build_application(), {settings.metrics_port: tls}
        ports: dict[int, ssl.SSLContext | None] = {}
        if settings.results_port is not None:
            ports[settings.results_port] = None
        if settings.results_tls is not None:
            ports[settings.results_tls.port] = tls
        yield self._results.build_application(), ports

    def _build_reporter(self) -> Reporter:
        return Reporter(
            instance=self._settings.identity,
            now=lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            trial_uid=self._store.find_trial_uid,
            namespace=self._settings.pod_namespace,
            lease=self._settings.lease_name,
        )


@contextlib.contextmanager
def _shown_in_metrics(collectors: Iterable[Collector]) -> Iterator[None]:
    """Shows in the metrics that we lead, and what."""
    metrics.LEADING.set(1)
    for collector in collectors:
        REGISTRY.register(collector)
    try:
        yield
    finally:
        for collector in collectors:
            REGISTRY.unregister(collector)
        metrics.LEADING.set(0)


@contextlib.asynccontextmanager
async def _go_along(coroutine: Coroutine[Any, Any, None], stop: asyncio.Event) -> AsyncIterator[None]:
    """Runs something that never ends while the context lasts; if it fails, so does the context, and soon."""
    task = asyncio.create_task(coroutine)
    task.add_done_callback(lambda _: stop.set())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()


async def _wait_for_first(*coroutines: Coroutine[Any, Any, Any]) -> None:
    """Waits until one of them has ended, and ends the others."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
