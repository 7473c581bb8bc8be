"""Tells administrators, by Events in the operator's own namespace, what a receiver of webhooks will never hear."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum

import structlog

from podtune.cluster.client import ClusterClient
from podtune.cluster.events import make_config_map_warning, publish_event
from podtune.cluster.record_store import RecordStore
from podtune.kube.errors import ApiError

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
            config_map = {"namespace": self._store.namespace, "name": self._store.name, "uid": self._store.uid}
            body = make_config_map_warning(config_map, reason, note, self._format_now())
            await publish_event(self._client, body)
        except ApiError as error:
            log.warning(
                "event about a webhook not written", receiver=self._receiver, reason=str(reason), message=str(error)
            )

    def _format_now(self) -> str:
        return datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
