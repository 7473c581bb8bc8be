"""Authenticates agents: the projected token proves which pod an agent runs in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from podtune.api.names import TOKEN_AUDIENCE
from podtune.cluster.client import ClusterClient
from podtune.kube.paths import TOKEN_REVIEWS
from podtune.results.reviewed_tokens import ReviewedTokens, TokenNotAccepted

CACHE_SECONDS = 60.0
"""How long a token is believed without asking again; whose attempt is over is refused by the runner at once. A thousand
agents cost the API server 17 reviews a second."""
TOLD_SECONDS = 540.0
"""How long after that it is still known whose it was, for the order of requests: agents report more often."""
REFUSED_SECONDS = 5.0
"""How long a token that was refused is refused without asking again: long enough that trying it over and over costs the
API server nothing, and short enough for one that was looked at before its pod was known there."""
CACHE_SIZE = 20_000
MAX_REFUSED = 2_000
MAX_REVIEWS = 16
"""Reviews under way at a time: thousands of agents may come at once, and a stranger with as many wrong tokens. As many
more renew what was known."""
POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID_CLAIM = "authentication.kubernetes.io/pod-uid"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Caller:
    """The pod that a token was given to."""

    namespace: str
    pod: str
    uid: str


class Unauthenticated(TokenNotAccepted):
    """The token proves nothing; the text says why."""


class Authenticator:
    """Asks the API server whom a token belongs to, once in a while for each token."""

    def __init__(self, client: ClusterClient, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._tokens = ReviewedTokens(
            self._review,
            monotonic,
            accepted_seconds=CACHE_SECONDS,
            refused_seconds=REFUSED_SECONDS,
            most_accepted=CACHE_SIZE,
            most_refused=MAX_REFUSED,
            at_once=MAX_REVIEWS,
            told_seconds=TOLD_SECONDS,
        )

    async def authenticate(self, header: str) -> Caller:
        """Finds out who sent an Authorization header.

        Raises:
            Unauthenticated: It holds no token of ours that is valid.
            ApiError: The API server could not be asked.
        """
        caller = await self._tokens.look_up(header)
        if caller is None:
            raise Unauthenticated("no bearer token was sent")
        return caller

    def recall_namespace(self, header: str) -> str:
        """The namespace that an Authorization header came from when it was looked at last; empty where none is known.

        It is for the order of requests alone, before anybody is authenticated.
        """
        caller = self._tokens.recall(header)
        return caller.namespace if caller is not None else ""

    async def _review(self, token: str) -> Caller:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [TOKEN_AUDIENCE]},
        }
        answer = await self._client.request("POST", TOKEN_REVIEWS, body=review, idempotent=True)
        try:
            return _read_caller(answer.get("status") or {})
        except (AttributeError, LookupError, TypeError) as error:
            raise Unauthenticated("the review of the token can't be read") from error


def _read_caller(status: Mapping[str, Any]) -> Caller:
    """The pod that a reviewed token was given to."""
    if not status.get("authenticated") or TOKEN_AUDIENCE not in (status.get("audiences") or ()):
        raise Unauthenticated(status.get("error") or f"the token is not valid for the audience {TOKEN_AUDIENCE}")
    user = status.get("user") or {}
    username = user.get("username", "")
    pod, uid = _read_extra(user, POD_NAME), _read_extra(user, POD_UID_CLAIM)
    if not pod or not uid or not username.startswith(SERVICE_ACCOUNT_PREFIX):
        raise Unauthenticated("the token is not bound to a pod")
    return Caller(namespace=username.removeprefix(SERVICE_ACCOUNT_PREFIX).split(":")[0], pod=pod, uid=uid)


def _read_extra(user: Mapping[str, Any], key: str) -> str:
    values = (user.get("extra") or {}).get(key) or [""]
    return str(values[0])
