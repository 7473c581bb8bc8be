"""Logging in with a form, staying logged in by a cookie, and logging out."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
from aiohttp import ClientResponse, CookieJar
from yarl import URL

from podtune.dashboard.access.session import COOKIE, LONGEST_TOKEN, SECURE_COOKIE, LoginSession
from podtune.dashboard.live.cluster_source import ClusterSource
from tests.unit.dashboard.access.reviewing_api import ALICE, ROOT, ReviewingApi, open_source, serve_viewers
from tests.unit.dashboard.archives import BASE, Client

OWN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def api() -> ReviewingApi:
    return ReviewingApi()


@pytest.fixture
def source(api: ReviewingApi) -> Iterator[ClusterSource]:
    yield from open_source(api)


@pytest.fixture
async def client(api: ReviewingApi, source: ClusterSource) -> AsyncIterator[Client]:
    async with serve_viewers(api, source) as client:
        yield client


async def log_in(client: Client, token: str = ALICE, goal: str = "", **headers: str) -> ClientResponse:
    form = {"token": token, "next": goal}
    return await client.post("/login", data=form, headers=OWN | headers, allow_redirects=False)


def make_jwt(end: float) -> str:
    return make_token(json.dumps({"exp": end}))


def make_token(claims: str) -> str:
    return f"e30.{base64.urlsafe_b64encode(claims.encode()).decode().rstrip('=')}.c2ln"


async def test_the_login_page_asks_for_no_news_which_strangers_are_told_nothing_of(client: Client) -> None:
    for answer in (await client.get("/login"), await log_in(client, token="mistyped")):
        assert "Log in" in await answer.text()
        assert "data-events" not in await answer.text()


async def test_a_login_leads_to_the_page_that_was_asked_for(client: Client) -> None:
    page = await (await client.get(f"{BASE}/trials?sort=lr&state=done")).text()
    goal = re.search('name="next" value="([^"]*)"', page)
    assert goal
    assert 'action="../../../login"' in page
    answer = await log_in(client, goal=goal[1].replace("&amp;", "&"))
    assert answer.status == 303
    assert answer.headers["Location"] == "./experiments/team/digits/trials?sort=lr&state=done"
    shown = await (await client.get(f"{BASE}/trials")).text()
    assert "digits-1" in shown
    assert "Logged in as <strong>alice</strong>" in shown


@pytest.mark.parametrize(
    "goal",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "javascript:alert(1)",
        "experiments/a\r\nSet-Cookie: a=b",
        "experiments/\\evil.example",
        "\texperiments/",
        "../../other",
    ],
)
async def test_a_login_leads_nowhere_else(client: Client, goal: str) -> None:
    location = (await log_in(client, goal=goal)).headers["Location"]
    assert location.startswith("./")
    assert not {"\\", "\r", "\n"} & set(location)
    assert location == "./" or location.startswith("./experiments/")


async def test_the_cookie_is_for_this_dashboard_alone(client: Client) -> None:
    cookie = (await log_in(client)).cookies[COOKIE]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Strict"
    assert not cookie["secure"]
    assert cookie["max-age"] == "3600"


@pytest.mark.parametrize("protocol", ["https", "HTTPS, http", "https,http"])
async def test_over_tls_the_cookie_goes_over_tls_alone_and_no_other_is_read(client: Client, protocol: str) -> None:
    headers = {"X-Forwarded-Proto": protocol}
    cookies = (await log_in(client, **headers)).cookies
    assert list(cookies) == [SECURE_COOKIE]
    assert cookies[SECURE_COOKIE]["secure"]
    for name, status in ((SECURE_COOKIE, 200), (COOKIE, 401)):
        sent = {"Cookie": f"{name}={cookies[SECURE_COOKIE].value}"}
        assert (await client.get("/", headers=headers | sent)).status == status


async def test_plain_http_behind_tls_between_proxies_is_plain(client: Client) -> None:
    assert list((await log_in(client, **{"X-Forwarded-Proto": "http, https"})).cookies) == [COOKIE]


@pytest.mark.parametrize("outside", ["", "/tools/podtune"])
async def test_the_cookie_is_for_the_path_that_the_browser_knows(client: Client, outside: str) -> None:
    # A proxy takes the path away that the browser sees, so the server can't name it.
    base = f"http://shared.example{outside}"
    jar = CookieJar()
    jar.update_cookies((await log_in(client)).cookies, URL(f"{base}/login"))
    for path in ("/", "/experiments/team/digits/", "/logout"):
        assert COOKIE in jar.filter_cookies(URL(f"{base}{path}"))
    assert (COOKIE in jar.filter_cookies(URL("http://shared.example/other/"))) == (not outside)
    form = LoginSession(ALICE, int(next(iter(jar)).value.partition(".")[0])).make_form_token("log out")
    answer = await client.post("/logout", data={"form": form}, allow_redirects=False)
    jar.update_cookies(answer.cookies, URL(f"{base}/logout"))
    assert not jar.filter_cookies(URL(f"{base}/"))


async def test_a_session_is_no_longer_than_its_token(api: ReviewingApi, client: Client) -> None:
    token = make_jwt(time.time() + 600)
    api.users[token] = "alice"
    assert 595 <= int((await log_in(client, token)).cookies[COOKIE]["max-age"]) <= 600


@pytest.mark.parametrize(
    ("token", "status", "said"),
    [
        ("", 400, "Paste a token."),
        ("two words", 400, "This is no token"),
        ("a\u00e9", 400, "This is no token"),
        ("<script>", 400, "This is no token"),
        ("x" * (LONGEST_TOKEN + 1), 400, "This token is too long"),
        ("wrong", 401, "The API server does not take this token"),
        (make_jwt(1e9), 401, "This token expired on 9 Sep 01:46 UTC."),
        (make_jwt(4e9), 401, "The API server does not take this token"),
    ],
)
async def test_a_login_that_fails_says_why_and_asks_again(client: Client, token: str, status: int, said: str) -> None:
    answer = await log_in(client, token, "experiments/team/digits/")
    text = await answer.text()
    assert answer.status == status
    assert said in text
    assert 'value="experiments/team/digits/"' in text
    assert COOKIE not in answer.cookies
    assert not token or token not in text


@pytest.mark.parametrize(
    "claims",
    ['{"exp": -1e18}', '{"exp": 1e18}', '{"exp": NaN}', f'{{"exp": {"9" * 400}}}', "[" * 2800, '{"exp": null}', "\xff"],
)
async def test_a_token_with_an_absurd_end_is_refused_like_any_other(client: Client, claims: str) -> None:
    token = make_token(claims)
    assert len(token) <= LONGEST_TOKEN
    answers = await log_in(client, token), await client.get("/", headers={"Authorization": f"Bearer {token}"})
    for answer in answers:
        assert answer.status == 401
        assert "The API server does not take this token" in await answer.text()


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Transfer-Encoding: none\r\n\r\nx\r\n--b--\r\n"),
        ("application/x-www-form-urlencoded; charset=none", b"token=x"),
        ("application/x-www-form-urlencoded; charset=utf-8", b"token=\xff"),
    ],
)
async def test_a_form_that_cannot_be_read_is_refused(client: Client, kind: str, body: bytes) -> None:
    await log_in(client)
    for path in ("/login", "/logout"):
        answer = await client.post(path, data=body, headers=OWN | {"Content-Type": kind})
        assert answer.status == 400
        assert "this form can't be read" in await answer.text()


async def test_a_huge_login_is_not_read(client: Client) -> None:
    assert (await log_in(client, "x" * (100 << 10))).status == 413


async def test_an_expired_token_is_asked_for_again(api: ReviewingApi, client: Client) -> None:
    client.session.cookie_jar.update_cookies({COOKIE: f"{int(time.time())}.{make_jwt(1e9)}"})
    answer = await client.get(f"{BASE}/")
    assert answer.status == 401
    assert "This token expired on 9 Sep 01:46 UTC." in await answer.text()


async def test_a_session_ends_whatever_the_browser_does(api: ReviewingApi, source: ClusterSource) -> None:
    async with serve_viewers(api, source, session=timedelta(minutes=10)) as client:
        for minutes, status in ((9, 200), (11, 401)):
            client.session.cookie_jar.update_cookies({COOKIE: f"{int(time.time()) - 60 * minutes}.{ALICE}"})
            answer = await client.get("/")
            assert answer.status == status
        assert "Your session ended on" in await answer.text()


@pytest.mark.parametrize("cookie", ["", ".", "1", f".{ALICE}", f"x.{ALICE}", f"99999999999999.{ALICE}", "1.a b"])
async def test_a_broken_cookie_is_none(client: Client, cookie: str) -> None:
    client.session.cookie_jar.update_cookies({COOKIE: cookie})
    assert (await client.get("/")).status == 401


@pytest.mark.parametrize(
    "headers",
    [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "none"}, {"Origin": "null"}],
)
async def test_no_other_site_logs_a_viewer_in(client: Client, headers: dict[str, str]) -> None:
    answer = await client.post("/login", data={"token": ROOT}, headers=headers, allow_redirects=False)
    assert answer.status == 403
    assert COOKIE not in answer.cookies


async def test_logging_out_takes_the_form_of_this_session(client: Client) -> None:
    await log_in(client)
    page = await (await client.get(f"{BASE}/")).text()
    found = re.search('action="../../../logout"><input type="hidden" name="form" value="([0-9a-f]+)"', page)
    assert found
    for form in ("", found[1][:-1], "0" * len(found[1])):
        assert (await client.post("/logout", data={"form": form})).status == 403
    answer = await client.post("/logout", data={"form": found[1]}, allow_redirects=False)
    assert answer.status == 303
    assert answer.headers["Location"] == "./"
    assert (await client.get("/")).status == 401


async def test_no_log_and_no_page_has_a_token(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    await log_in(client)
    await log_in(client, "wrong-token")
    for path in ("/", f"{BASE}/", "/nowhere"):
        assert ALICE not in await (await client.get(path)).text()
    assert caplog.records
    assert not [record for record in caplog.records if ALICE in str(record.__dict__) or "wrong-token" in str(record)]
