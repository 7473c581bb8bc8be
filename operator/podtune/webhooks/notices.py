"""Tells administrators, by Events in the operator's own namespace, what a receiver of webhooks will never hear."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum

import structlog

from podtune.cluster.client import MERGE, ClusterClient
from podtune.cluster.events import count_again, make_config_map_warning
from podtune.cluster.record_store import RecordStore
from podtune.kube import paths
from podtune.kube.errors import ApiError, ResourceExists, ResourceNotFound

log = structlog.get_logger(__name__)

NOTICE_SECONDS = 60.0
"""How often the same is said, at most."""


class WebhookReason(StrEnum):
    """Reasons of the Events."""

    GIVEN_UP = "WebhookGivenUp"
    MISSED = "WebhookEventsMissed"
    ENDED = "WebhookEnded"


class Notices:
    """The Events about one receiver, which are about the ConfigMap of its positions.

    There is one for each reason. It is counted if it comes again, and made anew once the API server has dropped it.
    """

    def __init__(self, client: ClusterClient, store: RecordStore, receiver: str, now: Callable[[], float]) -> None:
        self._client = client
        self._store = store
        self._receiver = receiver
        self._now = now
        self._waiting: dict[WebhookReason, str] = {}
        self._counts: Counter[WebhookReason] = Counter()
        self._news = asyncio.Event()

    def add(self, reason: WebhookReason, note: str) -> None:
        """Something has happened that an administrator is to know."""
        self._waiting[reason] = note
        self._news.set()

    async def run(self) -> None:
        """Emits what there is, until it is cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                reason = next(iter(self._waiting))
                await self._emit(reason, f"Receiver {self._receiver}: {self._waiting.pop(reason)}")
            await asyncio.sleep(NOTICE_SECONDS)

    async def _emit(self, reason: WebhookReason, note: str) -> None:
        try:
            await self._create_or_count(reason, note)
        except ApiError as error:
            log.warning("event about a webhook not written", receiver=self._receiver, reason=reason, error=str(error))

    async def _create_or_count(self, reason: WebhookReason, note: str) -> None:
        namespace, now = self._store.namespace, self._format_now()
        config_map = {"namespace": namespace, "name": self._store.name, "uid": self._store.uid}
        body = make_config_map_warning(config_map, reason, note, now)
        self._counts[reason] += 1
        try:
            await self._client.request("POST", paths.events(namespace), body=body)
        except ResourceExists:
            count = max(2, self._counts[reason])
            path = paths.event(namespace, body["metadata"]["name"])
            try:
                await self._client.request("PATCH", path, body=count_again(count, now), content_type=MERGE)
            except ResourceNotFound:  # it has just expired
                await self._client.request("POST", paths.events(namespace), body=body)
        else:
            self._counts[reason] = 1

    def _format_now(self) -> str:
        return datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
