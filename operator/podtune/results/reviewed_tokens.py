"""What the API server has said of bearer tokens, remembered for a while: those it knows, and those it refuses."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Generic, TypeVar

T = TypeVar("T")
V = TypeVar("V")


class TokenNotAccepted(Exception):
    """A token does not give its bearer what they want; the text says why."""


class ReviewedTokens(Generic[T]):
    """Has each token reviewed once in a while, and few at a time: a stranger may come with any number of wrong ones."""

    def __init__(
        self,
        review: Callable[[str], Awaitable[T]],
        monotonic: Callable[[], float],
        *,
        accepted_seconds: float,
        refused_seconds: float,
        most_accepted: int,
        most_refused: int,
        at_once: int,
        told_seconds: float = 0.0,
    ) -> None:
        """Makes one that knows of no token.

        Args:
            review: Asks the API server of a token; it raises `TokenNotAccepted` where the answer is no.
            monotonic: Seconds, for periods.
            accepted_seconds: How long a token that was accepted is believed without asking again.
            refused_seconds: How long one that was refused is refused so.
            most_accepted: How many accepted tokens are remembered.
            most_refused: How many refused ones are.
            at_once: Reviews under way at a time of tokens that nobody knows, and as many of tokens that are known.
            told_seconds: How long after that `recall` still tells of an accepted token, though nobody believes it.
        """
        self._review = review
        self._monotonic = monotonic
        self._accepted_seconds, self._refused_seconds = accepted_seconds, refused_seconds
        self._most_accepted, self._most_refused = most_accepted, most_refused
        self._told_seconds = told_seconds
        self._accepted: OrderedDict[bytes, tuple[float, T]] = OrderedDict()
        self._refused: OrderedDict[bytes, tuple[float, TokenNotAccepted]] = OrderedDict()
        """Apart, so that wrong tokens, however many, don't take the places of right ones. Never raised, but copies of
        them: what was raised keeps the whole request that it was raised for."""
        self._first_reviews, self._renewals = asyncio.Semaphore(at_once), asyncio.Semaphore(at_once)
        """Apart, so that strangers, with any number of tokens, keep nobody waiting who was known before."""

    async def look_up(self, header: str) -> T | None:
        """Finds out what the token of an Authorization header stands for; None where the header holds none.

        Raises:
            TokenNotAccepted: The token was refused, now or a moment ago.
            ApiError: The API server could not be asked.
        """
        token = _read_token(header)
        if not token:
            return None
        key = _make_key(token)
        if (found := self._recall(key)) is not None:
            return found
        async with self._renewals if key in self._accepted else self._first_reviews:
            if (found := self._recall(key)) is not None:
                return found  # it was reviewed for another request while this one waited
            try:
                found = await self._review(token)
            except TokenNotAccepted as refusal:
                self._remember(self._refused, key, copy(refusal), self._refused_seconds, self._most_refused)
                raise
            self._remember(
                self._accepted,
                key,
                found,
                self._accepted_seconds,
                self._most_accepted,
                told_seconds=self._told_seconds,
            )
        return found

    def recall(self, header: str) -> T | None:
        """What the token of a header stood for when it was reviewed last; None where that is not remembered.

        It may have been revoked since, so this tells who asks, and not whether they may.
        """
        token = _read_token(header)
        accepted = self._accepted.get(_make_key(token)) if token else None
        return accepted[1] if accepted is not None else None

    def _recall(self, key: bytes) -> T | None:
        """What a token stands for by its last review; None where that was too long ago, or there was none.

        Raises:
            TokenNotAccepted: It was refused a moment ago.
        """
        accepted = self._accepted.get(key)
        if accepted is not None and accepted[0] > self._monotonic():
            return accepted[1]
        refused = self._refused.get(key)
        if refused is not None and refused[0] > self._monotonic():
            raise copy(refused[1])
        return None

    def _remember(
        self,
        cache: OrderedDict[bytes, tuple[float, V]],
        key: bytes,
        value: V,
        seconds: float,
        most: int,
        *,
        told_seconds: float = 0.0,
    ) -> None:
        """Puts a value in for so many seconds, and takes out what is too old, or has been in longest of too many."""
        now = self._monotonic()
        cache[key] = (now + seconds, value)
        cache.move_to_end(key)
        while len(cache) > most or next(iter(cache.values()))[0] + told_seconds <= now:
            cache.popitem(last=False)


def _read_token(header: str) -> str:
    """The bearer token of an Authorization header; empty where it holds none."""
    scheme, _, token = header.partition(" ")
    return token if scheme.lower() == "bearer" and token.isascii() else ""


def _make_key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
