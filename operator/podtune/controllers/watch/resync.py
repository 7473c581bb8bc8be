"""Lists all objects: first to fill the store, then once in a while, because watches lose deletions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping

import structlog

from podtune.api.names import LABEL_EXPERIMENT, LABEL_MANAGED_BY, MANAGED_BY
from podtune.cluster.client import ClusterClient, list_pages
from podtune.controllers.store.store import Store
from podtune.kube import paths
from podtune.kube.errors import ApiError
from podtune.kube.manifests import Manifest

log = structlog.get_logger(__name__)

PERIOD = 300.0
"""Seconds between two resyncs, cut by up to a fifth at random."""
RESYNC_SOON = 10.0
"""Seconds until a resync that something calls for, so that many calls make one resync."""
SETTLE = 5.0
"""Seconds that the watches are given to tell of an end that a list knows of already: they tell more of it."""
AT_A_TIME = 50
"""Objects of a list that are read without letting anything else in between: ten milliseconds."""
POD_SELECTOR = f"{LABEL_MANAGED_BY}={MANAGED_BY},{LABEL_EXPERIMENT}"
"""Labels of the pods of experiments: those of trials, and those that work in the bucket."""


class Resync:
    """Feeds the store with what a list holds, and takes out of the store what it does not."""

    def __init__(self, client: ClusterClient, store: Store, namespaces: Collection[str], rng: random.Random) -> None:
        """Makes a resync of these namespaces; none for all."""
        self._client = client
        self._store = store
        self._namespaces = list(namespaces) or [""]
        self._rng = rng
        self._called = asyncio.Event()

    def call(self) -> None:
        """Requests a resync: a watch has restarted and will never report what was deleted in between."""
        self._called.set()

    async def run_first(self) -> None:
        """Fills the store.

        Raises:
            ApiError: The API server could not be asked.
        """
        await self._list()
        self._store.mark_synced()

    async def run(self) -> None:
        """Resyncs for ever; one that fails is made up for by the next."""
        while True:
            try:
                async with asyncio.timeout(PERIOD * (1 - 0.2 * self._rng.random())):
                    await self._called.wait()
                await asyncio.sleep(RESYNC_SOON)
            except TimeoutError:
                pass  # nobody has called
            self._called.clear()
            try:
                await self._resync()
            except ApiError as error:
                log.warning("resync failed", error=str(error))

    async def _resync(self) -> None:
        """What was known before the lists began and is in none of them is gone; what was made meanwhile is not."""
        known = self._store.list_uids()
        vanished = known - await self._list()
        if not vanished:
            return
        await asyncio.sleep(SETTLE)
        missed = vanished & self._store.list_uids()
        if missed:
            log.info("deletions had been missed", objects=len(missed))
        for uid in missed:
            self._store.on_missing(uid)

    async def _list(self) -> set[str]:
        """Feeds everything to the store, owners before what they own; returns all UIDs."""
        return {
            *await self._feed(paths.experiments, self._store.observe_experiment, {}),
            *await self._feed(paths.trials, self._store.observe_trial, {}),
            *await self._feed(paths.pods, self._store.observe_pod, {"labelSelector": POD_SELECTOR}),
        }

    async def _feed(
        self, path: Callable[[str], str], take: Callable[[Manifest], None], params: Mapping[str, str]
    ) -> set[str]:
        uids = set()
        async for page in self._list_pages(path, params):
            for number, item in enumerate(page["items"], 1):
                take(item)
                uids.add(item["metadata"]["uid"])
                if number % AT_A_TIME == 0:
                    await asyncio.sleep(0)  # a large list must not hold up results and the Lease
        return uids

    async def _list_pages(self, path: Callable[[str], str], params: Mapping[str, str]) -> AsyncIterator[Manifest]:
        for namespace in self._namespaces:
            async for page in list_pages(self._client, path(namespace), params):
                yield page
