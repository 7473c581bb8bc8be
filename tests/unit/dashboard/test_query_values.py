"""What an address asks for and can't mean is refused everywhere, with the value's name and what to write instead."""

from __future__ import annotations

import html

import pytest
from multidict import MultiDict

from podtune.dashboard.query_values import (
    MOST_TOLD,
    QueryError,
    check_choice,
    read_choices,
    read_time,
    read_whole_number,
)
from tests.unit.dashboard.archives import BASE, make_source, read_page, serve

STATES = "take one of done, stopped, running, paused, pending, failed"


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/?sort=weight", "sort is 'weight'; take one of name, namespace, state"),
        ("/?page=x", "page is 'x'; write a whole number from 1 on"),
        (f"{BASE}/?x=space", "x is 'space'; take one of trials, time"),
        (f"{BASE}/?objective=loss", "objective is 'loss'; take one of accuracy"),
        (f"{BASE}/?curves=3", "curves is '3'; take one of iteration, time"),
        (f"{BASE}/?log=z", "log is 'z'; take one of x, y, xy"),
        (f"{BASE}/?front=loss&front=accuracy", "front is 'loss'; take one of accuracy"),
        (f"{BASE}/?front=accuracy", "front names 1 objective; name two different ones"),
        (f"{BASE}/charts/curves.json?log=z", "log is 'z'"),
        (f"{BASE}/charts/progress.svg?theme=pink", "theme is 'pink'; take one of light, dark"),
        (f"{BASE}/charts/timeline.svg?state=lazy", f"state is 'lazy'; {STATES}"),
        (f"{BASE}/parameters?x=depth", "x is 'depth'; take one of lr, optimizer"),
        (f"{BASE}/parameters?importance=loss", "importance is 'loss'; take one of accuracy"),
        (f"{BASE}/parameters?by=tea-leaves", "by is 'tea-leaves'; take one of "),
        (f"{BASE}/compare?trial=digits-0&trial=digits-1&log=z", "log is 'z'"),
        (f"{BASE}/replay?at=noon", "at is 'noon'; write a whole number from 0 on: seconds since the start"),
        (f"{BASE}/replay?at=-5", "at is '-5'"),
        (f"{BASE}/replay?at={'9' * 13}", "at is '9999"),
        (f"{BASE}/replay?at=²", "at is '²'"),
        (f"{BASE}/replay/tape.json?y=depth", "y is 'depth'; take one of lr, optimizer"),
        (f"{BASE}/trials.csv?size=many", "size is 'many'; write a whole number from 1 on"),
    ],
)
async def test_a_value_that_can_not_be_meant_is_refused_in_words(address: str, words: str) -> None:
    async with serve(make_source()) as client:
        page = html.unescape(await read_page(client, address, 400))
    assert f"In this address, {words}" in page
    assert "All experiments" in page


async def test_an_empty_value_is_none() -> None:
    async with serve(make_source()) as client:
        assert 'class="card"' in await read_page(client, "/?q=&state=&namespace=&sort=&page=")
        for page in ("?x=&objective=&log=&front=", "trials?sort=&page=&state=", "timeline?from=&size=", "replay?at="):
            await read_page(client, f"{BASE}/{page}")


def test_values_are_read_once_each_in_their_order() -> None:
    query = MultiDict([("state", "b"), ("state", ""), ("state", "a"), ("state", "b"), ("page", "12"), ("from", "x")])
    assert read_choices(query, "state", "abc") == ("b", "a")
    assert (read_whole_number(query, "page", 1), read_whole_number(query, "size", 50)) == (12, 50)
    assert read_time(query, "to") is None
    with pytest.raises(QueryError, match="from is 'x'; write a time as"):
        read_time(query, "from")


def test_of_very_many_values_some_are_named() -> None:
    known = [f"p{number}" for number in range(500)]
    assert check_choice("x", "p499", known) == "p499"
    with pytest.raises(QueryError, match=f", p{MOST_TOLD - 1} and {500 - MOST_TOLD} more$"):
        check_choice("x", "q", known)
