"""What the pages show, and that nothing that an experiment holds can break them."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser

import pytest
from yarl import URL

from podtune.dashboard.addresses import is_loopback
from podtune.dashboard.app import HEADERS
from podtune.dashboard.rendering import find_static_files
from tests.unit.dashboard.archives import (
    BASE,
    STOPPED,
    Client,
    done,
    experiment_body,
    list_trials,
    make_many,
    make_source,
    read_page,
    serve,
    trial_body,
)

COMPARED = f"{BASE}/compare?trial=digits-0&trial=digits-1&trial=digits-4&log=x"
PAGES = [
    "/",
    f"{BASE}/",
    f"{BASE}/?x=time",
    f"{BASE}/parameters",
    f"{BASE}/timeline?by=node&state=done",
    f"{BASE}/trials",
    COMPARED,
    f"{BASE}/trials/digits-0/manifest",
    f"{BASE}/trials/digits-0",
]
ONE_OF_MANY = re.compile(r"[^<>]*(?<![\w.,-])1 (?:[a-z]+ )?[a-z]{3,}s\b[^<>]*")
"""Such as 1 trials, and 1 more trials."""
LINKS = ("href", "src", "action", "data-columns", "data-trials")


class Collector(HTMLParser):
    """Collects the attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.inline = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        is_inline = tag == "style" or (tag == "script" and not dict(attrs).get("src"))
        self.inline += is_inline

    @property
    def links(self) -> list[str]:
        return [value for _, name, value in self.attributes if name in LINKS]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serve(make_source()) as client:
        yield client


async def test_the_list_shows_how_each_experiment_goes(client: Client) -> None:
    page = await read_page(client, "/")
    assert 'href="./experiments/team/digits/"' in page
    assert "3 of 100 trials are done" in page
    assert re.search(r"Failed</dt><dd class=\"bad\">1<", page)
    assert re.search(r"GPU-hours</dt><dd>4\.5<", page)


async def test_an_experiment_shows_its_best_with_four_digits(client: Client) -> None:
    status = {"best": {"trial": "digits-1", "value": "0.9888888888888889", "parameters": {"lr": "0.000123456"}}}
    async with serve(make_source(experiment=experiment_body(status=status))) as other:
        page = await read_page(other, f"{BASE}/")
    assert '<p class="value">0.9889</p>' in page
    assert '<dd title="0.000123456">1.235e-4</dd>' in page
    assert "0.98888" not in page
    assert "0.98888" not in await read_page(client, f"{BASE}/")


async def test_an_experiment_shows_the_newest_decisions_first(client: Client) -> None:
    later = {**STOPPED, "number": 2, "time": "2026-01-01T12:00:00Z", "message": "another word"}
    trials = [*list_trials(), trial_body(6, **done(0.6, ledger=[later]))]
    async with serve(make_source(trials)) as other:
        page = await read_page(other, f"{BASE}/")
    assert page.index("another word") < page.index("stopped at rung 3: accuracy 0.61 is below the cutoff 0.7")
    assert "1 Jan 12:00" in page


async def test_a_trial_shows_what_differs_from_the_best_one_and_why_it_was_stopped(client: Client) -> None:
    page = await read_page(client, f"{BASE}/trials/digits-0")
    assert re.search(r">momentum</th>.*the best does without", page)
    assert re.search(r">optimizer</th>.*another value", page)
    assert "stopped at rung 3: accuracy 0.61 is below the cutoff 0.7" in page
    assert "<span>peers 9</span>" in page
    assert "<span>cutoff" not in page  # its sentence says that
    assert "Its configuration comes from the search algorithm." in page
    assert re.search(r"Rank</dt><dd>4<small> of 4", page)


async def test_a_trial_shows_its_checkpoints_and_the_last_lines_of_a_failure() -> None:
    kept = [{"step": 3, "uri": "s3://models/digits-0/3", "digest": "sha256:0", "metric": "0.61"}]
    end = {
        "attempt": 2,
        "class": "user",
        "reason": "Error",
        "message": "exited",
        "exitCode": 3,
        "logTail": "boom\nbang",
    }
    trial = trial_body(0, state="ERROR", attempt=2, checkpoints=kept, lastAttempt=end)
    async with serve(make_source([trial])) as client:
        page = await read_page(client, f"{BASE}/trials/digits-0")
    assert "s3://models/digits-0/3" in page
    assert "<b>Error</b> exited (exit code 3)" in page
    assert "boom\nbang</pre>" in page


async def test_several_objectives_have_a_pareto_front() -> None:
    objective = {"metric": "accuracy", "mode": "max", "others": [{"metric": "latency", "mode": "min"}]}
    points = [(0.9, 30.0), (0.8, 10.0), (0.7, 20.0), (0.95, 40.0)]
    trials = [
        trial_body(index, **done(value, best={"accuracy": repr(value), "latency": repr(latency)}))
        for index, (value, latency) in enumerate(points)
    ]
    async with serve(make_source(trials, experiment_body(objective=objective))) as client:
        page = await read_page(client, f"{BASE}/")
        front = page[page.index('id="front"') : page.index('id="spending"')]
        assert re.findall(r"trials/(digits-\d)\"", front) == ["digits-1", "digits-0", "digits-3"]
        assert "<svg" in await read_page(client, f"{BASE}/charts/front.svg")


async def test_of_three_objectives_two_are_picked_for_the_front() -> None:
    others = [{"metric": "latency", "mode": "min"}, {"metric": "size", "mode": "min"}]
    objective = {"metric": "accuracy", "mode": "max", "others": others}
    points = [(0.9, 30.0, 5.0), (0.8, 10.0, 9.0), (0.7, 20.0, 7.0)]
    trials = [
        trial_body(index, **done(value, best={"accuracy": repr(value), "latency": repr(latency), "size": repr(size)}))
        for index, (value, latency, size) in enumerate(points)
    ]
    async with serve(make_source(trials, experiment_body(objective=objective))) as client:
        assert "accuracy against latency: no other trial" in await read_page(client, f"{BASE}/")
        page = await read_page(client, f"{BASE}/?front=latency&front=size")
        assert "latency against size: no other trial" in page
        front = page[page.index('id="front"') : page.index('id="spending"')]
        assert re.findall(r"trials/(digits-\d)\"", front) == ["digits-1", "digits-2", "digits-0"]
        assert "latency against size" in await read_page(client, f"{BASE}/charts/front.svg?front=latency&front=size")
        twice = await read_page(client, f"{BASE}/?front=size&front=size", 400)
        assert "front names 1 objective; name two different ones" in twice


@pytest.mark.parametrize("path", PAGES)
async def test_pages_have_nothing_inline_and_nothing_from_elsewhere(client: Client, path: str) -> None:
    answer = await client.get(path)
    page = Collector(await answer.text())
    assert answer.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert page.inline == 0
    assert not [each for each in page.attributes if each[1] == "style" or each[1].startswith("on")]
    assert page.links
    assert not [link for link in page.links if link.startswith("/") or ":" in link.partition("?")[0]]


@pytest.mark.parametrize("path", PAGES)
async def test_every_link_of_a_page_leads_somewhere(client: Client, path: str) -> None:
    start = client.make_url(path)
    page = Collector(await read_page(client, path))
    links = {link.partition("#")[0] for _, name, link in page.attributes if name in ("href", "src", "data-columns")}
    for link in sorted(links - {""}):
        answer = await client.get(start.join(URL(link)).relative())
        assert answer.status == 200, link


def test_scripts_and_styles_fetch_nothing_from_elsewhere() -> None:
    for file in find_static_files().values():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z]+\.|@import|eval\(|innerHTML", text), file.name


async def test_scripts_and_styles_are_compressed_once_for_all(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = await client.get("/static/scripts/live.js", headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    first = await client.get("/static/scripts/live.js", headers={"Accept-Encoding": "br, gzip"})
    assert first.headers["Content-Encoding"] == "gzip"
    assert (first.headers["Vary"], first.charset) == ("Accept-Encoding", "utf-8")
    assert int(first.headers["Content-Length"]) < int(plain.headers["Content-Length"])
    monkeypatch.setattr(gzip, "compress", None)
    again = await client.get("/static/scripts/live.js", headers={"Accept-Encoding": "br, gzip"})
    assert await again.text() == await first.text() == await plain.text()


def test_a_first_page_weighs_at_most_60_kilobytes() -> None:
    sizes = [len(gzip.compress(file.read_bytes())) for file in find_static_files().values()]
    assert sum(sizes) <= 60_000


async def test_what_an_experiment_holds_is_never_read_as_html() -> None:
    evil = "<script>alert(1)</script>"
    parameters = [{"name": evil, "choice": {"values": [evil, '"><img src=x onerror=alert(1)>']}}]
    decision = {**STOPPED, "message": evil, "inputs": {evil: evil}}
    trial = trial_body(0, {evil: evil}, **done(0.5, message=evil, reason=evil, ledger=[decision]))
    trial["spec"]["displayName"] = evil
    body = experiment_body(status={"state": "Running", "message": evil}, parameters=parameters)
    body["spec"]["objective"]["metric"] = evil
    async with serve(make_source([trial], body)) as client:
        for path in (
            *PAGES,
            f"{BASE}/compare?trial={evil}&trial=digits-0",
            f"{BASE}/compare?trial=digits-0",
            f"{BASE}/trials?q={evil}",
            f"{BASE}/trials/{evil.replace('/', '%2F')}",
            f"/{evil}",
        ):
            answer = await client.get(path)
            page = Collector(await answer.text())
            assert answer.status in (200, 400, 404), path
            assert page.inline == 0, path
            assert not [each for each in page.attributes if each[0] == "img" or each[1].startswith("on")], path


async def test_a_trial_with_nothing_on_record_has_a_page() -> None:
    async with serve(make_source([trial_body(0)], experiment_body(status={}))) as client:
        page = await read_page(client, f"{BASE}/")
        assert "No trial has reported accuracy yet." in page
        assert "Nothing to draw yet" in page
        assert "Not seen yet" in page
        assert "No operator has seen it yet." in page
        assert "No attempt has begun." in await read_page(client, f"{BASE}/trials/digits-0")
        assert "No operator has seen it yet." in await read_page(client, "/")


async def test_what_there_is_one_of_is_counted_as_one() -> None:
    decision = STOPPED | {"number": 2, "attempt": 3}
    trials = [trial_body(0, **done(0.61, attempt=3, failures=1, ledger=[decision])), trial_body(1)]
    experiment = experiment_body(search={"algorithm": "random", "maxTrials": 1})
    for shown in (trials[:1], trials):
        async with serve(make_source(shown, experiment)) as client:
            pages = [await read_page(client, path) for path in (*PAGES[:6], f"{BASE}/replay", PAGES[-1])]
        assert not [found for page in pages for found in ONE_OF_MANY.findall(page)]
    assert "1–1 of 1 attempt<" in pages[4]


async def test_an_experiment_without_trials_has_all_its_pages() -> None:
    async with serve(make_source([])) as client:
        for path in PAGES[:-3]:
            await read_page(client, path)
        assert "No trials yet" in await read_page(client, f"{BASE}/trials")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/experiments/team/other/", "There is no experiment &#39;other&#39; in namespace &#39;team&#39;."),
        ("/experiments/else/digits/trials", "There is no experiment &#39;digits&#39; in namespace &#39;else&#39;."),
        (f"{BASE}/trials/digits-99", "There is no trial &#39;digits-99&#39; in experiment &#39;digits&#39;."),
        (f"{BASE}/charts/other.svg", "has no chart &#39;other&#39;"),
        ("/nowhere/at/all", "This address leads to no page"),
        ("/static/..%2Fapp.py", "This address leads to no page"),
    ],
)
async def test_what_is_not_there_has_a_page_that_leads_back(client: Client, path: str, words: str) -> None:
    page = await read_page(client, path, 404)
    assert words in page
    assert "All experiments" in page


async def test_a_broken_page_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr("podtune.dashboard.pages.experiments.draw_progress", fail)
    page = await read_page(client, f"{BASE}/", 500)
    assert "This page failed" in page
    assert "broken" not in page
    await read_page(client, f"{BASE}/trials")


async def test_pages_work_behind_a_prefix(client: Client) -> None:
    start = client.make_url(f"/prefix{BASE}/trials/digits-0")
    page = Collector(await read_page(client, f"{BASE}/trials/digits-0"))
    for link in page.links:
        assert start.join(URL(link)).path.startswith("/prefix/"), link


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("localhost:8480", True),
        ("127.0.0.1:8480", True),
        ("127.0.0.1", True),
        ("[::1]:8480", True),
        ("example.org:8480", False),
        ("localhost.example.org", False),
        ("10.0.0.7:8480", False),
        ("", False),
    ],
)
def test_only_names_of_this_machine_are_answered(host: str, is_own: bool) -> None:
    assert is_loopback(host) == is_own


async def test_a_foreign_name_that_leads_here_is_refused(client: Client) -> None:
    answer = await client.get("/", headers={"Host": "rebound.example.org"})
    assert answer.status == 403
    assert "digits" not in await answer.text()


async def test_nothing_can_be_written(client: Client) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        answer = await client.request(method, f"{BASE}/trials")
        assert answer.status == 405


async def test_the_columns_hold_each_trial_once(client: Client) -> None:
    columns = json.loads(await read_page(client, f"{BASE}/columns.json"))
    by_name = {column["name"]: column for column in columns["columns"]}
    assert columns["names"] == [f"digits-{index}" for index in range(6)]
    progress = [columns["keys"][place] for place in columns["progress"]]
    # An archive holds no pods: what ran when it was made waits in it.
    assert progress == ["stopped", "done", "done", "pending", "failed", "pending"]
    assert by_name["optimizer"]["values"] == [0, 1, 2, 0, 1, 2]
    assert by_name["momentum"]["values"][1] is None
    assert by_name["accuracy"]["values"] == [0.61, 0.988889, 0.75, 0.7, None, None]
    assert by_name["accuracy"]["sign"] == 1
    assert (by_name["lr"]["log"], by_name["lr"]["low"], by_name["lr"]["high"]) == (True, 0.0001, 0.1)


async def test_ten_thousand_trials_make_small_pages() -> None:
    async with serve(make_source(list(make_many(10_000)))) as client:
        for path, most in (
            (f"{BASE}/trials?sort=-accuracy&q=optimizer=sgd", 80_000),
            (f"{BASE}/", 400_000),
            ("/", 20_000),
        ):
            page = await read_page(client, path)
            assert len(page) < most, path
        columns = await client.get(f"{BASE}/columns.json", headers={"Accept-Encoding": "gzip"})
        assert columns.headers["Content-Encoding"] == "gzip"
        assert len(json.loads(await columns.text())["names"]) == 10_000
