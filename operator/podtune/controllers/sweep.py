"""Lists everything that is there: at the start, to know it all; then once in a while, since watches lose deletions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection

import structlog

from podtune.api.names import LABEL_MANAGED_BY, MANAGED_BY
from podtune.cluster import paths
from podtune.cluster.client import ClusterClient, Manifest, list_pages
from podtune.cluster.errors import ApiError
from podtune.controllers.store import Store

log = structlog.get_logger(__name__)

PERIOD = 300.0
"""Seconds between two sweeps, cut by up to a fifth at random."""
POD_SELECTOR = {"labelSelector": f"{LABEL_MANAGED_BY}={MANAGED_BY},podtune.dev/trial"}


class Sweep:
    """Marks what a list still holds, and sweeps out of the store what it does not."""

    def __init__(self, client: ClusterClient, store: Store, namespaces: Collection[str], rng: random.Random) -> None:
        """Makes a sweep.

        Args:
            client: The API server.
            store: What is known.
            namespaces: Namespaces to look into; none for all.
            rng: Draws the jitter.
        """
        self._client = client
        self._store = store
        self._namespaces = list(namespaces) or [""]
        self._rng = rng

    async def first(self) -> None:
        """Fills the store.

        Raises:
            ApiError: The API server could not be asked.
        """
        await self._sweep()
        self._store.synced()

    async def run(self) -> None:
        """Sweeps for ever; one that fails is made up for by the next."""
        while True:
            await asyncio.sleep(PERIOD * (1 - 0.2 * self._rng.random()))
            try:
                await self._sweep()
            except ApiError as error:
                log.warning("sweep failed", error=str(error))

    async def _sweep(self) -> None:
        """Lists owners before what they own.

        What the store knew before the list began and the list does not hold is gone; what was made meanwhile is not.
        """
        known_pods = {uid: dict(entry.pods) for uid, entry in self._store.entries()}
        known_trials = {uid: dict(entry.trials) for uid, entry in self._store.entries()}
        known = {uid: entry.experiment for uid, entry in self._store.entries()}
        experiments = await self._collect(paths.experiments, self._store.experiment, {})
        trials = await self._collect(paths.trials, self._store.trial, {})
        pods = await self._collect(paths.pods, self._store.pod, POD_SELECTOR)
        for uid, experiment in known.items():
            if uid not in experiments:
                log.info("experiment had vanished", experiment=experiment.name)
                self._store.experiment_gone({"metadata": {"uid": uid}})
        for uid, members in known_trials.items():
            for trial in members.values():
                if trial.uid not in trials:
                    self._store.trial_vanished(uid, trial.name, trial.uid)
        for uid, pods_of in known_pods.items():
            for pod in pods_of.values():
                if pod.uid not in pods:
                    self._store.pod_vanished(uid, pod.name)

    async def _collect(
        self, path: Callable[[str], str], take: Callable[[Manifest], None], params: dict[str, str]
    ) -> set[str]:
        """Feeds a collection to the store; returns the UIDs in it."""
        uids = set()
        async for item in self._items(path, params):
            take(item)
            uids.add(item["metadata"]["uid"])
        return uids

    async def _items(self, path: Callable[[str], str], params: dict[str, str]) -> AsyncIterator[Manifest]:
        for namespace in self._namespaces:
            async for page in list_pages(self._client, path(namespace), params):
                for item in page["items"]:
                    yield item
                await asyncio.sleep(0)  # a large list must not hold up the event loop
