"""Pages that follow a cluster, over HTTP."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from aiohttp import ClientResponse

from podtune.cli.client.api_client import Change
from podtune.dashboard.app import HEADERS
from podtune.dashboard.live import event_stream
from podtune.dashboard.live.cluster_source import ClusterSource
from podtune.kube.errors import Unanswered
from tests.unit.dashboard.archives import BASE, Client, done, make_source, read_page, serve
from tests.unit.dashboard.live.live_api import (
    EXPERIMENTS,
    TRIALS,
    LiveApi,
    make_cluster,
    team_experiment,
    team_trial,
)

WAIT = 30
BEST = {"trial": "digits-1", "value": "0.9812", "parameters": {"lr": "0.01"}}


@pytest.fixture
async def api() -> AsyncIterator[LiveApi]:
    api = LiveApi()
    api.lists(EXPERIMENTS, team_experiment(), team_experiment("words"))
    api.lists(TRIALS, team_trial(0), team_trial(1))
    yield api
    api.ends()


@pytest.fixture
async def source(api: LiveApi, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClusterSource]:
    monkeypatch.setattr(event_stream, "PACE", 0.0)
    source = make_cluster(api)
    source.start()
    yield source
    source.stop()


@pytest.fixture
async def client(source: ClusterSource) -> AsyncIterator[Client]:
    async with serve(source) as client:
        yield client


def find_revision(page: str) -> str:
    found = re.search('data-revision="([^"]+)"', page)
    assert found
    return found[1]


async def follow(client: Client, page: str, base: str = BASE) -> ClientResponse:
    stream = await client.get(f"{base}/events", params={"since": find_revision(page)})
    assert stream.headers["Content-Type"] == "text/event-stream"
    return stream


async def hear(stream: ClientResponse) -> str:
    """The next event's revision."""
    async with asyncio.timeout(WAIT):
        async for line in stream.content:
            if line.startswith(b"data: "):
                return line.removeprefix(b"data: ").decode().strip()
    raise AssertionError("the stream has ended")


async def test_an_open_page_hears_that_a_trial_has_ended_and_shows_it(api: LiveApi, client: Client) -> None:
    page = await read_page(client, f"{BASE}/")
    assert "No trial has reported accuracy yet" in page
    stream = await follow(client, page)
    api.tells(TRIALS, Change("MODIFIED", team_trial(1, "2", **done(0.9812))))
    await hear(stream)
    api.tells(EXPERIMENTS, Change("MODIFIED", team_experiment(version="3", state="Running", best=BEST)))
    told = await hear(stream)
    after = await read_page(client, f"{BASE}/")
    assert find_revision(after) == told
    assert '<p class="value">0.9812</p>' in after
    stream.close()


async def test_what_changed_before_the_stream_was_open_is_told_at_once(
    api: LiveApi, source: ClusterSource, client: Client
) -> None:
    page = await read_page(client, f"{BASE}/trials")
    api.tells(TRIALS, Change("ADDED", team_trial(7)))
    await asyncio.wait_for(source.wait_for_news("team", "digits", find_revision(page)), WAIT)
    stream = await follow(client, page)
    assert await hear(stream) != find_revision(page)
    assert "digits-7" in await read_page(client, f"{BASE}/trials")
    stream.close()


async def test_the_list_hears_of_any_experiment_and_a_page_of_its_own_alone(api: LiveApi, client: Client) -> None:
    words = await read_page(client, "/experiments/team/words/")
    listed = await follow(client, await read_page(client, "/"), "")
    other = await follow(client, words, "/experiments/team/words")
    api.tells(TRIALS, Change("ADDED", team_trial(7)))
    await hear(listed)
    assert find_revision(await read_page(client, "/experiments/team/words/")) == find_revision(words)
    api.tells(EXPERIMENTS, Change("MODIFIED", team_experiment("words", "5", state="Running")))
    assert await hear(other) == find_revision(await read_page(client, "/experiments/team/words/"))
    listed.close()
    other.close()


async def test_a_deleted_experiment_has_a_page_that_says_so(api: LiveApi, client: Client) -> None:
    stream = await follow(client, await read_page(client, f"{BASE}/"))
    api.tells(EXPERIMENTS, Change("DELETED", team_experiment()))
    await hear(stream)
    for path in ("/", "/trials", "/trials/digits-0", "/parameters"):
        page = await read_page(client, f"{BASE}{path}", 410)
        assert "digits was deleted" in page
        assert "1 Jan 12:03" in page
    api.tells(EXPERIMENTS, Change("ADDED", team_experiment(version="9")))
    await hear(stream)
    await read_page(client, f"{BASE}/")
    stream.close()


async def test_a_page_of_an_experiment_that_is_not_there_hears_of_its_creation(api: LiveApi, client: Client) -> None:
    base = "/experiments/team/new"
    stream = await follow(client, await read_page(client, f"{base}/", 404), base)
    api.tells(EXPERIMENTS, Change("ADDED", team_experiment("new")))
    await hear(stream)
    await read_page(client, f"{base}/")
    stream.close()


async def test_pages_say_since_when_the_server_is_away_and_that_it_is_back(api: LiveApi, client: Client) -> None:
    page = await read_page(client, f"{BASE}/")
    assert "not been reached" not in page
    stream = await follow(client, page)
    api.tells(TRIALS, Unanswered("https://api can't be reached: <b>no route</b>"))
    await hear(stream)
    for path in ("/", f"{BASE}/", f"{BASE}/trials", f"{BASE}/trials/digits-0"):
        away = await read_page(client, path)
        assert "The API server has not been reached since" in away
        assert "1 Jan 12:03" in away
        assert "can&#39;t be reached: &lt;b&gt;no route" in away
    assert "digits-1" in await read_page(client, f"{BASE}/trials")
    api.lists(TRIALS, team_trial(0))
    while "not been reached" in (page := await read_page(client, f"{BASE}/trials")) or "digits-1" in page:
        await hear(stream)
    stream.close()


async def test_a_silent_stream_shows_that_it_is_there(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "LONGEST_SILENCE", 0.01)
    stream = await follow(client, await read_page(client, "/"), "")
    async with asyncio.timeout(WAIT):
        assert await stream.content.readuntil(b"still here\n\n")
    stream.close()


async def test_streams_end_with_the_program(source: ClusterSource) -> None:
    async with serve(source) as client:
        stream = await follow(client, await read_page(client, "/"), "")
        closing = asyncio.ensure_future(client.server.close())
        async with asyncio.timeout(WAIT):
            assert (await stream.content.read()).endswith(b"\n\n")
            await closing


async def test_streams_have_the_headers_of_all_answers(client: Client) -> None:
    stream = await follow(client, await read_page(client, "/"), "")
    assert {name: stream.headers[name] for name in HEADERS} == HEADERS
    assert stream.headers["Cache-Control"] == "no-store"
    stream.close()


async def test_after_an_event_a_stream_waits_before_the_next(
    api: LiveApi, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    wait_unless = event_stream._wait_unless

    async def note(stopping: asyncio.Event, coroutine: Coroutine[Any, Any, Any], seconds: float) -> object:
        waits.append(seconds)
        return await wait_unless(stopping, coroutine, seconds)

    monkeypatch.setattr(event_stream, "PACE", 0.125)
    monkeypatch.setattr(event_stream, "_wait_unless", note)
    stream = await follow(client, await read_page(client, f"{BASE}/"))
    api.tells(TRIALS, Change("ADDED", team_trial(7)))
    await hear(stream)
    api.tells(TRIALS, Change("ADDED", team_trial(8)))
    await hear(stream)
    assert waits[:3] == [event_stream.LONGEST_SILENCE, 0.125, event_stream.LONGEST_SILENCE]
    stream.close()


async def test_an_archive_has_no_stream_and_its_pages_ask_for_none() -> None:
    async with serve(make_source()) as client:
        assert "live.js" not in await read_page(client, f"{BASE}/")
        await read_page(client, f"{BASE}/events", 404)
