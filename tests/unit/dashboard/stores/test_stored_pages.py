"""All results of a trial, and the sizes of its checkpoints: read on request, and never more than a page can hold."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from podtune.cli.errors import CliError
from podtune.dashboard.access.gate import Access
from podtune.dashboard.access.reviews import Reviewer
from podtune.dashboard.access.session import ProxyTrust
from podtune.dashboard.app import AppSettings, make_app
from podtune.dashboard.pages import meanwhile
from podtune.dashboard.pages import stored as stored_pages
from podtune.dashboard.stores import history
from podtune.dashboard.stores.limits import ReadLimits
from podtune.storage.errors import AccessDenied
from tests.unit.dashboard.access.reviewing_api import ALICE, Grant, ReviewingApi, bearer, open_source, serve_app
from tests.unit.dashboard.archives import BASE, Client, make_source, read_page, trial_body
from tests.unit.dashboard.live.live_api import team_experiment
from tests.unit.dashboard.stores.stored_trial import TRIAL, UID, OpenStores, StoredTrial, make_file, store_locally

PAGE = f"{BASE}/trials/{TRIAL}"
WAIT = 30
NOON = 12 * 3600.0
LOGS: set[Grant] = {("alice", "get", "pods", "team", "")}


@pytest.fixture
def stored(tmp_path: Path) -> StoredTrial:
    return store_locally(tmp_path)


@pytest.fixture
def stores(stored: StoredTrial) -> OpenStores:
    return OpenStores(stored)


def describe_trials(stored: StoredTrial) -> list[dict[str, Any]]:
    checkpoints = [
        stored.store_checkpoint(3, make_file("model", 3 << 20)),
        stored.store_checkpoint(
            9,
            make_file("model", 3 << 20, object="pod-1/3/data/model"),
            make_file("head", 512, object="pod-1/9/packs/0-0"),
        ),
    ]
    status: dict[str, Any] = {
        "state": "RUNNING",
        "attempt": 1,
        "iteration": 9,
        "bestValue": "0.9",
        "best": {"accuracy": "0.9"},
        "checkpoints": [checkpoint.model_dump(by_alias=True) for checkpoint in checkpoints],
    }
    return [trial_body(0, **status), trial_body(1)]


@pytest.fixture
async def client(stored: StoredTrial, stores: OpenStores) -> AsyncIterator[Client]:
    source = make_source(describe_trials(stored), stored.describe())
    async with TestClient(TestServer(make_app(source, AppSettings(stores=stores, clock=lambda: NOON)))) as client:
        yield client


async def test_a_trial_page_reads_no_store_and_leads_to_what_does(client: Client, stores: OpenStores) -> None:
    page = await read_page(client, PAGE)
    assert 'trials/digits-0/results">All results</a>' in page
    assert 'trials/digits-0/checkpoints">Show their sizes</a>' in page
    assert stores.opened == 0


async def test_all_results_are_drawn_listed_and_saved(client: Client, stored: StoredTrial) -> None:
    stored.report(300)
    page = await read_page(client, f"{PAGE}/results")
    assert "300 results in the store at 12:00:00 UTC" in page
    assert page.count("<tr>") == 1 + stored_pages.MOST_RESULT_ROWS
    assert "The latest 100; the CSV has all." in page
    table = list(csv.reader(io.StringIO(await read_page(client, f"{PAGE}/results.csv"))))
    assert table[0] == ["attempt", "iteration", "time_total_s", "accuracy"]
    assert [table[1][:3], table[300][:3]] == [["1", "1", "2.0"], ["1", "300", "600.0"]]
    assert float(table[300][3]) == pytest.approx(0.99752, abs=1e-5)
    points = json.loads(await read_page(client, f"{PAGE}/results.json"))
    assert points["labels"] == ["iteration", "accuracy"]
    name, word, xs, _, steps, values = points["items"][0]
    assert (name, word, len(xs), steps[-1], values[-1]) == (TRIAL, "Pending", 300, "300", "0.9975")
    assert "digits-0: learning curve" in await read_page(client, f"{PAGE}/results.svg")


async def test_the_axes_are_those_of_the_address(client: Client, stored: StoredTrial) -> None:
    stored.report(10)
    page = await read_page(client, f"{PAGE}/results?curves=time&log=x")
    assert '/experiments/team/digits/trials/digits-0/results.json?curves=time&amp;log=x"' in page
    assert json.loads(await read_page(client, f"{PAGE}/results.json?curves=time"))["labels"][0] == "seconds of training"


async def test_a_page_is_read_once_with_its_parts(
    client: Client, stored: StoredTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.report(5)
    assert "5 results" in await read_page(client, f"{PAGE}/results")
    stored.report(5, attempt=2, first=6)
    assert "5 results" in await read_page(client, f"{PAGE}/results")
    monkeypatch.setattr(history, "FRESH_SECONDS", 0.0)
    assert "10 results" in await read_page(client, f"{PAGE}/results")


async def test_a_stretch_that_ran_again_is_drawn_as_one_that_went_back(client: Client, stored: StoredTrial) -> None:
    stored.report(20)
    stored.report(20, attempt=2, first=11)
    page = await read_page(client, f"{PAGE}/results")
    assert "40 results in the store" in page
    assert "went back: a stretch ran again" in page


@pytest.mark.parametrize(("namespace", "count"), [("team", 30), ("other", 20), ("", 20)])
async def test_what_was_stored_before_a_restore_is_shown_if_it_is_of_the_namespace(
    stored: StoredTrial, stores: OpenStores, namespace: str, count: int
) -> None:
    stored.uid = "e-0"
    if namespace:
        stored.store_experiment(namespace)
    stored.report(20)
    stored.print_lines("before the loss")
    checkpoint = stored.store_checkpoint(10, make_file("model", 512), uid="e-0")
    stored.uid = UID
    stored.report(20, attempt=2, first=11)
    stored.print_lines("after it", attempt=2)
    experiment = stored.describe()
    experiment["metadata"]["annotations"] = {"podtune.dev/former": "e-0/digits"}
    source = make_source([trial_body(0, checkpoints=[checkpoint.model_dump(by_alias=True)])], experiment)
    async with TestClient(TestServer(make_app(source, AppSettings(stores=stores, clock=lambda: NOON)))) as client:
        assert f"{count} results in the store" in await read_page(client, f"{PAGE}/results")
        logs = await read_page(client, f"{PAGE}/stored-logs")
        is_shown = namespace == "team"
        assert ("before the loss" in logs) is is_shown
        assert logs.index("after it") < (logs.index("before the loss") if is_shown else len(logs))
        assert ("in another experiment" in await read_page(client, f"{PAGE}/checkpoints")) is not is_shown


async def test_without_results_the_page_says_so(client: Client) -> None:
    assert "The store has no result of it with accuracy" in await read_page(client, f"{PAGE}/results")
    assert "has stored nothing that these axes can show" in await read_page(client, f"{PAGE}/results.svg", 404)


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (AccessDenied("bucket 'models' refuses: give s3:GetObject"), "bucket 'models' refuses: give s3:GetObject"),
        (CliError("you have not logged in with a token"), "you have not logged in with a token"),
    ],
)
async def test_what_cannot_be_read_is_explained(
    client: Client, stores: OpenStores, failure: Exception, words: str
) -> None:
    stores.failure = failure
    for path in ("results", "checkpoints"):
        page = html.unescape(await read_page(client, f"{PAGE}/{path}"))
        assert f'role="alert">{words}<' in page
        assert "kubectl podtune" in page
    assert words in html.unescape(await read_page(client, f"{PAGE}/results.csv", 404))


async def test_who_may_not_read_the_store_is_not_shown_what_another_has_read(
    client: Client, stores: OpenStores, stored: StoredTrial
) -> None:
    stored.report(5)
    assert "5 results" in await read_page(client, f"{PAGE}/results")
    stores.failure = CliError("you have not logged in with a token")
    assert "5 results" not in await read_page(client, f"{PAGE}/results")


async def test_where_no_store_can_be_read_there_is_no_link(client: Client, stores: OpenStores) -> None:
    stores.obstacle = "the store of digits is a volume, which takes a pod to read"
    page = await read_page(client, PAGE)
    assert "All results" not in page
    assert "Show their sizes" not in page
    page = await read_page(client, f"{PAGE}/results", 404)
    assert "The store of digits is a volume, which takes a pod to read." in page
    assert "kubectl podtune results digits-0 -n team" in page


async def test_a_page_reads_no_more_than_it_can_hold(
    client: Client, stored: StoredTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.report(50)
    monkeypatch.setattr(history, "MOST_RESULTS", 20)
    page = await read_page(client, f"{PAGE}/results")
    assert "20 results in the store" in page
    assert "These are the first ones only: there are more than 20 results." in page


async def test_a_silent_store_holds_neither_page_nor_other_pages(
    client: Client, stores: OpenStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_pages, "LONGEST_STORE_WAIT", 0.01)
    answers = threading.Event()
    monkeypatch.setattr(stores.stored.store, "list", lambda _: iter(str(answers.wait(WAIT))))
    for _ in range(stored_pages.MOST_STORE_READERS):
        assert "The store has not answered within 0.01 seconds" in await read_page(client, f"{PAGE}/results")
    assert "waiting for a store to answer" in await read_page(client, f"{PAGE}/results", 503)
    assert "All results" in await read_page(client, PAGE)
    answers.set()


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("results", "5 results in the store"),
        ("checkpoints", 'title="3,145,728 bytes"'),
        ("stored-logs", "hello"),
        ("results", RuntimeError("the page is broken")),
    ],
)
async def test_a_page_says_that_it_reads_until_the_store_has_answered(
    client: Client, stores: OpenStores, monkeypatch: pytest.MonkeyPatch, name: str, answer: str | Exception
) -> None:
    monkeypatch.setattr(meanwhile, "ANNOUNCE_AFTER", 0.01)
    stores.stored.report(5)
    stores.stored.print_lines("hello")
    answers, open_now = threading.Event(), stores.open

    def open_late(*asked: Any) -> Any:
        answers.wait(WAIT)
        if isinstance(answer, Exception):
            raise answer
        return open_now(*asked)

    monkeypatch.setattr(stores, "open", open_late)
    async with client.get(f"{PAGE}/{name}") as response:
        said = (await response.content.readuntil(b"No answer yet.")).decode()
        answers.set()
        rest = (await response.content.read()).decode()
    assert "Reading the store of digits" in said
    assert (answer if isinstance(answer, str) else "This page failed") in rest
    assert [(said + rest).count(tag) for tag in ("<html", "<main", "</main>", "</html>")] == [1, 1, 1, 1]


async def test_checkpoints_have_the_sizes_of_their_manifests(client: Client) -> None:
    page = await read_page(client, f"{PAGE}/checkpoints")
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(<td.*?)</tr>", page)]
    assert [row[:6] for row in rows] == [
        ["9", "0.9", "3 MiB", "512 B", "2", "1 Jan 10:05"],
        ["3", "0.9", "3 MiB", "3 MiB", "1", "1 Jan 10:05"],
    ]


async def test_of_many_checkpoints_those_that_are_not_read_are_listed_all_the_same(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_pages, "LIMITS", ReadLimits(bytes=400))
    page = await read_page(client, f"{PAGE}/checkpoints")
    assert page.count("not read: there are more than") >= 1
    assert page.count("/pod-1/") == 2


async def test_the_ends_of_the_logs_of_all_attempts_are_read(client: Client, stored: StoredTrial) -> None:
    stored.print_lines("<b>first</b>", "out of memory", attempt=1)
    stored.print_lines(*(f"epoch {epoch}" for epoch in range(1, 1001)), attempt=2)
    page = await read_page(client, f"{PAGE}/stored-logs")
    assert re.findall(r"<summary>(.*?) <span class=\"count\">(.*?)</span>", page) == [
        ("Attempt 2", "the end of 1,000 lines"),
        ("Attempt 1", "2 lines"),
    ]
    latest, first = (html.unescape(text).split("\n") for text in re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL))
    assert (len(latest), latest[0], latest[-1]) == (300, "epoch 701", "epoch 1000")
    assert first == ["<b>first</b>", "out of memory"]
    assert "kubectl podtune logs digits-0 -n team --stored" in page


async def test_stored_logs_take_the_right_to_read_those_of_pods(stored: StoredTrial) -> None:
    stored.print_lines("a secret of the program")
    api = ReviewingApi()
    page = f"{PAGE}/stored-logs"
    for source in open_source(api, team_experiment() | {"spec": stored.describe()["spec"]}):
        for grants, words in (
            (set[Grant](), "you need the right to get pods/log in namespace team"),
            (LOGS, "a secret"),
        ):
            api.grants |= grants
            access = Access(Reviewer(lambda: api), timedelta(hours=1), ProxyTrust())
            async with serve_app(source, access, stores=OpenStores(stored)) as client:
                text = await (await client.get(page, headers=bearer(ALICE))).text()
            assert words in text
            assert ("a secret" in text) is bool(grants)


async def test_without_stored_logs_the_page_says_so(client: Client, stores: OpenStores) -> None:
    assert "The store has none of it" in await read_page(client, f"{PAGE}/stored-logs")
    assert "stored-logs" not in await read_page(client, PAGE)  # logs.keep is not set
    stores.failure = AccessDenied("bucket 'models' refuses: give s3:GetObject")
    assert "refuses: give s3:GetObject" in html.unescape(await read_page(client, f"{PAGE}/stored-logs"))


async def test_an_archive_offers_none_of_this(stored: StoredTrial) -> None:
    source = make_source(describe_trials(stored), stored.describe())
    async with TestClient(TestServer(make_app(source))) as client:
        assert "All results" not in await read_page(client, PAGE)
        assert "This dashboard reads no stores" in await read_page(client, f"{PAGE}/results", 404)
        await read_page(client, f"{BASE}/trials/digits-9/results", 404)
