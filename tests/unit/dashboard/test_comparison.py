"""Trials side by side: what the page shows of them, and what it says of those that it can't compare."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Sequence
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest

from podtune.dashboard.charts.learning.compared import DASHES, HUES, shorten_name, spread_labels, style_line
from podtune.dashboard.table.comparison import MOST
from tests.unit.dashboard.archives import (
    BASE,
    Client,
    Manifest,
    done,
    experiment_body,
    make_many,
    make_source,
    read_page,
    serve,
    trial_body,
)

VALUES = {"lr": "0.01", "optimizer": "adamw", "units": "32"}


def curve(*values: float) -> Manifest:
    steps = list(range(1, len(values) + 1))
    seconds = [60 * step for step in steps]
    return {"results": len(steps), "every": 1, "steps": steps, "seconds": seconds, "values": [list(values)]}


def used(hours: float) -> Manifest:
    return {"trainingSeconds": 3600 * hours, "podSeconds": 3600 * hours, "gpuSeconds": 3600 * hours}


def make_trials() -> list[Manifest]:
    """Trial 1 is the best, 0 took less time, 2 was stopped after still less, and 3 failed."""
    stopped = {"reason": "StoppedByScheduler", "message": "stopped at rung 3: accuracy 0.4 is below the cutoff 0.5"}
    return [
        trial_body(0, VALUES, **done(0.8, usage=used(1), curve=curve(0.5, 0.7, 0.8))),
        trial_body(1, VALUES | {"lr": "0.02", "units": "32.0"}, **done(0.91234, usage=used(3), curve=curve(0.6, 0.9))),
        trial_body(2, VALUES | {"optimizer": "sgd", "momentum": "0.9"}, **done(0.4, usage=used(0.5), **stopped)),
        trial_body(3, VALUES, state="ERROR", attempt=2, failures=2, message="exited", curve=curve(0.3, 0.2)),
        trial_body(4, VALUES),
    ]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serve(make_source(make_trials())) as client:
        yield client


def ask(*trials: int | str, part: str = "", **others: str) -> str:
    names = [("trial", f"digits-{trial}" if isinstance(trial, int) else trial) for trial in trials]
    return f"{BASE}/compare{part}?{urlencode([*names, *others.items()])}"


def read_line(page: str, name: str) -> list[str]:
    """The cells of a line, as people read them; marked ones begin with a star or end with a word."""
    found = re.search(rf'<tr><th scope="row">{name}\b.*?</th>(.*?)</tr>', page, re.DOTALL)
    assert found is not None, name
    cells = re.findall(r"<td[^>]*>(.*?)</td>", found[1], re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]*>", "", cell)).split()) for cell in cells]


async def test_the_best_of_each_row_has_a_star(client: Client) -> None:
    page = await read_page(client, ask(0, 1, 2, 3))
    assert read_line(page, "accuracy") == ["0.8000", "★ best: 0.9123", "0.4000", "–"]
    assert read_line(page, "Rank") == ["2", "★ best: 1", "3", "–"]
    assert read_line(page, "State") == ["Completed", "Completed", "Stopped early", "Failed"]
    assert read_line(page, "Iteration") == ["9", "9", "9", "0"]
    assert "is the best of them: accuracy 0.9123, rank 1 of 3." in re.sub(r"<[^>]*>", "", page)


async def test_a_trial_that_was_stopped_early_is_not_praised_for_what_it_saved(client: Client) -> None:
    page = await read_page(client, ask(0, 1, 2))
    assert read_line(page, "Training time") == ["★ best: 1h", "3h", "30m"]
    assert read_line(page, "GPU-hours") == ["★ best: 1.00", "3.00", "0.50"]


async def test_what_most_trials_share_has_no_star(client: Client) -> None:
    assert read_line(await read_page(client, ask(0, 1, 2)), "Failures") == ["0", "0", "0"]
    assert read_line(await read_page(client, ask(0, 3)), "Failures") == ["★ best: 0", "2"]


async def test_low_values_are_the_best_where_the_objective_is_minimized() -> None:
    body = experiment_body(objective={"metric": "accuracy", "mode": "min"})
    async with serve(make_source(make_trials(), body)) as client:
        page = await read_page(client, ask(0, 2))
    assert read_line(page, "accuracy") == ["0.8000", "★ best: 0.4000"]
    assert "lower is better" in page


async def test_parameters_that_differ_are_marked_and_equal_ones_folded_away(client: Client) -> None:
    page = await read_page(client, ask(0, 1, 2))
    assert read_line(page, "lr") == ["0.01 differs", "0.02", "0.01 differs"]
    assert read_line(page, "optimizer") == ["adamw", "adamw", "sgd differs"]
    assert read_line(page, "momentum") == ["–", "–", "0.9000 differs"]
    folded = page[page.index('<details id="equal">') :]
    assert "One parameter is the same in all of them" in folded
    assert re.search(r"<dt>units</dt><dd[^>]*>32<", folded)  # 32 and 32.0 are the same number
    assert "They differ in 3 of 4 parameters." in page


async def test_each_trial_is_told_by_its_own_line_its_name_and_its_sentence(client: Client) -> None:
    page = await read_page(client, ask(2, 0, 3))
    assert re.findall(r'class="tag hue(\d)"[^>]*>([^<]*)<', page) == [("1", "0"), ("2", "3")]  # 2 has no curve
    assert re.findall(r'class="compared hue(\d) dash(\d)" vector', page) == [("1", "1"), ("2", "2")]
    assert page.count('class="cross"') == 1
    assert "stopped at rung 3: accuracy 0.4 is below the cutoff 0.5" in page
    roster = page[page.index('class="roster"') :]
    assert roster.index(">digits-2<") < roster.index(">digits-0<") < roster.index(">digits-3<")


def test_twenty_lines_are_all_different() -> None:
    styles = [style_line(place) for place in range(MOST)]
    assert len(set(styles)) == MOST == HUES * DASHES


@pytest.mark.parametrize(
    "ends",
    [
        [(99.0, 50.0)] * 20,
        [(99.0, 1.0)] * 10,
        [(99.0, 100.0)] * 10,
        [(10.0, 40.0), (11.0, 41.0), (12.0, 40.5), (90.0, 40.0)],
    ],
)
def test_no_name_at_a_curves_end_hides_another(ends: Sequence[tuple[float, float]]) -> None:
    spread = spread_labels(ends, ["17"] * len(ends))
    for one, (x, _) in enumerate(ends):
        assert 0 <= spread[one] <= 100
        for other in range(one):
            assert abs(ends[other][0] - x) > 3 or abs(spread[other] - spread[one]) >= 4.5


def test_a_name_that_stands_alone_stays_at_its_curves_end() -> None:
    assert spread_labels([(10.0, 40.0), (90.0, 40.0)], ["1", "2"]) == [40.0, 40.0]


async def test_a_line_leads_to_each_name_that_stands_apart_from_its_curves_end() -> None:
    ends = [0.5, 0.5, 0.5, 0.5, 0.1, 0.9]
    trials = [trial_body(index, VALUES, **done(end, curve=curve(0.3, end))) for index, end in enumerate(ends)]
    async with serve(make_source(trials)) as client:
        page = await read_page(client, ask(*range(6)))
    assert page.count('class="tag ') == 6
    assert page.count('class="leader ') == 4


@pytest.mark.parametrize(
    ("name", "short"), [("digits-7", "7"), ("other-7", "other-7"), ("digits", "digits"), ("x" * 30, f"{'x' * 9}…")]
)
def test_names_at_curves_leave_out_the_experiment(name: str, short: str) -> None:
    assert shorten_name(name, "digits") == short


async def test_an_address_restores_axes_and_trials(client: Client) -> None:
    page = await read_page(client, ask(0, 1, curves="time", log="x"))
    assert "Learning curves: accuracy over training time" in page
    links = re.findall(r'href="[^"]*compare\?([^"#]*)#curves" aria-current="true">([^<]*)<', page)
    address = "trial=digits-0&amp;trial=digits-1&amp;curves=time&amp;log=x"
    assert links == [(address, "by time"), (address, "x log"), (address, "y linear")]
    points = json.loads(await read_page(client, ask(0, 1, part="/points.json", curves="time")))
    assert points["labels"] == ["minutes of training", "accuracy"]
    assert [item[0] for item in points["items"]] == ["digits-0", "digits-1"]


async def test_a_trial_can_be_left_out_and_added_without_scripts(client: Client) -> None:
    page = await read_page(client, ask(0, 1, 2, log="y"))
    assert 'compare?trial=digits-0&amp;trial=digits-2&amp;log=y" aria-label="Leave out digits-1"' in page
    assert "Leave out" not in await read_page(client, ask(0, 1))
    form = page[page.index('<form class="controls add"') :]
    fields = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)
    assert fields == [("trial", "digits-0"), ("trial", "digits-1"), ("trial", "digits-2"), ("log", "y")]


async def test_a_trial_that_is_gone_is_named_and_the_others_keep_their_lines(client: Client) -> None:
    page = await read_page(client, ask(0, "digits-99", 1))
    assert "There is no trial <strong>digits-99</strong> in this experiment" in page
    assert "Compare 2 trials" in page
    assert re.findall(r'class="tag hue(\d)"', page) == ["0", "2"]
    # A live page leaves fields as they are, so a deletion must not move them.
    assert re.findall(r'type="hidden" name="trial" value="([^"]*)"', page) == ["digits-0", "digits-99", "digits-1"]
    items = json.loads(await read_page(client, ask(0, "digits-99", 1, part=".json")))
    assert items["missing"] == ["digits-99"]


@pytest.mark.parametrize(
    ("trials", "status", "words"),
    [
        ((), 400, "No trial is chosen. Choose at least two."),
        ((0,), 400, "Only digits-0 is chosen. Choose at least one more."),
        ((0, 0, ""), 400, "Only digits-0 is chosen."),
        ((0, "gone"), 404, "There is no trial <strong>gone</strong> in this experiment"),
        ((0, "gone"), 404, "Too few of the chosen trials are left to compare."),
        (tuple(range(21)), 400, "21 trials are too many to tell apart in one chart. Choose at most 20."),
    ],
)
async def test_too_few_and_too_many_get_a_clear_message(trials: tuple[Any, ...], status: int, words: str) -> None:
    async with serve(make_source(list(make_many(25)))) as client:
        page = await read_page(client, ask(*trials), status)
        assert words in page
        assert "Choose trials in the table" in page
        assert (await client.get(ask(*trials, part=".csv"))).status == 400


async def test_one_chosen_trial_can_be_compared_with_the_best(client: Client) -> None:
    page = await read_page(client, ask(0), 400)
    assert 'compare?trial=digits-0&amp;trial=digits-1">compare digits-0 with the best' in page


async def test_twenty_trials_make_a_page_and_no_more_can_be_added() -> None:
    async with serve(make_source(list(make_many(25)))) as client:
        page = await read_page(client, ask(*range(20)))
        assert "Compare 20 trials" in page
        assert "Add a trial" not in page
        assert "None of these trials has a curve" in page
        await read_page(client, ask(*range(20), part=".svg"), 404)


async def test_programs_get_outcome_and_all_parameters(client: Client) -> None:
    rows = list(csv.DictReader(io.StringIO(await read_page(client, ask(1, 2, part=".csv")))))
    assert [row["trial"] for row in rows] == ["digits-1", "digits-2"]
    assert (rows[0]["accuracy"], rows[0]["rank"], rows[0]["training_seconds"]) == ("0.91234", "1", "10800")
    assert rows[1]["message"].startswith("stopped at rung 3")
    assert (rows[0]["momentum"], rows[1]["momentum"], rows[1]["lr"]) == ("", "0.9", "0.01")
    answer = await client.get(ask(1, 2, part=".json"))
    assert 'filename="digits-comparison.json"' in answer.headers["Content-Disposition"]
    items = (await answer.json())["items"]
    assert items[1] == items[1] | {"trial": "digits-2", "state": "stopped", "rank": 3, "optimizer": "sgd"}


async def test_the_picture_stands_alone(client: Client) -> None:
    for theme, paper in (("light", "#ffffff"), ("dark", "#12171e")):
        picture = await read_page(client, ask(0, 1, part=".svg", theme=theme))
        ET.fromstring(picture)
        assert paper in picture
        assert "digits-1" in picture


async def test_trials_are_chosen_in_the_table_and_on_their_pages(client: Client) -> None:
    page = await read_page(client, f"{BASE}/trials")
    form = page[page.index("data-choose") : page.index("</form>", page.index("data-choose"))]
    assert re.findall(r'type="checkbox" name="trial" value="([^"]*)" aria-label="Choose \1"', form) == [
        f"digits-{index}" for index in range(5)
    ]
    assert "<button>Compare</button>" in form
    assert 'compare?trial=digits-2&amp;trial=digits-1">Compare with the best' in await read_page(
        client, f"{BASE}/trials/digits-2"
    )
    assert "Compare with the best" not in await read_page(client, f"{BASE}/trials/digits-1")


async def test_trials_without_a_value_or_parameters_can_be_compared() -> None:
    trials = [trial_body(index, {"x": "1"}) for index in range(2)]
    async with serve(make_source(trials, experiment_body(status={}, parameters=[]))) as client:
        page = await read_page(client, ask(0, 1))
    assert "None of them has reported accuracy yet." in page
    assert "Their parameters are the same." in page
