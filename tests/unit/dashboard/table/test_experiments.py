"""The list of experiments: few as cards, many as a table that is filtered, sorted and cut by its address."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.dashboard.sources import ArchiveSource, ExperimentSource
from tests.unit.dashboard.archives import done, experiment_body, make_source, pack, read_page, serve, trial_body

START = "2026-01-01T10:00:00Z"


class ManySource(ExperimentSource):
    """Several archives as one source."""

    title = "all namespaces"

    def __init__(self, sources: Sequence[ArchiveSource]) -> None:
        found = [(source.list_experiments()[0], source) for source in sources]
        self._found = {(view.namespace, view.name): (view, source) for view, source in found}

    def list_experiments(self) -> Sequence[ExperimentView]:
        return [self._found[key][0] for key in sorted(self._found)]

    def find_experiment(self, namespace: str, name: str) -> ExperimentView | None:
        return self._found[namespace, name][0] if (namespace, name) in self._found else None

    def list_trials(self, namespace: str, experiment: str) -> Sequence[TrialView]:
        found = self._found.get((namespace, experiment))
        return found[1].list_trials(namespace, experiment) if found is not None else ()


def make_one(name: str, namespace: str = "team", ended: int = 1, failed: int = 0, **status: Any) -> ArchiveSource:
    """An experiment of ten trials of which so many have ended and failed."""
    counts = {"total": 10, "terminated": ended, "error": failed}
    known = {"state": "Running", "startTime": START, "trials": counts} | status
    body = experiment_body(name, status=known, search={"maxTrials": 10})
    body["metadata"]["namespace"] = namespace
    errors = [trial_body(index, state="ERROR") for index in range(failed)]
    trials = [*errors, *(trial_body(index, **done(0.5 + index / 100)) for index in range(failed, failed + ended))]
    return ArchiveSource(pack(trials, body), name)


SOURCE = ManySource(
    [
        make_one("alpha", ended=8),
        make_one("beta", ended=2, failed=3, message="<b>stuck</b>"),
        make_one("gamma", "vision", ended=5, state="Complete", completionTime="2026-01-01T12:00:00Z"),
        make_one("delta", "vision", ended=4, startTime="2026-01-02T10:00:00Z"),
        make_one("epsilon", "vision", ended=0, state="", startTime=None),
    ]
)


async def list_names(query: str) -> list[str]:
    async with serve(SOURCE) as client:
        page = await read_page(client, f"/{query}")
    return re.findall(r'<th scope="row" class="name"><a href="\./experiments/\w+/(\w+)/"', page)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["alpha", "beta", "delta", "epsilon", "gamma"]),
        ("?q=ALPH", ["alpha"]),
        ("?q=vision+a", ["delta", "epsilon", "gamma"]),
        ("?q=stuck", ["beta"]),
        ("?namespace=team", ["alpha", "beta"]),
        ("?state=Complete&state=Not+seen+yet", ["epsilon", "gamma"]),
        ("?sort=-failed", ["beta", "alpha", "delta", "epsilon", "gamma"]),
        ("?sort=-progress&namespace=vision", ["gamma", "delta", "epsilon"]),
        ("?sort=left", ["alpha", "beta", "delta", "epsilon", "gamma"]),
        ("?sort=-started", ["delta", "alpha", "beta", "gamma", "epsilon"]),
        ("?page=99", ["alpha", "beta", "delta", "epsilon", "gamma"]),
    ],
)
async def test_the_address_says_which_are_shown_and_in_which_order(query: str, names: list[str]) -> None:
    assert await list_names(query) == names


async def test_a_row_shows_how_far_it_is_how_long_it_will_take_and_what_failed() -> None:
    async with serve(SOURCE) as client:
        page = await read_page(client, "/?q=alpha")
        assert re.search(r"<small>8 of 10 · about 20m left</small>", page)  # an hour and a half for eight of ten
        assert '<svg class="spark"' in page
        assert re.search(r'data-label="GPU-hours">12\.0<', page)
        assert "1 of 5 experiments" in page
        page = await read_page(client, "/?q=beta")
        assert re.search(r'class="n bad" data-label="Failed">3<', page)
        assert "<b>" not in page


async def test_links_of_headings_keep_the_filter_and_turn_the_order() -> None:
    async with serve(SOURCE) as client:
        page = await read_page(client, "/?q=a&state=Running&sort=failed")
    assert 'aria-sort="ascending"><a href="./?q=a&amp;state=Running&amp;sort=-failed">' in page
    assert '<option value="failed" selected>' in page


async def test_where_none_matches_there_is_a_way_back() -> None:
    async with serve(SOURCE) as client:
        page = await read_page(client, "/?q=nothing")
    assert "None of the 5 experiments meets all conditions." in page
    assert '<a href="./">Show all</a>' in page


async def test_a_few_have_a_card_each_and_nothing_to_filter() -> None:
    async with serve(make_source()) as client:
        page = await read_page(client, "/")
    assert '<li class="card">' in page
    assert 'role="search"' not in page


async def test_two_hundred_are_cut_into_pages() -> None:
    async with serve(ManySource([make_one(f"run{number:03}") for number in range(200)])) as client:
        page = await read_page(client, "/?sort=-name&page=2")
    assert "Page 2 of 2" in page
    assert '<a rel="prev" href="./?sort=-name">' in page
    assert re.findall(r'class="name"><a href="\./experiments/team/(\w+)/"', page)[:2] == ["run099", "run098"]
