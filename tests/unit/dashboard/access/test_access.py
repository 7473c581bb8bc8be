"""Who sees what: each viewer their own part, and nothing without a token."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator

import pytest

from podtune import __version__
from podtune.api.names import EXPERIMENT_PLURAL, TRIAL_PLURAL
from podtune.cli.client.api_client import Change
from podtune.dashboard.access import reviews, viewed_source
from podtune.dashboard.live import event_stream
from podtune.dashboard.live.cluster_source import ClusterSource
from podtune.kube import paths
from tests.unit.dashboard.access.reviewing_api import (
    ALICE,
    BOB,
    ROOT,
    Clock,
    ReviewingApi,
    bearer,
    grant_sight,
    move,
    open_source,
    serve_viewers,
)
from tests.unit.dashboard.archives import BASE, Client
from tests.unit.dashboard.live.live_api import team_experiment, team_trial

WAIT = 30
PAGES = (
    "/",
    f"{BASE}/",
    f"{BASE}/trials",
    f"{BASE}/trials.csv",
    f"{BASE}/trials/digits-0",
    f"{BASE}/events",
    "/events",
)


@pytest.fixture
def api() -> ReviewingApi:
    return ReviewingApi()


@pytest.fixture
def source(api: ReviewingApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterSource]:
    monkeypatch.setattr(event_stream, "PACE", 0.0)
    monkeypatch.setattr(viewed_source, "FILTER_PACE", 0.0)
    yield from open_source(api)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def client(api: ReviewingApi, source: ClusterSource, clock: Clock) -> AsyncIterator[Client]:
    async with serve_viewers(api, source, clock) as client:
        yield client


async def read(client: Client, path: str, token: str, status: int = 200) -> str:
    async with asyncio.timeout(WAIT):
        answer = await client.get(path, headers=bearer(token))
        text = await answer.text()
    assert answer.status == status, text
    return text


@pytest.mark.parametrize("path", PAGES)
async def test_without_a_token_nothing_is_shown(client: Client, path: str) -> None:
    answer = await client.get(path)
    text = await answer.text()
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert "Log in" in text
    assert "accuracy" not in text
    assert "live.js" not in text


def find_titles(page: str) -> tuple[str, str]:
    """What the bar and the foot of a page say of what is shown."""
    found = re.search('<span class="source"[^>]*>([^<]*)</span>.*<footer>Podtune([^·<]*)', page, re.DOTALL)
    assert found
    return found[1], found[2].strip()


async def test_a_stranger_learns_neither_namespaces_nor_the_version(client: Client) -> None:
    for path in ("/", "/login", f"{BASE}/", "/nowhere"):
        assert find_titles(await (await client.get(path)).text()) == ("", "")


async def test_a_page_names_the_namespaces_that_its_viewer_may_see(api: ReviewingApi, client: Client) -> None:
    assert find_titles(await read(client, "/", ALICE)) == ("namespace team", __version__)
    assert find_titles(await read(client, f"{BASE}/", ALICE)) == ("namespace team", __version__)
    assert find_titles(await read(client, "/experiments/third/secret/", ALICE, 403)) == ("", __version__)
    assert find_titles(await read(client, "/", BOB)) == ("", __version__)
    assert find_titles(await read(client, "/", ROOT)) == ("all namespaces", __version__)
    api.users["c"] = "carol"
    api.grants |= grant_sight("carol", "team") | grant_sight("carol", "other")
    assert find_titles(await read(client, "/", "c")) == ("namespaces other, team", __version__)


async def test_a_title_that_the_installation_chose_is_shown_to_all(api: ReviewingApi) -> None:
    api.lists(paths.experiments(), team_experiment())
    api.lists(paths.trials())
    source = ClusterSource(lambda: api, None, pause=lambda _: None, title="prod")
    source.start()
    async with serve_viewers(api, source) as client:
        assert find_titles(await (await client.get("/login")).text()) == ("prod", "")
        assert find_titles(await read(client, "/", ALICE)) == ("prod", __version__)
    source.stop()
    api.ends()


@pytest.mark.parametrize("token", ["wrong", "alice-tokens"])
async def test_a_wrong_token_is_refused_in_words(client: Client, token: str) -> None:
    assert "The API server does not take this token" in await read(client, f"{BASE}/", token, 401)


async def test_the_list_holds_what_a_viewer_may_see(client: Client) -> None:
    alice, root = await read(client, "/", ALICE), await read(client, "/", ROOT)
    assert set(re.findall(r"experiments/(\w+/\w+)/", alice)) == {"team/digits"}
    assert set(re.findall(r"experiments/(\w+/\w+)/", root)) == {"team/digits", "other/words", "third/secret"}


async def test_who_sees_no_namespace_is_told_what_right_is_missing(client: Client) -> None:
    page = await read(client, "/", BOB)
    assert "No experiments that you may see" in page
    assert "kubectl auth can-i list experiments.podtune.dev" in page
    assert "digits" not in page


@pytest.mark.parametrize("path", ["/", "/trials", "/trials.csv", "/events", "/charts/progress.svg", "/compare"])
async def test_what_may_not_be_seen_looks_like_what_is_not_there(client: Client, path: str) -> None:
    there = await read(client, f"/experiments/third/secret{path}", ALICE, 403)
    absent = await read(client, f"/experiments/third/absent{path}", ALICE, 403)
    assert there.replace("secret", "absent") == absent
    assert "alice needs the right to" in absent
    assert "kubectl create rolebinding see-experiments -n third --clusterrole view --user alice" in absent
    assert "live.js" not in absent


async def test_what_is_not_there_is_said_to_who_might_see_it(client: Client) -> None:
    assert "There is no experiment &#39;absent&#39;" in await read(client, "/experiments/team/absent/", ALICE, 404)


async def test_who_may_get_one_experiment_sees_its_pages_alone(api: ReviewingApi, client: Client) -> None:
    api.grants |= {("bob", "get", EXPERIMENT_PLURAL, "team", "digits"), ("bob", "list", TRIAL_PLURAL, "team", "")}
    api.users["b"] = "bob"
    assert "digits-1" in await read(client, f"{BASE}/trials", "b")
    assert "digits" not in await read(client, "/", "b")
    await read(client, "/experiments/team/other/", "b", 403)


async def test_experiments_are_not_shown_without_the_right_to_list_their_trials(
    api: ReviewingApi, client: Client
) -> None:
    api.grants.add(("bob", "list", EXPERIMENT_PLURAL, "", ""))
    api.users["b"] = "bob"
    assert "digits" not in await read(client, "/", "b")
    await read(client, f"{BASE}/", "b", 403)


async def test_reviews_name_all_that_is_known_of_the_viewer(api: ReviewingApi, client: Client) -> None:
    await read(client, f"{BASE}/", ALICE)
    asked = [spec for spec in api.specs if "resourceAttributes" in spec]
    assert {(spec["user"], *spec["groups"]) for spec in asked} == {("alice", "g")}
    assert all(ALICE not in str(spec) for spec in asked)


async def test_the_same_is_asked_once_in_half_a_minute(api: ReviewingApi, client: Client, clock: Clock) -> None:
    for _ in range(3):
        await read(client, f"{BASE}/", ALICE)
    assert api.reviewed == {"TokenReview": 1, "SubjectAccessReview": 2}
    clock.now += reviews.ANSWER_SECONDS
    await read(client, f"{BASE}/", ALICE)
    assert api.reviewed == {"TokenReview": 2, "SubjectAccessReview": 4}


async def test_many_who_come_at_once_share_one_review(api: ReviewingApi, client: Client) -> None:
    api.gate.clear()
    reads = [asyncio.ensure_future(read(client, f"{BASE}/trials", ALICE)) for _ in range(20)]
    await asyncio.to_thread(api.arrivals.acquire, timeout=WAIT)
    api.gate.set()
    await asyncio.gather(*reads)
    assert api.reviewed == {"TokenReview": 1, "SubjectAccessReview": 2}


async def test_more_wrong_tokens_than_may_wait_are_turned_away(
    api: ReviewingApi, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reviews, "MOST_WAITING", 2)
    api.gate.clear()
    waiting = [asyncio.ensure_future(read(client, "/", f"wrong{number}", 401)) for number in range(2)]
    for _ in waiting:
        await asyncio.to_thread(api.arrivals.acquire, timeout=WAIT)
    assert "Too many logins at a time" in await read(client, "/", "wrong", 503)
    api.gate.set()
    await asyncio.gather(*waiting)


async def test_a_viewer_who_asks_for_too_much_at_a_time_is_told_so(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reviews, "MOST_ASKED", 1)
    assert "Too many pages at a time" in await read(client, "/", ALICE, 429)


async def test_while_the_api_server_is_away_pages_say_so_and_show_nothing(
    api: ReviewingApi, client: Client, clock: Clock
) -> None:
    await read(client, f"{BASE}/", ALICE)
    api.is_away = True
    assert "digits" in await read(client, f"{BASE}/", ALICE)
    clock.now += reviews.ANSWER_SECONDS
    page = await read(client, f"{BASE}/", ALICE, 503)
    assert "The API server does not answer" in page
    assert "accuracy" not in page
    api.is_away = False
    await read(client, f"{BASE}/", ALICE)


async def test_the_stream_of_the_list_is_silent_about_what_may_not_be_seen(
    api: ReviewingApi, source: ClusterSource, client: Client
) -> None:
    page = await read(client, "/", ALICE)
    known = find_revision(page)
    seen = source.find_revision("", "")
    stream = await client.get("/events", params={"since": known}, headers=bearer(ALICE))
    api.tells(paths.experiments(), Change("MODIFIED", move(team_experiment("secret", "9", state="Running"), "third")))
    await asyncio.wait_for(source.wait_for_news("", "", seen), WAIT)
    assert find_revision(await read(client, "/", ALICE)) == known
    assert find_revision(await read(client, "/", ROOT)) != seen
    api.tells(paths.trials(), Change("ADDED", team_trial(7)))
    async with asyncio.timeout(WAIT):
        told = await stream.content.readuntil(b"event: change\n")
    assert told == b": open\n\nevent: change\n"
    stream.close()


async def test_a_stream_ends_when_a_right_is_taken_away(
    api: ReviewingApi, client: Client, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "LONGEST_SILENCE", 0.01)
    page = await read(client, f"{BASE}/", ALICE)
    stream = await client.get(f"{BASE}/events", params={"since": find_revision(page)}, headers=bearer(ALICE))
    async with asyncio.timeout(WAIT):
        await stream.content.readuntil(b"still here\n\n")
        api.grants -= grant_sight("alice", "team")
        clock.now += reviews.ANSWER_SECONDS
        assert (await stream.content.read()).endswith(b"event: change\ndata: over\n\n")
    await read(client, f"{BASE}/", ALICE, 403)


async def test_a_stream_ends_when_its_token_does(
    api: ReviewingApi, client: Client, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "LONGEST_SILENCE", 0.01)
    stream = await client.get(f"{BASE}/events", params={"since": ""}, headers=bearer(ALICE))
    del api.users[ALICE]
    clock.now += reviews.ANSWER_SECONDS
    async with asyncio.timeout(WAIT):
        assert (await stream.content.read()).endswith(b"data: over\n\n")


def test_a_right_that_was_taken_away_is_gone_within_a_minute() -> None:
    # The API server itself believes a token for another 10 s.
    assert reviews.ANSWER_SECONDS + event_stream.LONGEST_SILENCE + 10 <= 60


async def test_an_open_dashboard_says_on_every_page_that_it_is(api: ReviewingApi, source: ClusterSource) -> None:
    async with serve_viewers(api, source, is_open=True) as client:
        for path in ("/", f"{BASE}/", "/experiments/third/secret/"):
            answer = await client.get(path)
            assert answer.status == 200
            assert "Open to everybody" in await answer.text()
    assert not api.reviewed


def find_revision(page: str) -> str:
    found = re.search('data-revision="([^"]+)"', page)
    assert found
    return found[1]


async def test_viewers_share_no_page(client: Client, api: ReviewingApi) -> None:
    api.grants |= grant_sight("carol", "team")
    api.users["carol-token"] = "carol"
    for token, name in ((ALICE, "alice"), ("carol-token", "carol"), (ALICE, "alice")):
        assert f"Logged in as <strong>{name}</strong>" in await read(client, f"{BASE}/", token)
