"""An identity of our own making; all replicas of the operator share its authorities, each has its own certificate."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from podtune.kube.errors import ApiError, ResourceConflict
from podtune.results.tls.authorities import Authorities, Leaf, UnusableAuthority, issue_leaf, renew
from podtune.results.tls.authority_secret import AuthoritySecret
from podtune.results.tls.chain import load_chain, make_server_context

log = structlog.get_logger(__name__)

LOOK_SECONDS = 600.0
"""How often the Secret is looked at: another operator may have put the next authority into it."""
_MAX_TRIES = 5


class OwnIdentity:
    """A certificate of our own making."""

    def __init__(self, secret: AuthoritySecret, host: str, now: Callable[[], float]) -> None:
        """Makes an identity that has no certificate before it is refreshed.

        Args:
            secret: Keeps the authorities; other replicas share it.
            host: By which name agents call the server.
            now: Seconds since the epoch.
        """
        self._secret = secret
        self._host = host
        self._now = now
        self._context = make_server_context()
        self._authorities: Authorities | None = None
        self._leaf: Leaf | None = None
        self._lock = asyncio.Lock()

    @property
    def context(self) -> ssl.SSLContext:
        """See `Identity.context`."""
        return self._context

    @property
    def trusted(self) -> str:
        """See `Identity.trusted`."""
        return self._authorities.trusted if self._authorities is not None else ""

    async def refresh(self) -> float:
        """See `Identity.refresh`."""
        async with self._lock:
            now = datetime.fromtimestamp(self._now(), UTC)
            authorities = await self._agree(now)
            is_new = self._authorities is None or authorities.signing != self._authorities.signing
            if self._leaf is None or is_new or now >= self._leaf.renewal:
                leaf = issue_leaf(authorities.signing, self._host, now)
                load_chain(self._context, leaf.certificate, leaf.key)
                self._leaf = leaf
                log.info("certificate of the results server made", host=self._host, renewal=leaf.renewal.isoformat())
            self._authorities = authorities
            left = (min(authorities.turn_ends, self._leaf.renewal) - now).total_seconds()
            return min(LOOK_SECONDS, max(left, 1.0))

    async def _agree(self, now: datetime) -> Authorities:
        """The authorities that the Secret holds, once it holds those that are due; of several replicas one writes."""
        for _ in range(_MAX_TRIES):
            kept = await self._load()
            due = renew(kept or self._authorities, now)
            if due == kept:
                return due
            try:
                await self._secret.save(due)
            except ResourceConflict:
                continue
            log.info("authorities of the results server replaced", turn_ends=due.turn_ends.isoformat())
            return due
        raise ApiError(f"{self._secret} was changed by somebody else {_MAX_TRIES} times in a row; find out by whom")

    async def _load(self) -> Authorities | None:
        try:
            return await self._secret.load()
        except UnusableAuthority as error:
            # Whatever agents trusted is lost; those that we still know are put back.
            log.error("authorities of the results server unusable", secret=str(self._secret), message=str(error))
            return None
