"""Answers that several viewers share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from podtune.dashboard.pages import sharing
from podtune.dashboard.pages.context import NotThere
from podtune.dashboard.pages.sharing import SHARED_ANSWERS, SharedAnswers, share_answer
from tests.unit.dashboard.archives import Client

LONG = "ö" * 2000


class Pages:
    """Counts how often a page is made; it takes until it is let go."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.begun, self.release = asyncio.Event(), asyncio.Event()

    async def show(self, request: web.Request) -> web.Response:
        self.made.append(request.path_qs)
        self.begun.set()
        await self.release.wait()
        if request.query.get("fails"):
            raise NotThere("gone")
        return web.Response(text=f"{LONG}{len(self.made)}", content_type="text/html", headers={"X-Own": "1"})


@pytest.fixture
def pages() -> Pages:
    return Pages()


@pytest.fixture
async def client(pages: Pages) -> AsyncIterator[Client]:
    @web.middleware
    async def tell(request: web.Request, handler: object) -> web.StreamResponse:
        try:
            return await handler(request)  # type: ignore[operator, no-any-return]
        except NotThere as error:
            return web.Response(status=404, text=str(error))

    app = web.Application(middlewares=[tell])
    app[SHARED_ANSWERS] = SharedAnswers()
    app.add_routes([web.get("/page", share_answer(pages.show))])
    async with TestClient(TestServer(app)) as client:
        yield client


async def read(client: Client, path: str = "/page", **headers: str) -> tuple[int, str]:
    answer = await client.get(path, headers=headers)
    return answer.status, await answer.text()


async def test_twenty_viewers_at_once_have_one_page(pages: Pages, client: Client) -> None:
    asking = [asyncio.ensure_future(read(client, **{"User-Agent": f"browser {number}"})) for number in range(20)]
    await pages.begun.wait()
    pages.release.set()
    assert await asyncio.gather(*asking) == [(200, f"{LONG}1")] * 20
    assert pages.made == ["/page"]


async def test_other_questions_and_other_viewers_have_answers_of_their_own(pages: Pages, client: Client) -> None:
    pages.release.set()
    await read(client)
    await read(client, "/page?x=time")
    await read(client, Cookie="session=alice")
    await read(client, Cookie="session=bob")
    await read(client, **{"X-Forwarded-User": "carol"})
    await read(client, **{"X-Forwarded-User": "carol"})
    assert pages.made == ["/page", "/page?x=time", "/page", "/page", "/page"]


async def test_an_answer_is_good_for_seconds_only(
    pages: Pages, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "SHARED_SECONDS", -1.0)
    pages.release.set()
    assert [await read(client), await read(client)] == [(200, f"{LONG}1"), (200, f"{LONG}2")]


async def test_who_can_not_read_what_is_compressed_gets_it_as_it_is(pages: Pages, client: Client) -> None:
    pages.release.set()
    packed = await client.get("/page", headers={"Accept-Encoding": "gzip"})
    plain = await client.get("/page", headers={"Accept-Encoding": "identity"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert await packed.text() == await plain.text() == f"{LONG}1"
    assert packed.headers["X-Own"] == plain.headers["X-Own"] == "1"
    assert packed.content_type == plain.content_type == "text/html"
    assert int(packed.headers["Content-Length"]) < 500


async def test_a_failure_is_told_to_all_who_wait_and_not_kept(pages: Pages, client: Client) -> None:
    asking = [asyncio.ensure_future(read(client, "/page?fails=1")) for _ in range(3)]
    await pages.begun.wait()
    pages.release.set()
    assert await asyncio.gather(*asking) == [(404, "gone")] * 3
    assert len(pages.made) == 1
    await read(client, "/page?fails=1")
    assert len(pages.made) == 2


async def test_of_very_many_answers_the_oldest_is_forgotten(
    pages: Pages, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "MOST_ANSWERS", 2)
    pages.release.set()
    for number in (1, 2, 3, 3, 1):
        await read(client, f"/page?{number}")
    assert pages.made == ["/page?1", "/page?2", "/page?3", "/page?1"]
