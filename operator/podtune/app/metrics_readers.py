"""Who may read the metrics: those whom Kubernetes lets get `/metrics`, as with its own components.

Metrics name the namespaces and experiments of all tenants.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from podtune.cluster.client import ClusterClient
from podtune.kube.paths import ACCESS_REVIEWS, TOKEN_REVIEWS

METRICS_ROUTE = "/metrics"
ALLOWED_SECONDS = 60.0
"""How long an answer is believed without asking again."""
DENIED_SECONDS = 5.0
MOST_READERS = 100
MOST_DENIED = 1000
_MAX_REVIEWS = 2
"""Reviews under way at a time: a stranger may come with any number of wrong tokens."""


class MetricsDenied(Exception):
    """Somebody may not read the metrics; the text says why.

    Attributes:
        is_known: Whether we know who it is.
    """

    def __init__(self, message: str, *, is_known: bool) -> None:
        super().__init__(message)
        self.is_known = is_known


class MetricsReaders:
    """Asks the API server who sends a token, and whether they may read the metrics; once a minute for each token."""

    def __init__(self, client: ClusterClient, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._monotonic = monotonic
        self._allowed: OrderedDict[bytes, float] = OrderedDict()
        self._denied: OrderedDict[bytes, tuple[float, MetricsDenied]] = OrderedDict()
        """Apart, so that wrong tokens, however many, don't take the places of right ones."""
        self._reviews = asyncio.Semaphore(_MAX_REVIEWS)

    async def check(self, header: str) -> None:
        """Looks whether the sender of an Authorization header may read the metrics.

        Raises:
            MetricsDenied: They may not.
            ApiError: The API server could not be asked.
        """
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token or not token.isascii():
            raise MetricsDenied("send the bearer token of an account that may get /metrics", is_known=False)
        key = hashlib.sha256(token.encode()).digest()
        if self._recall(key):
            return
        async with self._reviews:
            if self._recall(key):
                return  # it was reviewed for another request while this one waited
            try:
                await self._review(token)
            except MetricsDenied as denied:
                self._denied[key] = (self._monotonic() + DENIED_SECONDS, denied)
                _limit(self._denied, MOST_DENIED)
                raise
            self._allowed[key] = self._monotonic() + ALLOWED_SECONDS
            _limit(self._allowed, MOST_READERS)

    def _recall(self, key: bytes) -> bool:
        now = self._monotonic()
        if self._allowed.get(key, now) > now:
            return True
        until, denied = self._denied.get(key, (now, None))
        if denied is not None and until > now:
            raise MetricsDenied(str(denied), is_known=denied.is_known)
        self._allowed.pop(key, None)
        self._denied.pop(key, None)
        return False

    async def _review(self, token: str) -> None:
        user = (await self._ask(TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token})).get("user")
        name = user.get("username") if isinstance(user, dict) else None
        if not isinstance(user, dict) or not name:
            raise MetricsDenied("the token is not valid", is_known=False)
        spec = {
            "user": name,
            "groups": user.get("groups") or [],
            "uid": user.get("uid") or "",
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": METRICS_ROUTE, "verb": "get"},
        }
        answer = await self._ask(ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        if answer.get("allowed") is not True or answer.get("denied") is True:
            words = f"{name} may not get {METRICS_ROUTE}; bind the ClusterRole …-metrics-reader to it"
            raise MetricsDenied(words, is_known=True)

    async def _ask(self, path: str, version: str, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"apiVersion": version, "kind": kind, "spec": dict(spec)}
        answer = await self._client.request("POST", path, body=body, idempotent=True)
        status = answer.get("status")
        if not isinstance(status, dict) or (kind == "TokenReview" and status.get("authenticated") is not True):
            return {}
        return status


def _limit(cache: OrderedDict[bytes, Any], size: int) -> None:
    while len(cache) > size:
        cache.popitem(last=False)
