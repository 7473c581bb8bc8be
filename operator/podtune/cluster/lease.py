"""One leader at a time, by a Lease.

The holder renews the Lease; whoever finds it expired takes it over. Every write names the version that was read, so of
two that try at once one is refused. A holder that can't renew in time stops leading before anyone else can begin:
it counts from before its last successful request, the others from when they first saw that renewal.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from podtune.cluster import paths
from podtune.cluster.client import ClusterClient, Manifest
from podtune.cluster.errors import ApiError, ApiRefusal

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Which Lease, who we are, and its times in seconds.

    Attributes:
        duration: A Lease that was not renewed for this long is free.
        renew_every: How often the holder renews it.
        give_up_after: A holder that could not renew for this long no longer leads; below `duration`.
    """

    namespace: str
    name: str
    identity: str
    duration: float = 15.0
    renew_every: float = 3.0
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
        self._held: Manifest = {}

    async def acquire(self) -> None:
        """Waits until the Lease is ours."""
        while True:
            try:
                if await self._try_to_take():
                    return
            except ApiError as error:
                log.warning("lease not taken", lease=self._settings.name, error=str(error))
            await asyncio.sleep(self._settings.renew_every * (0.5 + 0.5 * self._rng.random()))

    async def hold(self) -> None:
        """Renews the Lease for ever.

        Raises:
            LeaseLost: It was not renewed in time, or someone else has it.
        """
        renewed = self._monotonic()
        while True:
            await asyncio.sleep(self._settings.renew_every)
            begun = self._monotonic()
            left = renewed + self._settings.give_up_after - begun
            if left <= 0:
                raise LeaseLost(f"the lease was not renewed for {self._settings.give_up_after:g} s")
            try:
                async with asyncio.timeout(left):
                    await self._renew()
            except TimeoutError as error:
                raise LeaseLost(f"the lease was not renewed for {self._settings.give_up_after:g} s") from error
            except ApiRefusal as refusal:
                if refusal.is_conflict or refusal.is_not_found:
                    raise LeaseLost("someone else changed the lease") from refusal
                log.warning("lease not renewed", error=str(refusal))
            except ApiError as error:
                log.warning("lease not renewed", error=str(error))
            else:
                renewed = begun

    async def release(self) -> None:
        """Gives the Lease back, so that the next leader need not wait for it to expire."""
        if self._held:
            self._held["spec"]["holderIdentity"] = ""
            await self._renew()
            self._held = {}

    async def _try_to_take(self) -> bool:
        collection = paths.leases(self._settings.namespace)
        try:
            lease = await self._client.request("GET", f"{collection}/{self._settings.name}")
        except ApiRefusal as refusal:
            if not refusal.is_not_found:
                raise
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._settings.name}}
            lease["spec"] = self._spec(0)
            self._held = await self._client.request("POST", collection, body=lease)
            return True
        if not self._is_free(lease):
            return False
        lease["spec"] = self._spec(int(lease["spec"].get("leaseTransitions") or 0) + 1)
        self._held = await self._client.request("PUT", f"{collection}/{self._settings.name}", body=lease)
        return True

    def _is_free(self, lease: Manifest) -> bool:
        """Whether the holder has not renewed for the Lease's duration, by our own clock."""
        spec = lease.get("spec") or {}
        if not spec.get("holderIdentity"):
            return True
        version = lease["metadata"]["resourceVersion"]
        if version != self._seen[0]:
            self._seen = (version, self._monotonic())
            return False
        return self._monotonic() - self._seen[1] > float(spec.get("leaseDurationSeconds") or self._settings.duration)

    async def _renew(self) -> None:
        self._held["spec"]["renewTime"] = _now()
        path = f"{paths.leases(self._settings.namespace)}/{self._settings.name}"
        self._held = await self._client.request("PUT", path, body=self._held)

    def _spec(self, transitions: int) -> Manifest:
        return {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": int(self._settings.duration),
            "acquireTime": _now(),
            "renewTime": _now(),
            "leaseTransitions": transitions,
        }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
