"""Whose reviews wait for whose: strangers keep no viewer waiting, and no viewer the others."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from dataclasses import fields

import pytest

from podtune.dashboard.access import reviews
from podtune.dashboard.access.review_cache import ReviewCache
from podtune.dashboard.access.reviews import Reviewer, Right, TokenRefused, TooManyLogins
from podtune.dashboard.access.viewer import Viewer
from tests.unit.dashboard.access.reviewing_api import ALICE, ROOT, Clock, ReviewingApi

WAIT = 30
WAITING = reviews.MOST_REVIEWS + 2  # more than there are threads
VIEWERS = WAITING + 2
Requests = list["asyncio.Task[Viewer]"]


@pytest.fixture
def api() -> ReviewingApi:
    return ReviewingApi()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reviewer(api: ReviewingApi, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reviewer]:
    monkeypatch.setattr(reviews, "MOST_VIEWERS", VIEWERS)
    monkeypatch.setattr(reviews, "MOST_WAITING", WAITING)
    reviewer = Reviewer(lambda: api, clock)
    yield reviewer
    api.gate.set()
    reviewer.close()


async def send_wrong_tokens(api: ReviewingApi, reviewer: Reviewer, count: int) -> Requests:
    api.held = "wrong"
    api.gate.clear()
    asked = [asyncio.create_task(reviewer.identify(f"wrong{number}")) for number in range(count)]
    await asyncio.sleep(0)  # each of them begins
    return asked


async def end(api: ReviewingApi, asked: Requests) -> list[type[BaseException]]:
    api.gate.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    return [type(answer) for answer in answers if isinstance(answer, BaseException)]


async def identify(reviewer: Reviewer, token: str) -> str:
    return (await asyncio.wait_for(reviewer.identify(token), WAIT)).name


async def test_who_was_let_in_before_does_not_queue_behind_strangers(
    api: ReviewingApi, reviewer: Reviewer, clock: Clock
) -> None:
    await identify(reviewer, ALICE)
    asked = await send_wrong_tokens(api, reviewer, WAITING)
    clock.now += reviews.ANSWER_SECONDS
    assert await identify(reviewer, ALICE) == "alice"
    with pytest.raises(TooManyLogins):
        await identify(reviewer, ROOT)
    assert await end(api, asked) == [TokenRefused] * WAITING
    assert await identify(reviewer, ROOT) == "root"


async def test_who_was_refused_queues_like_a_stranger(api: ReviewingApi, reviewer: Reviewer, clock: Clock) -> None:
    await identify(reviewer, ALICE)
    asked = await send_wrong_tokens(api, reviewer, WAITING)
    del api.users[ALICE]
    clock.now += reviews.ANSWER_SECONDS
    with pytest.raises(TokenRefused):
        await identify(reviewer, ALICE)
    with pytest.raises(TooManyLogins):
        await identify(reviewer, ALICE)
    await end(api, asked)


async def test_rights_do_not_queue_behind_strangers(api: ReviewingApi, reviewer: Reviewer) -> None:
    asked = await send_wrong_tokens(api, reviewer, WAITING)
    right = Right("list", "experiments", "team")
    assert await asyncio.wait_for(reviewer.allows(Viewer("alice"), right), WAIT)
    await end(api, asked)


async def test_tokens_that_are_turned_away_push_no_answer_out(api: ReviewingApi, reviewer: Reviewer) -> None:
    await identify(reviewer, ALICE)
    asked = await send_wrong_tokens(api, reviewer, WAITING + 20)
    assert await identify(reviewer, ALICE) == "alice"
    assert ALICE not in [spec.get("token") for spec in api.specs[1:]]
    assert (await end(api, asked)).count(TooManyLogins) == 20


async def test_only_so_many_who_were_let_in_are_remembered(api: ReviewingApi, reviewer: Reviewer, clock: Clock) -> None:
    for number in range(VIEWERS + 1):
        api.users[f"t{number}"] = f"u{number}"
        await identify(reviewer, f"t{number}")
    asked = await send_wrong_tokens(api, reviewer, WAITING)
    clock.now += reviews.ANSWER_SECONDS
    assert await identify(reviewer, f"t{VIEWERS}") == f"u{VIEWERS}"
    with pytest.raises(TooManyLogins):
        await identify(reviewer, "t0")
    await end(api, asked)


async def test_a_viewer_who_asks_for_much_keeps_others_waiting_for_a_few_reviews_only(
    api: ReviewingApi, reviewer: Reviewer
) -> None:
    api.gate.clear()
    rights = [Right("get", "experiments", "team", f"e{number}") for number in range(5 * reviews.MOST_REVIEWS)]
    much = [asyncio.create_task(reviewer.allows(Viewer("mallory"), right)) for right in rights]
    await asyncio.sleep(0)
    little = asyncio.create_task(reviewer.allows(Viewer("alice"), rights[0]))
    for _ in range(reviews.MOST_REVIEWS):
        await asyncio.to_thread(api.arrivals.acquire, timeout=WAIT)
    api.gate.set()
    await asyncio.gather(*much, little)
    assert "alice" in [spec["user"] for spec in api.specs[: 2 * reviews.MOST_REVIEWS]]


async def test_who_is_known_is_known_without_their_token(api: ReviewingApi, reviewer: Reviewer) -> None:
    token = f"{ALICE}-of-today"
    api.users[token] = "alice"
    viewer = await reviewer.identify(token)
    assert token not in {getattr(viewer, field.name) for field in fields(viewer)}


async def test_nothing_is_kept_of_an_answer_that_has_expired() -> None:
    clock = Clock()
    cache: ReviewCache[str, Viewer] = ReviewCache(reviews.ANSWER_SECONDS, VIEWERS, clock)

    async def ask(name: str) -> Viewer:
        return Viewer(name)

    await cache.get("gone", lambda: ask("gone"))
    clock.now += reviews.ANSWER_SECONDS / 2
    await cache.get("stays", lambda: ask("stays"))
    clock.now += reviews.ANSWER_SECONDS / 2
    await cache.get("comes", lambda: ask("comes"))
    gc.collect()
    kept = {item.name for item in gc.get_objects() if type(item) is Viewer}
    assert "gone" not in kept
    assert {"stays", "comes"} <= kept
