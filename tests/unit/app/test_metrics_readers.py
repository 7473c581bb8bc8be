"""Metrics are for those whom Kubernetes lets get them, and it is not asked at each scrape."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from podtune.app import metrics_readers as module
from podtune.app.metrics_readers import ALLOWED_SECONDS, DENIED_SECONDS, MetricsDenied, MetricsReaders
from podtune.app.servers import MetricsEndpoint
from podtune.kube.errors import ApiError
from podtune.kube.paths import ACCESS_REVIEWS, TOKEN_REVIEWS
from tests.unit.cluster.fake_client import no_answer

PROMETHEUS = "system:serviceaccount:monitoring:prometheus"


class Reviewer:
    """The API server: knows tokens, and who may get `/metrics`."""

    def __init__(self) -> None:
        self.users: dict[str, dict[str, Any]] = {
            "t-prometheus": {"username": PROMETHEUS, "uid": "u-1", "groups": ["system:serviceaccounts"], "extra": {}},
            "t-other": {"username": "system:serviceaccount:team:default"},
        }
        self.asked: list[dict[str, Any]] = []
        self.error: ApiError | None = None
        self.answer: dict[str, Any] | None = None

    async def request(self, method: str, path: str, *, body: Any = None, idempotent: bool = False) -> dict[str, Any]:
        assert (method, idempotent) == ("POST", True)
        await asyncio.sleep(0)
        self.asked.append(body)
        if self.error is not None:
            raise self.error
        if self.answer is not None:
            return self.answer
        spec = body["spec"]
        if path == TOKEN_REVIEWS:
            user = self.users.get(spec["token"])
            return {"status": {"authenticated": True, "user": user} if user else {"error": "invalid bearer token"}}
        assert path == ACCESS_REVIEWS
        return {"status": {"allowed": spec["user"] == PROMETHEUS}}

    def count(self, kind: str) -> int:
        return sum(body["kind"] == kind for body in self.asked)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def reviewer() -> Reviewer:
    return Reviewer()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def readers(reviewer: Reviewer, clock: Clock) -> MetricsReaders:
    return MetricsReaders(reviewer, clock)  # type: ignore[arg-type]


async def is_allowed(readers: MetricsReaders, token: str) -> bool:
    try:
        await readers.check(f"Bearer {token}")
    except MetricsDenied:
        return False
    return True


async def test_kubernetes_is_asked_about_the_very_user_of_the_token(
    readers: MetricsReaders, reviewer: Reviewer
) -> None:
    await readers.check("Bearer t-prometheus")
    token, access = reviewer.asked
    assert token["spec"] == {"token": "t-prometheus"}
    assert access["spec"] == {
        "user": PROMETHEUS,
        "uid": "u-1",
        "groups": ["system:serviceaccounts"],
        "extra": {},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


async def test_an_answer_is_believed_for_a_minute(readers: MetricsReaders, reviewer: Reviewer, clock: Clock) -> None:
    assert await is_allowed(readers, "t-prometheus")
    clock.now += ALLOWED_SECONDS - 0.1
    reviewer.users.clear()
    assert await is_allowed(readers, "t-prometheus")
    assert len(reviewer.asked) == 2
    clock.now += 0.1
    assert not await is_allowed(readers, "t-prometheus"), "the right was taken away"


async def test_a_refusal_is_believed_for_moments(readers: MetricsReaders, reviewer: Reviewer, clock: Clock) -> None:
    assert not await is_allowed(readers, "t-late")
    reviewer.users["t-late"] = reviewer.users["t-prometheus"]
    assert not await is_allowed(readers, "t-late")
    assert len(reviewer.asked) == 1
    clock.now += DENIED_SECONDS
    assert await is_allowed(readers, "t-late")


@pytest.mark.parametrize("header", ["", "Basic YTpi", "Bearer ", "t-prometheus", "Bearer ü"])
async def test_without_a_token_nobody_is_asked(readers: MetricsReaders, reviewer: Reviewer, header: str) -> None:
    with pytest.raises(MetricsDenied, match="send the bearer token"):
        await readers.check(header)
    assert reviewer.asked == []


@pytest.mark.parametrize("status", [None, [], {}, {"authenticated": True}, {"authenticated": True, "user": []}])
async def test_an_answer_that_says_nothing_allows_nothing(
    readers: MetricsReaders, reviewer: Reviewer, status: Any
) -> None:
    reviewer.answer = {"status": status}
    assert not await is_allowed(readers, "t-prometheus")


async def test_wrong_tokens_are_forgotten_and_take_no_ones_place(
    readers: MetricsReaders, reviewer: Reviewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers._tokens, "_most_refused", 3)
    assert await is_allowed(readers, "t-prometheus")
    for number in range(10):
        assert not await is_allowed(readers, f"wrong-{number}")
    assert len(readers._tokens._refused) == 3
    asked = len(reviewer.asked)
    assert await is_allowed(readers, "t-prometheus")
    assert len(reviewer.asked) == asked


async def test_scrapes_at_once_ask_once(readers: MetricsReaders, reviewer: Reviewer) -> None:
    assert all(await asyncio.gather(*(is_allowed(readers, "t-prometheus") for _ in range(20))))
    assert reviewer.count("TokenReview") <= module._MAX_REVIEWS


async def scrape(readers: MetricsReaders | None, token: str = "") -> tuple[int, str]:
    server = TestServer(MetricsEndpoint(readers).build_application())
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        server,
        aiohttp.ClientSession() as session,
        session.get(server.make_url("/metrics"), headers=headers) as answer,
    ):
        return answer.status, await answer.text()


async def test_metrics_are_answered_to_those_alone(readers: MetricsReaders, reviewer: Reviewer) -> None:
    status, text = await scrape(readers, "t-prometheus")
    assert (status, "python_info" in text) == (200, True)
    assert (await scrape(readers))[0] == 401
    assert await scrape(readers, "t-unknown") == (401, "the token is not valid")
    status, text = await scrape(readers, "t-other")
    assert status == 403
    assert "system:serviceaccount:team:default may not get /metrics; bind the ClusterRole" in text
    reviewer.error = no_answer()
    assert (await scrape(readers, "t-new"))[0] == 503


async def test_without_authentication_they_are_anybodys() -> None:
    assert (await scrape(None))[0] == 200
