"""All use of kopf: its handlers feed the store with watch events. Nothing is decided here.

Kopf logs in, lists, watches, and restarts a watch that has ended. Only its `@kopf.on.event` handlers are used: its
create, update and delete handlers, timers and daemons keep their own state in annotations and finalizers, which would
cost writes and could block a deletion. Kopf only logs what an event handler raises, so handlers raise nothing: the
store copes with any object.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any, cast

import kopf

from podtune.api.names import EXPERIMENT_KIND, EXPERIMENT_PLURAL, GROUP, TRIAL_KIND, TRIAL_PLURAL, VERSION
from podtune.controllers.store.store import Store
from podtune.controllers.watch.resync import POD_SELECTOR, Resync
from podtune.controllers.watch.watch_health import WatchHealth
from podtune.kube.manifests import Manifest

POD_KIND = "Pod"
DELETED = "DELETED"
LISTED = None
"""Type of the events that kopf makes from the list with which each watch starts or restarts."""

LISTED_AT_A_TIME = 100
"""Objects of a list that a watch begins with: kopf handles a part of a list at once, and results and the Lease wait."""
TASK_IDLE_SECONDS = 0.5
"""Kopf keeps a task for each object until so long after the object's last event."""

Take = Callable[[Manifest], None]


def make_registry(store: Store, health: WatchHealth, resync: Resync) -> kopf.OperatorRegistry:
    """A registry with one handler a kind, feeding this store."""
    registry = kopf.OperatorRegistry()

    def feed(kind: str, event: Any, seen: Take, gone: Take) -> None:
        body = event["object"]
        health.saw(kind, body)
        if event["type"] == DELETED:
            gone(body)
            return
        if event["type"] is LISTED:
            resync.call()
        seen(body)

    @kopf.on.login(registry=registry)
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    @kopf.on.event(GROUP, VERSION, EXPERIMENT_PLURAL, registry=registry)
    async def experiment_event(event: Any, **_: Any) -> None:
        feed(EXPERIMENT_KIND, event, store.observe_experiment, store.observe_experiment_deletion)

    @kopf.on.event(GROUP, VERSION, TRIAL_PLURAL, registry=registry)
    async def trial_event(event: Any, **_: Any) -> None:
        feed(TRIAL_KIND, event, store.observe_trial, store.observe_trial_deletion)

    @kopf.on.event("v1", "pods", registry=registry)
    async def pod_event(event: Any, **_: Any) -> None:
        feed(POD_KIND, event, store.observe_pod, store.observe_pod_deletion)

    return registry


def make_settings() -> kopf.OperatorSettings:
    """Kopf without everything that writes to the cluster or that another part of the operator does."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.posting.level = logging.CRITICAL
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.persistence.diffbase_storage = NoDiffs()
    settings.persistence.progress_storage = kopf.StatusProgressStorage(field="status.kopf")
    settings.queueing.idle_timeout = TASK_IDLE_SECONDS
    settings.watching.label_selectors["v1", "pods"] = POD_SELECTOR
    settings.watching.chunk_size = LISTED_AT_A_TIME
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    return settings


class NoDiffs(kopf.DiffBaseStorage):
    """Remembers no last state of an object: only change handlers need one, and there are none."""

    def build(
        self,
        *,
        body: kopf.Body,  # noqa: ARG002 - kopf's interface
        extra_fields: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> kopf.BodyEssence:
        """Nothing; by default kopf copies the whole object for it on every event."""
        return cast("kopf.BodyEssence", {})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:  # noqa: ARG002 - kopf's interface
        """Nothing is known."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Nothing is stored."""


async def run_kopf(registry: kopf.OperatorRegistry, namespaces: Collection[str], ready: asyncio.Event) -> None:
    """Runs kopf until it is cancelled, or fails.

    Kopf takes SIGTERM and SIGINT for itself, so whoever wants them has to ask for them again once it is ready; and when
    it ends it cancels all tasks that were made after it had begun.

    Args:
        registry: The handlers.
        namespaces: Namespaces to watch; none for all.
        ready: Is set when kopf has begun, and the watches are about to.
    """
    await kopf.operator(
        registry=registry,
        settings=make_settings(),
        clusterwide=not namespaces,
        namespaces=list(namespaces),
        standalone=True,
        ready_flag=ready,
    )
