"""All use of kopf: its watches feed the store with events. Nothing is decided here.

Kopf logs in, lists, watches, and restarts a watch that has ended. Only its `@kopf.on.event` handlers are used: its
create, update and delete handlers, timers and daemons keep their own state in annotations and finalizers, which would
cost writes and could block a deletion. A handler raises nothing: the store copes with any object.

One function of kopf's is replaced, the one that gives the events of a watch to tasks, one for each object: handlers are
called directly. That saves a third of the operator's time (see docs/decisions/0019). A kopf that calls another function
there would still call the handlers, only more slowly; a unit test notices it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any, NamedTuple

import kopf
import structlog
from kopf._cogs.clients import errors, watching
from kopf._core.reactor import queueing

from podtune.api.names import EXPERIMENT_KIND, EXPERIMENT_PLURAL, GROUP, TRIAL_KIND, TRIAL_PLURAL, VERSION
from podtune.controllers.store.store import Store
from podtune.controllers.watch.opt_ins import OptIns, WatchForbidden
from podtune.controllers.watch.resync import POD_SELECTOR, Resync
from podtune.controllers.watch.watch_health import WatchHealth
from podtune.kube.manifests import Manifest, name_object

POD_KIND = "Pod"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
"""Type of the events that tell of no object, only of how far the watch has come."""
LISTED = None
"""Type of the events that kopf makes from the list with which each watch starts or restarts."""

LISTED_AT_A_TIME = 100
"""Objects of a list that a watch begins with: a part of a list is taken in at once, and results and the Lease wait."""

log = structlog.get_logger(__name__)

Take = Callable[[Manifest], None]
Handler = Callable[[Any], None]
"""Takes an event of a watch: its type and its object."""


class Watched(NamedTuple):
    """A kind of objects, as kopf selects it."""

    group: str
    version: str
    plural: str


def make_handlers(
    store: Store, health: WatchHealth, resync: Resync, opt_ins: OptIns | None = None
) -> dict[Watched, Handler]:
    """What each event of a kind is given to, so that the store knows of it."""

    def feed(kind: str, event: Any, seen: Take, gone: Take) -> None:
        body = event["object"]
        health.saw(kind, body)
        if event["type"] == DELETED:
            gone(body)
            return
        if event["type"] is LISTED:
            resync.call()
        seen(body)

    def take_experiment(event: Any) -> None:
        feed(EXPERIMENT_KIND, event, store.observe_experiment, store.observe_experiment_deletion)
        if opt_ins is not None:
            opt_ins.see(event["object"]["metadata"]["namespace"])

    def take_trial(event: Any) -> None:
        feed(TRIAL_KIND, event, store.observe_trial, store.observe_trial_deletion)

    def take_pod(event: Any) -> None:
        feed(POD_KIND, event, store.observe_pod, store.observe_pod_deletion)

    return {
        Watched(GROUP, VERSION, EXPERIMENT_PLURAL): take_experiment,
        Watched(GROUP, VERSION, TRIAL_PLURAL): take_trial,
        Watched("", "v1", "pods"): take_pod,
    }


def make_registry(handlers: dict[Watched, Handler]) -> kopf.OperatorRegistry:
    """A registry from which kopf learns how to log in, and what to watch."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    def register(watched: Watched, handle: Handler) -> None:
        @kopf.on.event(*watched, registry=registry)
        async def take(event: Any, **_: Any) -> None:
            handle(event)

    for watched, handle in handlers.items():
        register(watched, handle)
    return registry


def call_handlers_directly(handlers: dict[Watched, Handler], opt_ins: OptIns | None = None) -> None:
    """Has each watch of a kind that has a handler call it; see `queueing.watcher` of kopf for the arguments.

    Where namespaces opt in, Experiments are watched in the whole cluster, and all else in one namespace at a time.
    """

    async def watch(*, resource: Any, namespace: Any, settings: Any, operator_paused: Any = None, **_: Any) -> None:
        async def follow(namespace: Any) -> None:
            events = watching.infinite_watch(
                settings=settings, resource=resource, namespace=namespace, operator_paused=operator_paused
            )
            await _pass_on(events, handlers[Watched(resource.group, resource.version, resource.plural)])

        async def follow_while_allowed(namespace: str) -> None:
            try:
                await follow(namespace)
            except errors.APIForbiddenError as refusal:
                raise WatchForbidden(f"{resource.plural}: {refusal}") from refusal

        if opt_ins is None or resource.plural == EXPERIMENT_PLURAL:
            await follow(namespace)
        else:
            await opt_ins.follow(follow_while_allowed)

    vars(queueing)["watcher"] = watch


async def _pass_on(events: AsyncIterator[Any], handle: Handler) -> None:
    """Gives a watch's events to their handler."""
    async for event in events:
        if not isinstance(event, watching.Bookmark) and event["type"] != BOOKMARK:
            try:
                handle(event)
            except Exception:
                found = name_object(event["object"])
                log.exception(
                    "event not handled",
                    kind=found.kind,
                    namespace=found.namespace,
                    name=found.name,
                    experiment=found.experiment,
                )


def make_settings() -> kopf.OperatorSettings:
    """Kopf without everything that writes to the cluster or that another part of the operator does."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.posting.level = logging.CRITICAL
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.watching.label_selectors["v1", "pods"] = POD_SELECTOR
    settings.watching.chunk_size = LISTED_AT_A_TIME
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    return settings


async def run_kopf(
    handlers: dict[Watched, Handler], namespaces: Collection[str], ready: asyncio.Event, opt_ins: OptIns | None = None
) -> None:
    """Runs kopf until it is cancelled, or fails.

    Kopf takes SIGTERM and SIGINT for itself, so whoever wants them has to ask for them again once it is ready; and when
    it ends it cancels all tasks that were made after it had begun.

    Args:
        handlers: See `make_handlers`.
        namespaces: Namespaces to watch; none for all.
        ready: Is set when kopf has begun, and the watches are about to.
        opt_ins: Which namespaces have opted in; None where they need not.
    """
    call_handlers_directly(handlers, opt_ins)
    await kopf.operator(
        registry=make_registry(handlers),
        settings=make_settings(),
        clusterwide=not namespaces,
        namespaces=list(namespaces),
        standalone=True,
        ready_flag=ready,
    )
