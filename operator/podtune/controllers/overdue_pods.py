"""Ends pods that are being deleted, whose program runs on, and whose agent has nothing to store.

The grace period of a pod with a store for checkpoints is the program's own and the time that its last checkpoint may
take. A program that ignores SIGTERM, as the first process of a container does unless it handles it, would hold its GPU
for all of that. So once its own part is over, and its agent has said that nothing waits to be stored, the pod is
deleted again with a short grace period: a later deletion may only shorten it. This holds for every pod of ours, whoever
deleted it, with or without its Experiment. Without an operator the grace period bounds it.

Not every kubelet heeds it: that of Kubernetes 1.34 lets a sidecar wait for the program for as long as the first
deletion said, and kills nothing meanwhile. So what the runner deletes has only the program's part to begin with,
where nothing is left to store (`runner/checkpoint_waits.py`).

A pod whose program has ended is left alone: its agent stores what is left, and takes no longer than it may. So is one
whose agent was not heard since the operator started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import structlog

from podtune.cluster.client import ClusterClient, Manifest
from podtune.cluster.errors import ApiError, ApiRefusal
from podtune.cluster.readers import GracePeriod, read_grace_period
from podtune.kube import paths
from podtune.protocol.messages import Unstored

log = structlog.get_logger(__name__)

LAST_SECONDS = 5
"""The grace period that such a pod is given."""
MARGIN = 1.0
"""Seconds after the program's part of the grace period: what it has reported in the end is on its way."""
RETRY_SECONDS = 10.0
"""Seconds until a deletion that has failed is tried again."""


@dataclass(slots=True)
class _Ending:
    """A pod that is being deleted and whose program runs.

    Attributes:
        pod: The pod.
        due: When the program's part of the grace period is over.
        wanted: The `seq` of the newest checkpoint that was reported by then; None before.
    """

    pod: GracePeriod
    due: float
    wanted: int | None = None


class OverduePods:
    """Knows the pods that are being deleted, and what the agents of all have left to store."""

    def __init__(self, client: ClusterClient, now: Callable[[], float]) -> None:
        """Knows of no pod yet.

        Args:
            client: The API server.
            now: The present time, in seconds since the epoch.
        """
        self._client = client
        self._now = now
        self._alive: set[str] = set()
        self._unstored: dict[str, Unstored | None] = {}
        self._endings: dict[str, _Ending] = {}
        self._changed = asyncio.Event()

    def seen(self, body: Manifest) -> None:
        """A pod was seen."""
        pod = read_grace_period(body)
        if pod is None:
            return
        if not pod.is_deleting:
            self._alive.add(pod.uid)
        elif not pod.program_runs or pod.given <= pod.own + LAST_SECONDS:
            self._endings.pop(pod.uid, None)
        elif pod.uid in self._endings:
            self._endings[pod.uid].pod = pod
        else:
            # The clock of who began to delete it may differ from ours: where we saw that, ours counts.
            since = self._now() if pod.uid in self._alive else min(pod.deleted, self._now())
            self._endings[pod.uid] = _Ending(pod, since + pod.own + MARGIN)
        self._changed.set()

    def gone(self, uid: str) -> None:
        """A pod is no longer there."""
        self._alive.discard(uid)
        self._unstored.pop(uid, None)
        self._endings.pop(uid, None)

    def heard(self, uid: str, unstored: Unstored | None) -> None:
        """The agent of a pod has reported."""
        if uid in self._alive or uid in self._endings:
            self._unstored[uid] = unstored
            if self._endings:
                self._changed.set()

    async def run(self) -> None:
        """Works for ever."""
        while True:
            self._changed.clear()
            for ending in list(self._overdue()):
                await self._end(ending)
            try:
                async with asyncio.timeout(self._until_next()):
                    await self._changed.wait()
            except TimeoutError:
                pass  # one is due

    def _until_next(self) -> float | None:
        now = self._now()
        waits = [ending.due - now for ending in self._endings.values() if ending.due > now]
        return min(waits, default=None)

    def _overdue(self) -> Iterator[_Ending]:
        now = self._now()
        for ending in self._endings.values():
            if ending.due <= now and self._has_nothing_to_store(ending):
                yield ending

    def _has_nothing_to_store(self, ending: _Ending) -> bool:
        """Whether all is stored, or given up, that had been reported by the end of the program's time."""
        if not ending.pod.agent_runs:
            return True
        leader = self._leader(ending.pod)
        if leader not in self._unstored:
            return False
        unstored = self._unstored[leader]
        if ending.wanted is None:
            ending.wanted = unstored.seq if unstored is not None else 0
        return unstored is None or not unstored.waits or unstored.since > ending.wanted

    def _leader(self, pod: GracePeriod) -> str:
        """The pod whose agent speaks for a pod: that of rank 0 of its gang."""
        if not pod.rank:
            return pod.uid
        gang = (other.pod for other in self._endings.values() if other.pod.attempt == pod.attempt)
        return next((member.uid for member in gang if not member.rank), "")

    async def _end(self, ending: _Ending) -> None:
        pod = ending.pod
        path = paths.pod(pod.namespace, pod.name)
        body = {"preconditions": {"uid": pod.uid}, "gracePeriodSeconds": LAST_SECONDS}
        try:
            await self._client.request("DELETE", path, body=body)
        except ApiError as error:
            if not (isinstance(error, ApiRefusal) and (error.is_not_found or error.is_conflict)):
                log.warning("overdue pod not ended", namespace=pod.namespace, pod=pod.name, error=str(error))
                ending.due = self._now() + RETRY_SECONDS
                return
        log.info("overdue pod ended", namespace=pod.namespace, pod=pod.name)
        self._endings.pop(pod.uid, None)
