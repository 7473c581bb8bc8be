"""Pausing, resuming, stopping and retrying from a page, with the viewer's own token."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import ClientResponse

from podtune.cli.client.api_client import Change
from podtune.dashboard.access.gate import Access
from podtune.dashboard.access.reviews import Reviewer
from podtune.dashboard.access.session import COOKIE, LoginSession, ProxyTrust
from podtune.dashboard.live import event_stream
from podtune.dashboard.live.cluster_source import ClusterSource
from podtune.kube import paths
from podtune.kube.errors import make_refusal
from tests.unit.dashboard.access.reviewing_api import (
    ALICE,
    ROOT,
    Clock,
    ReviewingApi,
    grant_sight,
    open_source,
    serve_app,
)
from tests.unit.dashboard.archives import BASE, Client
from tests.unit.dashboard.live.live_api import team_experiment, team_trial

EXPERIMENT, TRIAL = paths.experiment("team", "digits"), paths.trial("team", "digits-1")
RUNNING: dict[str, Any] = {"state": "RUNNING", "reason": "Training", "attempt": 1}
OWN = {"Sec-Fetch-Site": "same-origin"}


class ActingApi(ReviewingApi):
    """Alice may change what is in namespace team; it notes whose token each change came with."""

    def __init__(self) -> None:
        super().__init__()
        self.grants |= {("alice", "patch", plural, "team", "") for plural in ("experiments", "trials")}
        self.grants |= grant_sight("bob", "team")
        self.users["b"] = "bob"
        self.connected: list[str] = []
        experiment = team_experiment(state="Running")
        experiment["spec"] |= {"checkpoints": {"store": {"s3": {"bucket": "b"}}}}
        self.objects |= {EXPERIMENT: experiment, TRIAL: team_trial(1, **RUNNING)}

    def connect_as(self, token: str) -> ActingApi:
        self.connected.append(token)
        return self


@pytest.fixture
def api() -> ActingApi:
    return ActingApi()


@pytest.fixture
def source(api: ActingApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterSource]:
    monkeypatch.setattr(event_stream, "PACE", 0.0)
    yield from open_source(api, api.objects[EXPERIMENT], api.objects[TRIAL])


@pytest.fixture
async def client(api: ActingApi, source: ClusterSource, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    monkeypatch.setattr(event_stream, "PACE", 0.0)  # a page shows a change at once
    access = Access(Reviewer(lambda: api, Clock()), timedelta(hours=1), ProxyTrust(), offers_actions=True)
    async with serve_app(source, access, api.connect_as) as client:
        log_in(client, ALICE)
        yield client


def log_in(client: Client, token: str) -> None:
    client.session.cookie_jar.update_cookies({COOKIE: f"{int(time.time())}.{token}"})


async def read(client: Client, path: str, status: int = 200) -> str:
    answer = await client.get(path)
    text = await answer.text()
    assert answer.status == status, text
    return text


async def ask(client: Client, path: str) -> dict[str, str]:
    """The form of a confirmation."""
    return dict(re.findall('type="hidden" name="(\\w+)" value="(\\w+)"', (await read(client, path)).split("<main")[1]))


async def confirm(client: Client, path: str, form: dict[str, str], **headers: str) -> ClientResponse:
    return await client.post(path, data=form, headers=headers or OWN, allow_redirects=False)


def list_buttons(page: str) -> list[str]:
    return re.findall('class="act[^"]*" href="[^"]*actions/(\\w+)"', page)


ACTIONS = [
    (f"{BASE}/", "pause", EXPERIMENT, {"suspend": True}),
    (f"{BASE}/", "stop", EXPERIMENT, {"stop": {"now": True}}),
    (f"{BASE}/trials/digits-1", "pause", TRIAL, {"desiredState": "Paused"}),
    (f"{BASE}/trials/digits-1", "stop", TRIAL, {"desiredState": "Stopped"}),
    (f"{BASE}/trials/digits-1", "retry", TRIAL, {"retry": {"attempt": 1}}),
]


@pytest.mark.parametrize("case", ACTIONS, ids=lambda case: f"{case[0][-9:]}{case[1]}")
async def test_a_confirmed_action_is_done_with_the_viewers_token(
    api: ActingApi, client: Client, case: tuple[str, str, str, dict[str, object]]
) -> None:
    page, action, path, change = case
    assert action in list_buttons(await read(client, page))
    address = f"{page.rstrip('/')}/actions/{action}"
    form = await ask(client, address)
    assert not api.patched
    answer = await confirm(client, address, form)
    assert answer.status == 303
    assert answer.headers["Location"] == f"./{action}/done"
    assert api.patched == [(path, {"spec": change})]
    assert api.connected == [ALICE]
    assert "was asked for" in await read(client, f"{address}/done")


async def test_a_suspended_experiment_is_resumed(api: ActingApi, source: ClusterSource, client: Client) -> None:
    assert "resume" not in list_buttons(await read(client, f"{BASE}/"))
    assert "does not allow that" in await read(client, f"{BASE}/actions/resume", 409)
    body = api.objects[EXPERIMENT]
    known = source.find_revision("team", "digits")
    suspended = team_experiment(version="5", state="Suspended") | {"spec": body["spec"] | {"suspend": True}}
    api.tells(paths.experiments(), Change("MODIFIED", suspended))
    await asyncio.wait_for(source.wait_for_news("team", "digits", known), 30)
    assert list_buttons(await read(client, f"{BASE}/")) == ["resume", "stop"]
    await confirm(client, f"{BASE}/actions/resume", await ask(client, f"{BASE}/actions/resume"))
    assert api.patched == [(EXPERIMENT, {"spec": {"suspend": False}})]


async def test_the_confirmation_says_what_will_happen(client: Client) -> None:
    page = await read(client, f"{BASE}/actions/stop")
    assert "Stop experiment digits?" in page
    assert "1 trial is running and ends after its last checkpoint." in page
    assert "This can’t be taken back." in page


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
async def test_a_form_of_another_site_does_nothing(api: ActingApi, client: Client, headers: dict[str, str]) -> None:
    form = await ask(client, f"{BASE}/actions/pause")
    assert (await confirm(client, f"{BASE}/actions/pause", form, **headers)).status == 403
    assert not api.patched


async def test_a_form_of_another_session_or_action_does_nothing(api: ActingApi, client: Client) -> None:
    form = await ask(client, f"{BASE}/actions/pause")
    for path in (f"{BASE}/actions/stop", f"{BASE}/trials/digits-1/actions/pause"):
        assert (await confirm(client, path, form)).status == 403
    for broken in ({}, {"attempt": "0"}, form | {"form": ""}, form | {"form": "é"}):
        assert (await confirm(client, f"{BASE}/actions/pause", broken)).status == 403
    log_in(client, ROOT)
    assert (await confirm(client, f"{BASE}/actions/pause", form)).status == 403
    assert not api.patched


async def test_who_may_not_act_has_no_buttons_and_is_told_why(api: ActingApi, client: Client) -> None:
    log_in(client, "b")
    assert not list_buttons(await read(client, f"{BASE}/"))
    page = await read(client, f"{BASE}/actions/pause", 403)
    assert "bob needs the right to patch experiments.podtune.dev digits in team." in page


async def test_the_api_servers_refusal_is_shown_in_words(
    api: ActingApi, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = await ask(client, f"{BASE}/actions/pause")

    def refuse(*_: object) -> None:
        raise make_refusal(403, "Forbidden", "policy no-pauses says <no>")

    monkeypatch.setattr(api, "patch", refuse)
    answer = await confirm(client, f"{BASE}/actions/pause", form)
    assert answer.status == 403
    assert "the API server says 403: policy no-pauses says &lt;no&gt;" in await answer.text()


async def test_a_retry_does_not_touch_an_attempt_that_has_begun_meanwhile(api: ActingApi, client: Client) -> None:
    address = f"{BASE}/trials/digits-1/actions/retry"
    form = await ask(client, address)
    last: dict[str, Any] = {"lastAttempt": {"attempt": 1, "class": "user", "reason": "Error"}}
    api.objects[TRIAL] = team_trial(1, "9", **RUNNING, **last)
    answer = await confirm(client, address, form)
    assert answer.status == 409
    assert "attempt 1 of trial digits-1 has ended meanwhile" in await answer.text()
    assert not api.patched


async def test_what_is_not_there_offers_nothing(client: Client) -> None:
    await read(client, f"{BASE}/trials/digits-99/actions/pause", 404)
    await read(client, "/experiments/team/absent/actions/pause", 404)
    await read(client, "/experiments/third/secret/actions/pause", 403)
    await read(client, f"{BASE}/actions/delete", 404)


async def test_an_experiment_has_no_retry_whatever_form_asks_for_it(api: ActingApi, client: Client) -> None:
    await read(client, f"{BASE}/actions/retry", 404)
    session = LoginSession(ALICE, int(time.time()))
    client.session.cookie_jar.update_cookies({COOKIE: f"{session.began}.{ALICE}"})
    form = {"form": session.make_form_token("retry team/digits"), "attempt": "1"}
    assert (await confirm(client, f"{BASE}/actions/retry", form)).status == 404
    assert not api.patched


async def test_without_actions_there_are_neither_buttons_nor_addresses(api: ActingApi, source: ClusterSource) -> None:
    access = Access(Reviewer(lambda: api, Clock()), timedelta(hours=1), ProxyTrust())
    async with serve_app(source, access) as client:
        log_in(client, ALICE)
        page = await read(client, f"{BASE}/")
        assert not list_buttons(page)
        assert "read-only" in page
        await read(client, f"{BASE}/actions/pause", 404)


async def test_logs_and_manifests_are_read_with_the_viewers_own_token(api: ActingApi, client: Client) -> None:
    page = await read(client, f"{BASE}/trials/digits-1/manifest")
    assert "state: RUNNING" in page
    log_in(client, "b")
    await read(client, f"{BASE}/trials/digits-1/manifest")
    assert api.connected == [ALICE, "b"]


async def test_a_form_that_cannot_be_read_is_refused(client: Client, api: ActingApi) -> None:
    kind = "application/x-www-form-urlencoded; charset=none"
    answer = await client.post(f"{BASE}/actions/pause", data=b"form=x", headers=OWN | {"Content-Type": kind})
    assert answer.status == 400
    assert not api.connected
