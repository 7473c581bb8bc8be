"""What is remembered of tokens takes no more memory, and for no longer, than it has to."""

from __future__ import annotations

import asyncio
import weakref

import pytest

from podtune.results.reviewed_tokens import ReviewedTokens, TokenNotAccepted


class Bearer:
    """Who a token belongs to."""


class Request:
    """What a server has of a request, such as its connection."""


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


async def review(token: str) -> Bearer:
    if token.startswith("wrong"):
        raise TokenNotAccepted("nobody knows it")
    return Bearer()


def make_tokens(clock: Clock) -> ReviewedTokens[Bearer]:
    limits = {"most_accepted": 100, "most_refused": 100, "at_once": 1}
    return ReviewedTokens(review, clock, accepted_seconds=60.0, refused_seconds=5.0, **limits)


async def handle(tokens: ReviewedTokens[Bearer], kept: list[weakref.ref[Request]]) -> None:
    """Handles a request whose token is wrong."""
    request = Request()
    kept.append(weakref.ref(request))
    await tokens.look_up("Bearer wrong")


@pytest.mark.parametrize("times", [1, 2], ids=["reviewed", "remembered"])
async def test_a_refused_request_is_not_kept(times: int) -> None:
    tokens, kept = make_tokens(Clock()), list[weakref.ref[Request]]()
    for _ in range(times):
        with pytest.raises(TokenNotAccepted, match="nobody knows it"):
            await handle(tokens, kept)
    assert [reference() for reference in kept] == [None] * times


async def test_what_is_too_old_is_forgotten_when_another_comes() -> None:
    clock = Clock()
    tokens = make_tokens(clock)
    found = [await tokens.look_up(f"Bearer {number}") for number in range(3)]
    references = [weakref.ref(bearer) for bearer in found if bearer is not None]
    del found
    clock.time = 59.0
    await tokens.look_up("Bearer another")
    assert len([reference for reference in references if reference() is not None]) == 3
    clock.time = 60.0
    await tokens.look_up("Bearer one more")
    assert [reference() for reference in references] == [None] * 3


async def test_whose_a_token_was_is_told_for_longer_than_it_is_believed() -> None:
    clock = Clock()
    limits = {"most_accepted": 100, "most_refused": 100, "at_once": 1}
    tokens = ReviewedTokens(review, clock, accepted_seconds=60.0, refused_seconds=5.0, told_seconds=30.0, **limits)
    assert tokens.recall("Bearer ours") is None
    bearer = await tokens.look_up("Bearer ours")
    clock.time = 89.0
    await tokens.look_up("Bearer another")
    assert tokens.recall("Bearer ours") is bearer
    assert [tokens.recall(header) for header in ("Bearer wrong", "ours", "")] == [None] * 3
    clock.time = 90.0
    await tokens.look_up("Bearer one more")
    assert tokens.recall("Bearer ours") is None


async def test_strangers_whose_reviews_take_long_keep_nobody_waiting_who_was_known_before() -> None:
    clock, reviewed = Clock(), list[str]()

    async def review_slowly(token: str) -> Bearer:
        reviewed.append(token)
        if token.startswith("wrong"):
            await asyncio.Event().wait()
        return Bearer()

    limits = {"most_accepted": 100, "most_refused": 100, "at_once": 1}
    tokens = ReviewedTokens(review_slowly, clock, accepted_seconds=60.0, refused_seconds=5.0, **limits)
    await tokens.look_up("Bearer ours")
    clock.time = 60.0
    strangers = [asyncio.create_task(tokens.look_up(f"Bearer wrong-{number}")) for number in range(10)]
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        assert await tokens.look_up("Bearer ours") is not None
    assert reviewed == ["ours", "wrong-0", "ours"]
    for stranger in strangers:
        stranger.cancel()
    await asyncio.gather(*strangers, return_exceptions=True)
