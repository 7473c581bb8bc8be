"""Who is believed, for how long, and how often the API server is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podtune.kube.errors import ApiError
from podtune.results import authentication
from podtune.results.authentication import (
    CACHE_SECONDS,
    MAX_REVIEWS,
    REFUSED_SECONDS,
    Authenticator,
    Caller,
    Unauthenticated,
)
from tests.unit.cluster.fake_client import no_answer

AUDIENCE = "podtune.dev/results"


def review(**changes: Any) -> dict[str, Any]:
    """The API server's answer for the token of a pod."""
    user = {
        "username": "system:serviceaccount:team:default",
        "extra": {
            "authentication.kubernetes.io/pod-name": ["digits-0-1"],
            "authentication.kubernetes.io/pod-uid": ["p-1"],
        },
    }
    return {"authenticated": True, "audiences": [AUDIENCE], "user": user} | changes


class Reviews:
    """An API server that reviews tokens."""

    def __init__(self, status: dict[str, Any] | None = None) -> None:
        self.status = review() if status is None else status
        self.asked: list[str] = []
        self.error: ApiError | None = None
        self.under_way = self.most = 0

    async def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> dict[str, Any]:
        assert (method, path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
        assert body["spec"]["audiences"] == [AUDIENCE]
        self.asked.append(body["spec"]["token"])
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if self.error is not None:
            raise self.error
        return {"status": self.status}


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


def authenticator(reviews: Reviews, clock: Clock | None = None) -> Authenticator:
    return Authenticator(reviews, clock or Clock())  # type: ignore[arg-type]


async def test_a_token_tells_namespace_and_pod() -> None:
    assert await authenticator(Reviews()).authenticate("Bearer abc") == Caller("team", "digits-0-1", "p-1")


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic abc", "abc", "Bearer t\udcffken", "Bearer é"])
async def test_without_a_token_the_api_server_is_not_asked(header: str) -> None:
    reviews = Reviews()
    with pytest.raises(Unauthenticated):
        await authenticator(reviews).authenticate(header)
    assert reviews.asked == []


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({}, "not valid for the audience"),
        ({"authenticated": False, "error": "token has expired"}, "token has expired"),
        (review(audiences=["https://kubernetes.default.svc"]), "not valid for the audience"),
        (review(audiences=None), "not valid for the audience"),
        (review(user={"username": "system:serviceaccount:team:default"}), "not bound to a pod"),
        (
            review(user=review()["user"] | {"extra": {"authentication.kubernetes.io/pod-name": []}}),
            "not bound to a pod",
        ),
        (review(user=review()["user"] | {"username": "admin"}), "not bound to a pod"),
        (review(user=None), "not bound to a pod"),
    ],
)
async def test_what_proves_nothing_is_refused_with_the_reason(status: dict[str, Any], message: str) -> None:
    with pytest.raises(Unauthenticated, match=message):
        await authenticator(Reviews(status)).authenticate("Bearer abc")


def test_a_pod_that_is_deleted_is_believed_for_a_minute_at_most() -> None:
    assert 0 < CACHE_SECONDS <= 60


async def test_a_token_is_reviewed_again_after_a_while() -> None:
    reviews, clock = Reviews(), Clock()
    subject = authenticator(reviews, clock)
    for _ in range(100):
        await subject.authenticate("Bearer abc")
        clock.time += CACHE_SECONDS / 100 - 0.001
    assert len(reviews.asked) == 1
    clock.time += 1
    await subject.authenticate("Bearer abc")
    assert len(reviews.asked) == 2


async def test_an_api_server_that_is_away_does_not_make_a_token_invalid() -> None:
    reviews = Reviews()
    subject = authenticator(reviews)
    reviews.error = no_answer()
    with pytest.raises(ApiError):
        await subject.authenticate("Bearer abc")
    reviews.error = None
    assert await subject.authenticate("Bearer abc")


async def test_thousands_of_tokens_do_not_flood_the_api_server() -> None:
    reviews = Reviews()
    subject = authenticator(reviews)
    await asyncio.gather(*(subject.authenticate(f"Bearer {n}") for n in range(500)))
    assert reviews.most == MAX_REVIEWS


async def test_no_more_tokens_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "CACHE_SIZE", 3)
    reviews = Reviews()
    subject = authenticator(reviews)
    for token in ("a", "b", "c", "d", "d", "c", "a"):
        await subject.authenticate(f"Bearer {token}")
    assert reviews.asked == ["a", "b", "c", "d", "a"]
    assert len(subject._tokens._accepted) == 3


async def test_tokens_are_not_kept_as_they_are() -> None:
    subject = authenticator(Reviews())
    await subject.authenticate("Bearer secret-token")
    assert "secret-token" not in repr(subject._tokens._accepted)


async def test_a_token_that_was_refused_is_not_reviewed_again_at_once() -> None:
    reviews, clock = Reviews({"authenticated": False, "error": "token has expired"}), Clock()
    gate = authenticator(reviews, clock)
    for _ in range(50):
        with pytest.raises(Unauthenticated, match="token has expired"):
            await gate.authenticate("Bearer abc")
    assert len(reviews.asked) == 1
    clock.time += REFUSED_SECONDS
    reviews.status = review()
    assert await gate.authenticate("Bearer abc") == Caller("team", "digits-0-1", "p-1")


@pytest.mark.parametrize("status", [review(), {"authenticated": False}])
async def test_a_token_that_comes_a_thousand_times_at_once_is_reviewed_a_few_times(status: dict[str, Any]) -> None:
    reviews = Reviews(status)
    guard = authenticator(reviews)
    await asyncio.gather(*(guard.authenticate("Bearer abc") for _ in range(1000)), return_exceptions=True)
    assert len(reviews.asked) <= MAX_REVIEWS


async def test_wrong_tokens_do_not_drive_right_ones_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "CACHE_SIZE", 3)
    reviews = Reviews()
    gate = authenticator(reviews)
    await gate.authenticate("Bearer right")
    reviews.status = {}
    for number in range(10):
        with pytest.raises(Unauthenticated):
            await gate.authenticate(f"Bearer wrong-{number}")
    await gate.authenticate("Bearer right")
    assert reviews.asked.count("right") == 1
