"""Value for money: what the best values have cost, on the overview."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from podtune.cli.errors import CliError
from podtune.dashboard.charts.spending import Spending, draw_spending
from podtune.dashboard.charts.spent_resources import add_spending
from podtune.dashboard.keeping import BLOCK
from podtune.dashboard.pricing import GpuPrice, check_price
from podtune.dashboard.trial_rows import TrialRow, collect_rows
from tests.unit.dashboard.archives import BASE, done, experiment_body, make_source, read_page, serve, trial_body

HOUR = 3600


def make_trial(index: int, value: float, start: int, end: int, gpus: int = 1, **status: Any) -> dict[str, Any]:
    """A trial that ran from one full hour to another, on so many GPUs."""
    seconds = (end - start) * HOUR
    usage = {"trainingSeconds": seconds // 2, "podSeconds": seconds, "gpuSeconds": seconds * gpus}
    times = {"startTime": f"2026-01-01T{start:02}:00:00Z", "completionTime": f"2026-01-01T{end:02}:00:00Z"}
    return trial_body(index, **(done(value, usage=usage, **times) | status))


def draw(trials: Sequence[dict[str, Any]], **spec: Any) -> Spending | None:
    source = make_source(trials, experiment_body(**spec))
    view = source.find_experiment("team", "digits")
    assert view is not None
    return draw_spending(collect_rows(view, source.list_trials("team", "digits")))


def tell(trials: Sequence[dict[str, Any]], **spec: Any) -> str:
    spending = draw(trials, **spec)
    assert spending is not None
    return spending.sentence.replace("\u00a0", " ")


def list_purchases(trials: Sequence[dict[str, Any]], **spec: Any) -> list[tuple[str, float, float, str]]:
    spending = draw(trials, **spec)
    assert spending is not None
    return [(each.row.name, round(each.spent, 6), round(each.since, 6), each.gain) for each in spending.purchases]


def test_each_step_has_what_had_been_spent_by_then_and_what_it_took() -> None:
    trials = [make_trial(0, 0.5, 0, 2), make_trial(1, 0.4, 2, 4), make_trial(2, 0.75, 4, 10)]
    assert list_purchases(trials) == [("digits-0", 2, 2, ""), ("digits-2", 10, 8, "+0.25")]


def test_trials_side_by_side_are_paid_for_side_by_side() -> None:
    # When the first ends after an hour, the other has used an hour of four as well.
    trials = [make_trial(0, 0.5, 0, 1), make_trial(1, 0.6, 0, 4)]
    assert list_purchases(trials) == [("digits-0", 2, 2, ""), ("digits-1", 5, 3, "+0.1")]


def test_trials_without_a_value_cost_as_well() -> None:
    lost = make_trial(0, 0.0, 0, 3, gpus=2, state="ERROR", reason="MaxFailuresExceeded", bestValue="", best={})
    assert list_purchases([lost, make_trial(1, 0.6, 3, 4)]) == [("digits-1", 7, 7, "")]


@pytest.mark.parametrize(
    ("values", "mode", "sentence"),
    [
        ([0.9, 0.9004], "max", "The last 10 % of the GPU-hours bought +0.0004 accuracy."),
        (
            [0.9, 0.8],
            "max",
            "The last 10 % of the GPU-hours bought no better accuracy: the best value came after 90 %.",
        ),
        ([0.9, 0.8], "min", "The last 10 % of the GPU-hours bought −0.1 accuracy."),
        ([3.0, 1503.25], "max", "The last 10 % of the GPU-hours bought +1,500 accuracy."),
    ],
)
def test_a_sentence_says_what_the_last_tenth_bought(values: list[float], mode: str, sentence: str) -> None:
    trials = [make_trial(0, values[0], 0, 9), make_trial(1, values[1], 9, 10)]
    assert tell(trials, objective={"metric": "accuracy", "mode": mode}) == sentence


def test_a_first_value_in_the_last_tenth_has_nothing_to_be_compared_with() -> None:
    assert tell([make_trial(0, 0.9, 0, 10)]) == "The first value came after 100 % of the GPU-hours."


@pytest.mark.parametrize(
    "rules",
    [
        [{"time": "3h"}, {"cost": {"budget": 500, "perGpuHour": 2.5, "perPodHour": 0.5}}],
        [{"any": [{"target": 1}, {"cost": {"budget": 500, "perGpuHour": 2.5, "perPodHour": 0.5}}]}],
    ],
)
def test_with_a_price_money_is_counted(rules: list[dict[str, Any]]) -> None:
    spending = draw([make_trial(0, 0.5, 0, 10, gpus=2)], stop={"experiment": rules})
    assert spending is not None
    assert (spending.plot.x_label, spending.total) == ("money spent", 55)
    assert spending.sentence == "The first value came after 100\u00a0% of the money."


def test_without_gpus_the_time_of_training_is_counted() -> None:
    spending = draw([make_trial(0, 0.5, 0, 10, gpus=0)], stop={"experiment": [{"cost": {"perGpuHour": 2.5}}]})
    assert spending is not None
    assert (spending.plot.x_label, spending.total) == ("hours of training", 5)


def test_a_trial_that_goes_on_counts_with_what_it_has_used_so_far() -> None:
    goes_on = make_trial(1, 0.7, 0, 6, state="RUNNING", completionTime="")
    # The latest moment on record is the other's end.
    assert list_purchases([make_trial(0, 0.5, 0, 2), goes_on]) == [("digits-0", 8, 8, ""), ("digits-1", 8, 0, "+0.2")]


def test_what_was_spent_is_the_sum_over_all_trials_that_had_used_something_by_then() -> None:
    draws = random.Random(3)
    trials = [draw_trial(draws, index) for index in range(4 * BLOCK - 30)]
    source = make_source(trials, experiment_body())
    view = source.find_experiment("team", "digits")
    assert view is not None
    experiment = collect_rows(view, source.list_trials("team", "digits"))
    spent = add_spending(experiment)
    assert spent is not None
    assert 0 < spent.kept < len(trials) - 2 * BLOCK
    last = experiment.last_moment or 0.0
    for row, found in zip(experiment.rows, spent.by_place, strict=True):
        expected = sum(use_until(each, row.ended or last, last) for each in experiment.rows)
        assert found == pytest.approx(expected, abs=1e-6), row.name


def draw_trial(draws: random.Random, index: int) -> dict[str, Any]:
    """One of many side by side; a few in the middle, and the last ones, go on."""
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=index)
    end = start + timedelta(minutes=draws.randrange(90))
    usage = {"trainingSeconds": 60, "podSeconds": 60, "gpuSeconds": draws.choice([0, 600, 3600])}
    goes_on = index in (2 * BLOCK + 5, 2 * BLOCK + 6) or index > 4 * BLOCK - 60
    state = {"state": "RUNNING", "completionTime": ""} if goes_on else {"completionTime": write_moment(end)}
    return trial_body(index, **(done(draws.random(), usage=usage, startTime=write_moment(start)) | state))


def write_moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def use_until(row: TrialRow, moment: float, last: float) -> float:
    """GPU-hours that a trial had used by a moment, spread evenly over its time."""
    start, end = row.started or 0.0, row.ended or last
    if end <= start:
        return (row.gpu_hours or 0.0) * (moment >= end)
    return (row.gpu_hours or 0.0) * min(max((moment - start) / (end - start), 0.0), 1.0)


@pytest.mark.parametrize(
    "trials",
    [
        [],
        [trial_body(0)],
        [make_trial(0, 0.5, 0, 1, usage=None)],
        [make_trial(0, 0.5, 0, 1, startTime="", completionTime="")],
    ],
)
async def test_where_nothing_is_known_nothing_is_shown(trials: list[dict[str, Any]]) -> None:
    async with serve(make_source(trials)) as client:
        assert "Value for money" not in await read_page(client, f"{BASE}/")
        assert "has no chart &#39;spending&#39;" in await read_page(client, f"{BASE}/charts/spending.svg", 404)
        assert not any(json.loads(await read_page(client, f"{BASE}/columns.json"))["spent"])


async def test_the_overview_has_the_chart_its_table_and_its_picture() -> None:
    trials = [make_trial(0, 0.5, 0, 2), make_trial(1, 0.4, 2, 4), make_trial(2, 0.75, 4, 10)]
    async with serve(make_source(trials)) as client:
        page = await read_page(client, f"{BASE}/")
        card = page[page.index('aria-labelledby="spending"') :]
        card = card[: card.index("</section>")]
        assert "The last 10\u00a0% of the GPU-hours bought +0.25 accuracy." in card
        rows = re.findall(r"<tr><td>(.*?)</tr>", card)
        assert [re.sub("<[^>]*>", " ", row).split() for row in rows] == [
            ["digits-0", "2.0", "2.0", "0.5", "–"],
            ["digits-2", "10.0", "8.0", "0.75", "+0.25"],
            ["All", "trials", "10.0"],
        ]
        columns = json.loads(await read_page(client, f"{BASE}/columns.json"))
        assert columns["spent"] == [2, 4, 10]
        picture = await read_page(client, f"{BASE}/charts/spending.svg?theme=dark")
        assert "digits: Best accuracy for the GPU-hours" in picture
        assert picture.count('class="late"') == 1
        assert 'class="late"' not in await read_page(client, f"{BASE}/charts/progress.svg")


async def test_a_price_of_the_dashboard_counts_where_the_manifest_has_none() -> None:
    trials = [make_trial(0, 0.5, 0, 2), make_trial(1, 0.75, 2, 10)]
    async with serve(make_source(trials), price=GpuPrice(2.5, "EUR")) as client:
        page = await read_page(client, f"{BASE}/")
        assert "money spent (EUR)" in page
        assert (
            "25\u00a0EUR in all, at 2.5\u00a0EUR per GPU-hour, the price that this dashboard was started with." in page
        )
        assert json.loads(await read_page(client, f"{BASE}/columns.json"))["spent"] == [5, 25]
        assert "money spent (EUR)" in await read_page(client, f"{BASE}/charts/spending.svg")
    cost = {"budget": 1000, "perGpuHour": 10}
    priced = make_source(trials, experiment_body(stop={"experiment": [{"cost": cost}]}))
    async with serve(priced, price=GpuPrice(2.5, "EUR")) as client:
        page = await read_page(client, f"{BASE}/")
        assert "100\u00a0EUR in all, at 10\u00a0EUR per GPU-hour, as the manifest has it." in page
        assert "of 1,000 EUR</small>" in page


@pytest.mark.parametrize(
    ("price", "currency", "expected"),
    [
        ("2.5", "EUR", GpuPrice(2.5, "EUR")),
        ("", "", GpuPrice()),
        ("3", " € ", GpuPrice(3.0, "€")),
    ],
)
def test_a_price_is_set_for_all_experiments(price: str, currency: str, expected: GpuPrice) -> None:
    assert check_price(price, currency) == expected


@pytest.mark.parametrize(
    ("price", "currency", "words"),
    [
        ("dear", "", "'dear' is no price"),
        ("0", "", "above 0"),
        ("nan", "", "no price"),
        ("1", "5 EUR", "is no currency"),
    ],
)
def test_what_is_no_price_is_refused_with_the_options_name(price: str, currency: str, words: str) -> None:
    with pytest.raises(CliError, match=words) as caught:
        check_price(price, currency)
    assert str(caught.value).startswith("--gpu-price")
