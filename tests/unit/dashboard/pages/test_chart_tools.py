"""What every chart can be taken away as: a link that restores it, a picture, and a table."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree as ET

import pytest

from podtune.dashboard.rendering import read_palette
from tests.unit.dashboard.archives import (
    BASE,
    Client,
    Manifest,
    done,
    experiment_body,
    make_source,
    read_page,
    serve,
    trial_body,
)

OBJECTIVE = {"metric": "accuracy", "mode": "max", "others": [{"metric": "loss", "mode": "min"}]}
HALVING = {"hyperband": {"maxTime": 9, "reductionFactor": 3}}
POPULATION = {"pbt": {"perturbationInterval": 5, "timeAttribute": "epoch"}}
CASES = [
    (f"{BASE}/?x=time&objective=loss&curves=time&log=xy&front=loss&front=accuracy", HALVING),
    (f"{BASE}/parameters?importance=loss&x=units&y=lr&course=1", HALVING),
    (f"{BASE}/timeline?by=node&state=done&size=25&from=2026-01-01T10:30:00&to=2026-01-01T11:00:00", HALVING),
    (f"{BASE}/scheduler", HALVING),
    (f"{BASE}/scheduler?trial=digits-21", POPULATION),
    (f"{BASE}/trials/digits-3", HALVING),
    (f"{BASE}/compare?trial=digits-3&trial=digits-4&objective=loss&curves=time&log=y", HALVING),
]
EXPECTED = {
    "progress", "front", "spending", "states", "curves", "rungs", "importance", "contour", "failures", "slice-lr",
    "purposes", "timeline", "brackets", "family", "schedule", "curve",
}  # fmt: skip

SCRIPTS = {"plot": "plots", "points": "learning", "titles": "titles"}
"""Which script names the marks of a chart, by the attribute that asks for it."""


def curve(*values: float) -> Manifest:
    steps = list(range(1, len(values) + 1))
    columns = [list(values), [1 - value for value in values]]
    return {
        "results": len(steps),
        "every": 1,
        "steps": steps,
        "seconds": [60 * step for step in steps],
        "values": columns,
    }


def make_trials(count: int = 24) -> list[Manifest]:
    """So many that have ended, one of them stopped and one cloned from another, and one that failed."""
    scheduler = {"bracket": {"band": "0", "s": "0", "round": "0"}, "rungs": {"3": "0.5"}}
    ended = [
        trial_body(index, **done(value, best={"accuracy": repr(value), "loss": repr(1 - value**2)}), **facts)
        for index in range(count)
        for value in [0.3 + (index * 7 % count) / count / 2]
        for facts in [{"curve": curve(value / 3, value / 2, value), "scheduler": scheduler}]
    ]
    failure = {"attempt": 1, "class": "user", "reason": "Error", "message": "exited", "exitCode": 3}
    exploit = {
        "number": 1,
        "time": "2026-01-01T10:30:00Z",
        "attempt": 1,
        "step": 2,
        "action": "EXPLOIT",
        "message": "clones trial 3 (accuracy 0.9) at epoch 2: accuracy 0.6 is rank 4 of 4",
        "inputs": {"value": "0.6", "donorValue": "0.9", "donor": "digits-3", "checkpoint": "2", "lr": "0.05"},
    }
    rung = {"rung": "3", "metric": "accuracy", "value": "0.4", "cutoff": "0.5", "peers": "9"}
    stop = exploit | {"action": "STOP", "step": 3, "message": "stopped at rung 3", "inputs": rung}
    ended[20]["status"] |= {"reason": "StoppedByScheduler", "ledger": [stop]}
    ended[21]["status"] |= {"ledger": [exploit]}
    return [*ended, trial_body(count, state="ERROR", attempt=1, failures=1, lastAttempt=failure)]


def cut_charts(page: str) -> dict[str, str]:
    """The cards that have a picture to download, by what their links lead to."""
    cards = re.split(r'(?=<(?:section|figure) class="card)', page)[1:]
    charts = [card for card in cards if "data-theme-link" in card or 'class="frame"' in card or 'class="bars"' in card]
    return {name_chart(card): card for card in charts}


def name_chart(card: str) -> str:
    name = re.search(r'id="([^"]+)"', card)
    assert name is not None
    return unescape(name[1])


def cut_off_switches(card: str) -> str:
    """A card without what leads to other axes: that keeps what the page's other charts show."""
    return re.sub(r'<nav class="switch".*?</nav>', "", card)


def find_links(card: str) -> list[str]:
    return [unescape(link) for link in re.findall(r'href="([^"]+)" aria-label="Link to [^"]+">Link<', card)]


async def read_charts(client: Client, path: str) -> dict[str, str]:
    return cut_charts(await read_page(client, path))


@pytest.mark.parametrize(("path", "scheduler"), CASES, ids=[path for path, _ in CASES])
async def test_the_link_of_each_chart_restores_it_exactly(path: str, scheduler: Manifest) -> None:
    body = experiment_body(objective=OBJECTIVE, scheduler=scheduler)
    async with serve(make_source(make_trials(), body)) as client:
        charts = await read_charts(client, path)
        assert charts
        for name, card in charts.items():
            links = find_links(card)
            assert links, f"{name} has no link"
            for link in links:
                address = urlsplit(urljoin(path, link))
                page = await read_page(client, f"{address.path}?{address.query}")
                assert f'id="{address.fragment}"' in page, f"{link} leads to no part of the page"
                assert cut_off_switches(cut_charts(page)[name]) == cut_off_switches(card), (
                    f"{link} shows another {name}"
                )


async def check_picture(client: Client, path: str, theme: str) -> None:
    """It can be read as XML, on the ground of its theme, and has no colour that pages don't have."""
    text = await read_page(client, f"{path}{'&' if '?' in path else '?'}theme={theme}")
    picture, palette = ET.fromstring(text), read_palette(is_dark=theme == "dark")
    ground = picture.find("{http://www.w3.org/2000/svg}rect")
    assert ground is not None
    assert ground.get("fill") == palette["card"]
    assert set(re.findall(r"#[0-9a-f]{3,8}\b", text)) <= set(palette.values()), path
    assert "Undefined" not in text


async def test_no_chart_goes_without_a_link_a_picture_and_a_table() -> None:
    found = set()
    for path, scheduler in CASES:
        body = experiment_body(objective=OBJECTIVE, scheduler=scheduler)
        async with serve(make_source(make_trials(), body)) as client:
            for name, card in (await read_charts(client, path)).items():
                found.add(name)
                assert "<table" in card or name.startswith("slice-"), f"{name} has no table"
                assert find_links(card), f"{name} has no link"
                pictures = re.findall(r'data-theme-link href="([^"]+)"', card)
                assert pictures, f"{name} has no picture"
                for picture in pictures:
                    for theme in ("light", "dark"):
                        await check_picture(client, urljoin(path, unescape(picture)), theme)
    assert found >= EXPECTED, f"not seen: {sorted(EXPECTED - found)}"


async def test_the_charts_of_single_parameters_have_a_table_together_the_best_trials_first() -> None:
    async with serve(make_source(make_trials(40))) as client:
        page = await read_page(client, f"{BASE}/parameters")
        table = page[page.index('aria-label="Table of accuracy over each parameter"') :]
        names = re.findall(r'trials/(digits-\d+)"', table[: table.index("</table>")])
        assert len(names) == 20
        everything = await read_page(client, f"{BASE}/trials?sort=-accuracy")
        assert names == re.findall(r'trials/(digits-\d+)"', everything)[:20]
        assert "trials?sort=-accuracy" in table
    assert re.search(r'<th scope="col" class="n">momentum</th>', table)


async def test_whatever_the_pointer_is_told_the_arrow_keys_find_too() -> None:
    told = set()
    for path, scheduler in [*CASES, (f"{BASE}/replay", HALVING)]:
        body = experiment_body(objective=OBJECTIVE, scheduler=scheduler)
        async with serve(make_source(make_trials(), body)) as client:
            page = await read_page(client, path)
        scripts = " ".join(re.findall(r"scripts/(\w+)\.js", page))
        for tag in re.findall(r"<div [^>]*\bdata-(?:plot|points|titles)\b[^>]*>", page):
            assert 'tabindex="0" role="group"' in tag, tag
            label = re.search('aria-label="([^"]+)"', tag)
            assert label is not None
            assert "rrow keys go" in label[1] or "Left and right go" in label[1], tag
            kind, script = next(pair for pair in SCRIPTS.items() if f"data-{pair[0]}" in tag)
            assert script in scripts, f"{path} has no script for data-{kind}"
            told.add(kind)
    assert told == set(SCRIPTS)


async def test_a_moment_of_the_replay_has_its_picture_too() -> None:
    async with serve(make_source(make_trials())) as client:
        for theme in ("light", "dark"):
            await check_picture(client, f"{BASE}/replay/picture.svg?at=3600", theme)
