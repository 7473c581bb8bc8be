"""Leader election by a Lease; a label on the leader's pod routes the results Service to it.

The holder renews the Lease; a replica that finds it expired takes it over. Every write names the version that was read,
so of two that try at once one is refused. A holder that can't renew in time stops leading before anyone else can begin:
it counts from before its last successful request, the others from when they first saw that renewal.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from podtune.api.names import LABEL_LEADER
from podtune.cluster.client import MERGE, ClusterClient, list_pages, read_if_there
from podtune.kube import paths
from podtune.kube.errors import ApiError, ApiRefusal, ResourceConflict, ResourceExists, ResourceNotFound
from podtune.kube.manifests import Manifest

log = structlog.get_logger(__name__)

A_MOMENT = 0.02
"""Seconds after which a Lease that becomes free now certainly is."""


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Which Lease, who we are, and its times in seconds.

    Attributes:
        identity: Ours alone; a process that follows another one with the same identity takes its Lease over at once.
        duration: A Lease that was not renewed for this long is free.
        renew_every: How often the holder renews it.
        look_every: How often the others look at it, cut by up to a half at random: how late they see a renewal, which
            they count from.
        give_up_after: A holder that could not renew for this long no longer leads; below `duration`.
    """

    namespace: str
    name: str
    identity: str
    duration: float = 15.0
    renew_every: float = 3.0
    look_every: float = 2.0
    give_up_after: float = 10.0


class LeaseLost(Exception):
    """We led, and no longer do."""


class Lease:
    """Takes and holds a Lease."""

    def __init__(
        self, client: ClusterClient, settings: LeaseSettings, monotonic: Callable[[], float], rng: random.Random
    ) -> None:
        self._client = client
        self._settings = settings
        self._monotonic = monotonic
        self._rng = rng
        self._seen = ("", 0.0)
        """Somebody else's Lease: its version, and when it is free unless there is another by then."""
        self._held: Manifest | None = None
        self._renewed = 0.0

    @property
    def is_held(self) -> bool:
        """Whether we lead at this moment: nobody else can have taken the Lease over yet."""
        return self._held is not None and self._compute_time_left() > 0

    async def acquire(self) -> None:
        """Waits until the Lease is ours."""
        while True:
            asked = 0.0
            try:
                async with asyncio.timeout(self._settings.give_up_after):
                    if await self._try_to_take():
                        return
            except (ApiError, TimeoutError) as error:
                log.warning("lease not taken", lease=self._settings.name, message=str(error) or "no answer in time")
                asked = error.retry_after or 0.0 if isinstance(error, ApiRefusal) else 0.0
            await asyncio.sleep(self._draw_wait(asked))

    async def hold(self) -> None:
        """Renews the Lease for ever.

        Raises:
            LeaseLost: It was not renewed in time, or someone else has it.
        """
        while True:
            left = self._compute_time_left()
            if left <= 0:
                raise LeaseLost(f"the lease was not renewed for {self._settings.give_up_after:g} s")
            try:
                async with asyncio.timeout(left):
                    await self._renew()
            except (ApiError, TimeoutError) as error:
                log.warning("lease not renewed", message=str(error) or "no answer in time")
            await asyncio.sleep(min(self._settings.renew_every, max(0.0, self._compute_time_left())))

    async def release(self) -> None:
        """Gives the Lease back, so that the next leader need not wait for it to expire.

        Raises:
            ApiError: It could not be given back; it will expire.
        """
        held, self._held = self._held, None
        if held is None:
            return
        try:
            await self._give_back(held)
        except ResourceConflict:  # a renewal that was broken off had been carried out
            lease = await read_if_there(self._client, self._path) or {}
            if (lease.get("spec") or {}).get("holderIdentity") == self._settings.identity:
                await self._give_back(lease)

    async def _give_back(self, held: Manifest) -> None:
        body = held | {"spec": held["spec"] | {"holderIdentity": "", "renewTime": _format_now()}}
        await self._client.request("PUT", self._path, body=body)

    async def _try_to_take(self) -> bool:
        lease = await read_if_there(self._client, self._path)
        if lease is None:
            return await self._take({"metadata": {"name": self._settings.name}}, 0)
        if not self._is_free(lease):
            return False
        return await self._take(lease, int((lease.get("spec") or {}).get("leaseTransitions") or 0) + 1)

    async def _take(self, lease: Manifest, transitions: int) -> bool:
        """Writes ourselves into the Lease; whether nobody else was faster."""
        exists = "resourceVersion" in lease["metadata"]
        begun = self._monotonic()
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": lease["metadata"],
            "spec": {
                "holderIdentity": self._settings.identity,
                "leaseDurationSeconds": math.ceil(self._settings.duration),
                "acquireTime": _format_now(),
                "renewTime": _format_now(),
                "leaseTransitions": transitions,
            },
        }
        try:
            if exists:
                held = await self._client.request("PUT", self._path, body=body)
            else:
                held = await self._client.request("POST", paths.leases(self._settings.namespace), body=body)
        except (ResourceConflict, ResourceExists):
            return False
        self._held, self._renewed = held, begun
        return True

    def _is_free(self, lease: Manifest) -> bool:
        """Whether nobody holds it, or we, or the holder has not renewed for its duration by our own clock."""
        spec = lease.get("spec") or {}
        if (spec.get("holderIdentity") or "") in ("", self._settings.identity):
            return True
        version = lease["metadata"]["resourceVersion"]
        if version != self._seen[0]:
            duration = float(spec.get("leaseDurationSeconds") or self._settings.duration)
            self._seen = (version, self._monotonic() + duration)
            return False
        return self._monotonic() > self._seen[1]

    def _draw_wait(self, asked: float) -> float:
        """Seconds until the next look, which is no later than the moment at which the Lease becomes free.

        A server that asks for a longer wait gets it, as far as a Lease lasts.
        """
        wait = self._settings.look_every * (0.5 + 0.5 * self._rng.random())
        free_in = self._seen[1] - self._monotonic()
        if 0 <= free_in < wait:
            wait = free_in + A_MOMENT
        return max(wait, min(asked, self._settings.duration))

    async def _renew(self) -> None:
        assert self._held is not None  # acquired before
        begun = self._monotonic()
        body = self._held | {"spec": self._held["spec"] | {"renewTime": _format_now()}}
        try:
            self._held = await self._client.request("PUT", self._path, body=body)
        except (ResourceConflict, ResourceNotFound):
            await self._look_again()
        else:
            self._renewed = begun

    async def _look_again(self) -> None:
        """Somebody changed the Lease: it may have been ourselves, by a request whose answer was lost."""
        lease = await read_if_there(self._client, self._path) or {}
        holder = (lease.get("spec") or {}).get("holderIdentity") or ""
        if holder != self._settings.identity:
            self._held = None
            raise LeaseLost(f"the lease is held by {holder!r} now" if holder else "the lease was taken away")
        self._held = lease

    def _compute_time_left(self) -> float:
        """Seconds for which the last renewal still holds."""
        return self._renewed + self._settings.give_up_after - self._monotonic()

    @property
    def _path(self) -> str:
        return paths.lease(self._settings.namespace, self._settings.name)


def _format_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class LeaderLabel:
    """Puts the label that the results Service selects on our own pod, and takes it off others.

    Outside of a cluster it does nothing.
    """

    def __init__(self, client: ClusterClient, namespace: str, pod: str) -> None:
        self._client = client
        self._namespace = namespace
        self._pod = pod

    async def take(self) -> None:
        """We lead: the label comes off all others first, so that no result goes to two."""
        if not self._pod:
            return
        selector = {"labelSelector": f"{LABEL_LEADER}=true"}
        async for page in list_pages(self._client, paths.pods(self._namespace), selector):
            for other in page["items"]:
                if other["metadata"]["name"] != self._pod:
                    await self._set(other["metadata"]["name"], None)
        await self._set(self._pod, "true")

    async def drop(self) -> None:
        """We do not lead, or no longer."""
        if self._pod:
            await self._set(self._pod, None)

    async def _set(self, name: str, value: str | None) -> None:
        body = {"metadata": {"labels": {LABEL_LEADER: value}}}
        with contextlib.suppress(ResourceNotFound):
            await self._client.request("PATCH", paths.pod(self._namespace, name), body=body, content_type=MERGE)
