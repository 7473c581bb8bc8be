"""The table of trials: paging, sorting, filters, chosen columns, and the same for other programs."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from urllib.parse import quote

import pytest
from multidict import MultiDict

from podtune.cli.client.resources import TrialView
from podtune.dashboard import trial_rows
from podtune.dashboard.table.query import parse_query
from podtune.dashboard.trial_rows import ShownState, TrialRow
from tests.unit.dashboard.archives import BASE, Client, done, make_many, make_source, read_page, serve, trial_body

TRIALS = f"{BASE}/trials"
COLUMNS = ("trial", "state", "accuracy", "lr")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serve(make_source()) as client:
        yield client


async def list_names(client: Client, query: str) -> list[str]:
    rows = list(csv.DictReader(io.StringIO(await read_page(client, f"{TRIALS}.csv{query}"))))
    return [row["trial"].removeprefix("digits-") for row in rows]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", "012345"),
        ("?sort=accuracy", "032145"),
        ("?sort=-accuracy", "123045"),
        ("?sort=-trial", "543210"),
        ("?state=done", "12"),
        ("?state=done&state=stopped", "012"),
        ("?q=accuracy>0.7", "12"),
        ("?q=accuracy>=0.7", "123"),
        ("?q=optimizer=adamw", "14"),
        ("?q=optimizer=ADAMW", "14"),
        ("?q=optimizer!=adamw", "0235"),
        ("?q=momentum<1", "03"),
        ("?q=units=32", "1"),
        ("?q=units=32.0", "1"),
        ("?q=maxfailures", "4"),
        ("?q=digits-3", "3"),
        ("?q=optimizer=adamw accuracy>0.5", "1"),
        ("?q=nothing-like-it", ""),
    ],
)
async def test_the_table_holds_what_its_address_asks_for(client: Client, query: str, names: str) -> None:
    assert "".join(await list_names(client, quote(query, safe="?=&"))) == names


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?sort=speed", "sort is &#39;speed&#39;; take one of trial, state, accuracy, lr,"),
        ("?q=speed>3", "the column of &#39;speed&gt;3&#39; is &#39;speed&#39;; take one of trial, state"),
        ("?column=speed", "column is &#39;speed&#39;; take one of trial, state"),
        ("?q=lr<fast", "&#39;fast&#39; is not a number"),
        ("?state=happy", "state is &#39;happy&#39;; take one of running, paused"),
        ("?page=0", "page is &#39;0&#39;; write a whole number from 1 on"),
        ("?size=many", "size is &#39;many&#39;"),
        ("?q=" + "a " * 21, "the filter has 21 conditions; use at most 20"),
    ],
)
async def test_what_there_is_not_is_said_and_the_filter_stays(client: Client, query: str, words: str) -> None:
    page = await read_page(client, TRIALS + quote(query, safe="?=&"), 400)
    assert words in page
    assert 'name="q"' in page
    await read_page(client, f"{TRIALS}.csv{quote(query, safe='?=&')}", 400)


async def test_a_page_says_where_it_is_and_leads_to_the_others() -> None:
    async with serve(make_source(list(make_many(60)))) as client:
        first = await read_page(client, f"{TRIALS}?size=25&sort=-accuracy")
        assert first.count("<tr") == 26
        assert "1–25 of 60" in first
        assert "?sort=-accuracy&amp;page=2&amp;size=25" in first
        last = await read_page(client, f"{TRIALS}?size=25&page=9")
        assert "51–60 of 60" in last
        assert "Page 3 of 3" in last


async def test_a_heading_sorts_by_its_column_and_then_the_other_way_round(client: Client) -> None:
    assert "?sort=accuracy" in await read_page(client, TRIALS)
    page = await read_page(client, f"{TRIALS}?sort=accuracy")
    assert 'aria-sort="ascending"' in page
    assert "?sort=-accuracy" in page


async def test_no_trial_matches_is_said(client: Client) -> None:
    assert "None of the 6 trials meets all conditions." in await read_page(client, f"{TRIALS}?q=zzz")


async def test_numbers_of_a_column_have_one_precision() -> None:
    trials = [trial_body(0, **done(0.9)), trial_body(1, **done(0.98888888))]
    async with serve(make_source(trials)) as client:
        page = await read_page(client, TRIALS)
    assert '<td class="n">0.9000</td>' in page
    assert '<td class="n">0.9889</td>' in page


async def test_downloads_have_the_chosen_columns_and_all_pages() -> None:
    async with serve(make_source(list(make_many(300)))) as client:
        query = "?column=accuracy&column=optimizer&size=25&page=2"
        lines = (await read_page(client, f"{TRIALS}.csv{query}")).splitlines()
        assert lines[0] == "trial,accuracy,optimizer"
        assert len(lines) == 301
        facts = json.loads(await read_page(client, f"{TRIALS}.json{query}"))
        assert facts["experiment"] == "digits"
        assert facts["items"][0] == {"trial": "digits-0", "accuracy": 0.5, "optimizer": "sgd"}
        answer = await client.get(f"{TRIALS}.csv")
        assert answer.headers["Content-Disposition"] == 'attachment; filename="digits-trials.csv"'


async def test_a_spreadsheet_runs_nothing_that_a_parameter_holds() -> None:
    trial = trial_body(0, {"optimizer": "=HYPERLINK(1)", "lr": "-0.5"}, **done(0.5))
    async with serve(make_source([trial])) as client:
        lines = (await read_page(client, f"{TRIALS}.csv?column=optimizer&column=lr")).splitlines()
    assert lines[1] == "digits-0,'=HYPERLINK(1),-0.5"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=A1", "'=A1"),
        (" =A1", " '=A1"),
        ("-1+A1", "'-1+A1"),
        ("\tx", "'\tx"),
        ("＝A1", "'＝A1"),
        ("adam;=A1", "adam;'=A1"),
        ("adam\t@SUM(A1);\u00a0+A1", "adam\t'@SUM(A1);\u00a0'+A1"),
        ("adam\n=A1", "adam\n'=A1"),
        ("-0.5", "-0.5"),
        ("-1e-05", "-1e-05"),
        ("[-1, -0.5, +2e3]", "[-1, -0.5, +2e3]"),
        ("warm-up, a=b; c@d", "warm-up, a=b; c@d"),
    ],
)
async def test_a_formula_has_an_apostrophe_before_and_a_number_is_as_it_was(value: str, cell: str) -> None:
    async with serve(make_source([trial_body(0, {"optimizer": value}, **done(0.5))])) as client:
        text = await (await client.get(f"{TRIALS}.csv?column=optimizer")).text()
    assert list(csv.reader(io.StringIO(text, newline="")))[1] == ["digits-0", cell]


async def test_any_page_of_ten_thousand_is_small_and_makes_its_own_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    source = make_source(list(make_many(10_000)))
    monkeypatch.setattr("podtune.dashboard.trial_rows._make_row", _count(made))
    async with serve(source) as client:
        for query in ("", "?sort=-accuracy&page=200", "?q=lr<0.01&sort=units", "?state=done&page=7"):
            page = await read_page(client, TRIALS + quote(query, safe="?=&"))
            assert len(re.findall("<tr", page)) == 51
            assert len(page) < 100_000
    assert len(made) == 10_000  # once for all pages


def _count(made: list[str]) -> Callable[[TrialView, Sequence[str]], TrialRow]:
    make = trial_rows._make_row

    def count(trial: TrialView, metrics: Sequence[str]) -> TrialRow:
        made.append(trial.name)
        return make(trial, metrics)

    return count


def test_an_address_restores_the_table_that_it_was_made_of() -> None:
    pairs = [("q", "lr<0.1 fast"), ("state", "done"), ("sort", "-lr"), ("column", "lr"), ("page", "3"), ("size", "100")]
    query = parse_query(MultiDict(pairs), COLUMNS)
    assert query.progress == (ShownState.DONE,)
    assert (query.sort, query.descending, query.columns, query.page, query.size) == ("lr", True, ("lr",), 3, 100)
    assert query.encode() == "?q=lr%3C0.1+fast&state=done&sort=-lr&column=lr&page=3&size=100"
    assert parse_query(MultiDict(), COLUMNS).encode() == "?"
