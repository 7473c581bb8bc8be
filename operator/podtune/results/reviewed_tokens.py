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
    ) -> None:
        """Makes one that knows of no token.

        Args:
            review: Asks the API server of a token; it raises `TokenNotAccepted` where the answer is no.
            monotonic: Seconds, for periods.
            accepted_seconds: How long a token that was accepted is believed without asking again.
            refused_seconds: How long one that was refused is refused so.
            most_accepted: How many accepted tokens are remembered.
            most_refused: How many refused ones are.
            at_once: Reviews under way at a time.
        """
        self._review = review
        self._monotonic = monotonic
        self._accepted_seconds, self._refused_seconds = accepted_seconds, refused_seconds
        self._most_accepted, self._most_refused = most_accepted, most_refused
        self._accepted: OrderedDict[bytes, tuple[float, T]] = OrderedDict()
        self._refused: OrderedDict[bytes, tuple[float, TokenNotAccepted]] = OrderedDict()
        """Apart, so that wrong tokens, however many, don't take the places of right ones. Never raised, but copies of
        them: what was raised keeps the whole request that it was raised for."""
        self._turns = asyncio.Semaphore(at_once)

    async def look_up(self, header: str) -> T | None:
        """Finds out what the token of an Authorization header stands for; None where the header holds none.

        Raises:
            TokenNotAccepted: The token was refused, now or a moment ago.
            ApiError: The API server could not be asked.
        """
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token or not token.isascii():
            return None
        key = hashlib.sha256(token.encode()).digest()
        if (found := self._recall(key)) is not None:
            return found
        async with self._turns:
            if (found := self._recall(key)) is not None:
                return found  # it was reviewed for another request while this one waited
            try:
                found = await self._review(token)
            except TokenNotAccepted as refusal:
                self._remember(self._refused, key, copy(refusal), self._refused_seconds, self._most_refused)
                raise
            self._remember(self._accepted, key, found, self._accepted_seconds, self._most_accepted)
        return found

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
        self, cache: OrderedDict[bytes, tuple[float, V]], key: bytes, value: V, seconds: float, most: int
    ) -> None:
        """Puts a value in for so many seconds, and takes out what is too old, or has been in longest of too many."""
        now = self._monotonic()
        cache[key] = (now + seconds, value)
        cache.move_to_end(key)
        while len(cache) > most or next(iter(cache.values()))[0] <= now:
            cache.popitem(last=False)
