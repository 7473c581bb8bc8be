"""Who may read the metrics: those whom Kubernetes lets get `/metrics`, as with its own components.

Metrics name the namespaces and experiments of all tenants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from podtune.cluster.client import ClusterClient
from podtune.kube.paths import ACCESS_REVIEWS, TOKEN_REVIEWS
from podtune.results.reviewed_tokens import ReviewedTokens, TokenNotAccepted

METRICS_ROUTE = "/metrics"
ALLOWED_SECONDS = 60.0
"""How long an answer is believed without asking again."""
DENIED_SECONDS = 5.0
MOST_READERS = 100
MOST_DENIED = 1000
_MAX_REVIEWS = 2
"""Reviews under way at a time: a stranger may come with any number of wrong tokens."""


class MetricsDenied(TokenNotAccepted):
    """Somebody may not read the metrics; the text says why.

    Attributes:
        is_known: Whether we know who it is.
    """

    def __init__(self, message: str, *, is_known: bool = False) -> None:
        super().__init__(message)
        self.is_known = is_known


class MetricsReaders:
    """Asks the API server who sends a token, and whether they may read the metrics; once a minute for each token."""

    def __init__(self, client: ClusterClient, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._tokens = ReviewedTokens(
            self._review,
            monotonic,
            accepted_seconds=ALLOWED_SECONDS,
            refused_seconds=DENIED_SECONDS,
            most_accepted=MOST_READERS,
            most_refused=MOST_DENIED,
            at_once=_MAX_REVIEWS,
        )

    async def check(self, header: str) -> None:
        """Looks whether the sender of an Authorization header may read the metrics.

        Raises:
            MetricsDenied: They may not.
            ApiError: The API server could not be asked.
        """
        if await self._tokens.look_up(header) is None:
            raise MetricsDenied("send the bearer token of an account that may get /metrics")

    async def _review(self, token: str) -> str:
        """Whose a token is that may read the metrics."""
        user = (await self._ask(TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token})).get("user")
        name = user.get("username") if isinstance(user, dict) else None
        if not isinstance(user, dict) or not name:
            raise MetricsDenied("the token is not valid")
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
        return str(name)

    async def _ask(self, path: str, version: str, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"apiVersion": version, "kind": kind, "spec": dict(spec)}
        answer = await self._client.request("POST", path, body=body, idempotent=True)
        status = answer.get("status")
        if not isinstance(status, dict) or (kind == "TokenReview" and status.get("authenticated") is not True):
            return {}
        return status
