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

    def __init__(
        self,
        client: ClusterClient,
        store: Store,
        namespaces: Collection[str],
        rng: random.Random,
        list_opted_in: Callable[[], Collection[str]] | None = None,
    ) -> None:
        """Makes a resync.

        Args:
            client: Lists.
            store: Is fed.
            namespaces: Those with the Experiments that are served; none for all.
            rng: Draws the jitter.
            list_opted_in: Where only some namespaces of these have let us in: gives those. Nothing but Experiments is
                listed in others.
        """
        self._client = client
        self._store = store
        self._namespaces = list(namespaces) or [""]
        self._rng = rng
        self._list_opted_in = list_opted_in
        self._called = asyncio.Event()
        self._turn = asyncio.Lock()
        """Which namespaces are listed must not change during a resync: it would take their objects for gone."""

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
                async with self._turn:
                    await self._resync()
            except ApiError as error:
                log.warning("resync failed", message=str(error))

    async def take_up(self, namespace: str, finish: Callable[[], None]) -> None:
        """Feeds the store with what there is in a namespace whose Experiments it knows.

        Args:
            namespace: Its name.
            finish: Called when that is done, before the next resync: it lists the namespace, too.

        Raises:
            ApiError: The API server could not be asked, or refuses.
        """
        async with self._turn:
            await self._list_owned([namespace])
            finish()

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
        served = self._namespaces if self._list_opted_in is None else self._list_opted_in()
        return {
            *await self._feed(paths.experiments, self._store.observe_experiment, {}, self._namespaces),
            *await self._list_owned(served),
        }

    async def _list_owned(self, namespaces: Collection[str]) -> set[str]:
        """The same for what Experiments own."""
        return {
            *await self._feed(paths.trials, self._store.observe_trial, {}, namespaces),
            *await self._feed(paths.pods, self._store.observe_pod, {"labelSelector": POD_SELECTOR}, namespaces),
        }

    async def _feed(
        self,
        path: Callable[[str], str],
        take: Callable[[Manifest], None],
        params: Mapping[str, str],
        namespaces: Collection[str],
    ) -> set[str]:
        uids = set()
        async for page in self._list_pages(path, params, namespaces):
            for number, item in enumerate(page["items"], 1):
                take(item)
                uids.add(item["metadata"]["uid"])
                if number % AT_A_TIME == 0:
                    await asyncio.sleep(0)  # a large list must not hold up results and the Lease
        return uids

    async def _list_pages(
        self, path: Callable[[str], str], params: Mapping[str, str], namespaces: Collection[str]
    ) -> AsyncIterator[Manifest]:
        for namespace in namespaces:
            async for page in list_pages(self._client, path(namespace), params):
                yield page
