"""Ends pods whose owner is gone, and terminating pods whose program keeps running.

The grace period of a pod with a store for checkpoints is the program's own and the time that its last checkpoint may
take. A program that ignores SIGTERM, as the first process of a container does unless it handles it, would hold its GPU
for all of that. So where nothing waits to be stored, as the pod's agent has said, a pod is given the program's part
alone (`runner/attempts/grace_periods.py`), and what counts is who deletes it first: the kubelet of Kubernetes 1.34 lets
a sidecar wait for the program for as long as the first deletion said, and kills nothing meanwhile.

- Pods whose Trial or Experiment is gone, or is being deleted, the garbage collector would delete with the whole grace
  period. So they are deleted here as soon as that is seen: it has several requests to make from an Experiment to its
  pods, and from a Trial one more than we. Where it comes first, or no operator runs, the whole grace period bounds it.
- A pod that somebody else has deleted, and whose program runs when its own part is over, is deleted again with a short
  grace period: a later deletion may only shorten it, and not every kubelet is as that one.

A pod whose program has ended is left alone: its agent stores what is left, and takes no longer than it may. So is one
whose agent was not heard since the operator started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import structlog

from podtune.cluster.client import ClusterClient, delete_exactly
from podtune.cluster.decoders import GracePeriod, decode_grace_period
from podtune.kube import paths
from podtune.kube.errors import ApiError
from podtune.kube.manifests import Manifest
from podtune.protocol.messages import Unstored
from podtune.runner.attempts import grace_periods

log = structlog.get_logger(__name__)

LAST_SECONDS = 5
"""The grace period that such a pod is given."""
MARGIN = 1.0
"""Seconds after the program's part of the grace period: what it has reported in the end is on its way."""
RETRY_SECONDS = 10.0
"""Seconds until a deletion that has failed is tried again."""
MAX_DELETIONS = 16
"""Deletions under way at a time."""


@dataclass(slots=True)
class _Ending:
    """A pod that is being deleted and whose program runs.

    Attributes:
        pod: The pod.
        due: When the program's part of the grace period is over.
        wanted: The `seq` of the newest checkpoint that was reported by then; None before.
        is_ended: Whether it is being deleted again.
    """

    pod: GracePeriod
    due: float
    wanted: int | None = None
    is_ended: bool = False


class OverduePods:
    """Knows the pods whose grace period is not their program's alone, and what their agents have left to store."""

    def __init__(self, client: ClusterClient, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._pods: dict[str, GracePeriod] = {}
        self._leaders: dict[tuple[str, str, str], str] = {}
        """By attempt: the pod whose agent speaks for all, that of rank 0."""
        self._unstored: dict[str, Unstored | None] = {}
        self._endings: dict[str, _Ending] = {}
        self._orphans: dict[str, int] = {}
        """The pods to delete because their owner is gone, and how long each is given."""
        self._changed = asyncio.Event()
        self._turns = asyncio.Semaphore(MAX_DELETIONS)

    def observe_pod(self, body: Manifest) -> None:
        """A pod was seen."""
        pod = decode_grace_period(body)
        if pod is None:
            return
        known = self._pods.get(pod.uid)
        self._pods[pod.uid] = pod
        if not pod.rank:
            self._leaders[pod.attempt] = pod.uid
        if not pod.is_deleting:
            return
        if not pod.program_runs or pod.given <= pod.own + LAST_SECONDS:
            self._endings.pop(pod.uid, None)
        elif pod.uid in self._endings:
            self._endings[pod.uid].pod = pod
        else:
            # The clock of who began to delete it may differ from ours: where we saw that, ours counts.
            was_alive = known is not None and not known.is_deleting
            since = self._now() if was_alive else min(pod.deleted, self._now())
            self._endings[pod.uid] = _Ending(pod, since + pod.own + MARGIN)
        self._changed.set()

    def forget_pod(self, uid: str) -> None:
        """A pod is no longer there, or no longer ours."""
        pod = self._pods.pop(uid, None)
        if pod is not None and self._leaders.get(pod.attempt) == uid:
            del self._leaders[pod.attempt]
        for known in (self._unstored, self._endings, self._orphans):
            known.pop(uid, None)

    def observe_agent(self, uid: str, unstored: Unstored | None) -> None:
        """The agent of a pod has reported."""
        if uid in self._pods:
            self._unstored[uid] = unstored
            if self._endings:
                self._changed.set()

    def observe_orphans(self, uids: Iterable[str]) -> None:
        """The owner of pods is gone, or is being deleted: the garbage collector is about to delete them."""
        for uid in uids:
            pod = self._pods.get(uid)
            if pod is None or pod.is_deleting:
                continue
            leader = self._find_leader(pod)
            grace = grace_periods.choose_for_deletion(
                int(pod.own),
                program_runs=pod.program_runs,
                heard=leader in self._unstored,
                unstored=self._unstored.get(leader),
            )
            if grace is not None:
                self._orphans[uid] = grace
                self._changed.set()

    async def run(self) -> None:
        """Works for ever."""
        async with asyncio.TaskGroup() as deletions:
            while True:
                self._changed.clear()
                for uid, grace in self._orphans.items():
                    deletions.create_task(self._end_orphan(self._pods[uid], grace))
                self._orphans.clear()
                for ending in self._list_overdue():
                    ending.is_ended = True
                    deletions.create_task(self._end_overdue(ending))
                try:
                    async with asyncio.timeout(self._compute_wait()):
                        await self._changed.wait()
                except TimeoutError:
                    pass  # one is due

    def _compute_wait(self) -> float | None:
        now = self._now()
        waits = [ending.due - now for ending in self._endings.values() if ending.due > now]
        return min(waits, default=None)

    def _list_overdue(self) -> Iterator[_Ending]:
        now = self._now()
        for ending in self._endings.values():
            if not ending.is_ended and ending.due <= now and self._has_nothing_to_store(ending):
                yield ending

    def _has_nothing_to_store(self, ending: _Ending) -> bool:
        """Whether all is stored, or given up, that had been reported by the end of the program's time."""
        if not ending.pod.agent_runs:
            return True
        leader = self._find_leader(ending.pod)
        if leader not in self._unstored:
            return False
        unstored = self._unstored[leader]
        if ending.wanted is None:
            ending.wanted = unstored.seq if unstored is not None else 0
        return unstored is None or not unstored.waits or unstored.since > ending.wanted

    def _find_leader(self, pod: GracePeriod) -> str:
        """The pod whose agent speaks for a pod: that of rank 0 of its gang."""
        return self._leaders.get(pod.attempt, "") if pod.rank else pod.uid

    async def _end_orphan(self, pod: GracePeriod, grace: int) -> None:
        try:
            await self._delete(pod, grace)
        except (ApiError, paths.PathError) as error:
            # By now the garbage collector has deleted it: the grace period bounds it.
            log.warning("pod without owner not ended", namespace=pod.namespace, pod=pod.name, message=str(error))
        else:
            log.info("pod without owner ended", namespace=pod.namespace, pod=pod.name, seconds=grace)

    async def _end_overdue(self, ending: _Ending) -> None:
        pod = ending.pod
        try:
            await self._delete(pod, LAST_SECONDS)
        except (ApiError, paths.PathError) as error:
            log.warning("overdue pod not ended", namespace=pod.namespace, pod=pod.name, message=str(error))
            ending.due, ending.is_ended = self._now() + RETRY_SECONDS, False
            self._changed.set()
        else:
            log.info("overdue pod ended", namespace=pod.namespace, pod=pod.name)
            self._endings.pop(pod.uid, None)

    async def _delete(self, pod: GracePeriod, grace: int) -> None:
        """Deletes a pod; one that is gone, or another of its name, is none of our business."""
        async with self._turns:
            await delete_exactly(self._client, paths.pod(pod.namespace, pod.name), pod.uid, grace)
