"""The kopf handlers: what the watches bring goes into the store. Nothing is decided here.

Only raw event handlers are used: kopf's create, update and delete handlers, timers and daemons keep their own state in
annotations and finalizers, which would cost writes and could block a deletion.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

import kopf

from podtune.api.names import EXPERIMENT_PLURAL, GROUP, LABEL_MANAGED_BY, LABEL_TRIAL, MANAGED_BY, TRIAL_PLURAL, VERSION
from podtune.cluster import readers
from podtune.controllers.store import Store
from podtune.controllers.watch_health import WatchHealth

DELETED = "DELETED"


def make_registry(store: Store, health: WatchHealth) -> kopf.OperatorRegistry:
    """A registry with one handler a kind, feeding this store."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    @kopf.on.event(GROUP, VERSION, EXPERIMENT_PLURAL, registry=registry)
    async def experiment_event(event: Any, **_: Any) -> None:
        body = event["object"]
        if event["type"] == DELETED:
            health.forget(body["metadata"]["uid"])
            store.experiment_gone(body)
        else:
            health.saw(body["metadata"]["uid"], readers.version_of(body))
            store.experiment(body)

    @kopf.on.event(GROUP, VERSION, TRIAL_PLURAL, registry=registry)
    async def trial_event(event: Any, **_: Any) -> None:
        body = event["object"]
        if event["type"] == DELETED:
            health.forget(body["metadata"]["uid"])
            store.trial_gone(body)
        else:
            health.saw(body["metadata"]["uid"], readers.version_of(body))
            store.trial(body)

    labels: dict[str, Any] = {LABEL_MANAGED_BY: MANAGED_BY, LABEL_TRIAL: kopf.PRESENT}

    @kopf.on.event("v1", "pods", labels=labels, registry=registry)
    async def pod_event(event: Any, **_: Any) -> None:
        body = event["object"]
        if event["type"] == DELETED:
            health.forget(body["metadata"]["uid"])
            store.pod(body, gone=True)
        else:
            health.saw(body["metadata"]["uid"], readers.version_of(body))
            store.pod(body)

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
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    return settings


class NoDiffs(kopf.DiffBaseStorage):
    """Remembers no last state of an object: only change handlers need one, and there are none."""

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:  # noqa: ARG002 - kopf's interface
        """Nothing is known."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Nothing is stored."""


async def watch(registry: kopf.OperatorRegistry, namespaces: Collection[str], ready: Any, stop: Any) -> None:
    """Runs kopf until `stop` is set.

    Args:
        registry: The handlers.
        namespaces: Namespaces to watch; none for all.
        ready: An event that is set when the watches are on.
        stop: An event that ends it.
    """
    await kopf.operator(
        registry=registry,
        settings=make_settings(),
        clusterwide=not namespaces,
        namespaces=list(namespaces),
        standalone=True,
        ready_flag=ready,
        stop_flag=stop,
    )
