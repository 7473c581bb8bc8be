"""Which parameters matter, as the page of the search space says it."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from podtune.dashboard.charts.importance import bars
from podtune.dashboard.charts.importance.bars import ImportanceChart, ImportanceMethod, measure_importance
from podtune.dashboard.sources import ArchiveSource
from podtune.dashboard.trial_rows import collect_rows
from podtune.tuning.importance import estimate_importance
from tests.unit.dashboard.archives import (
    BASE,
    done,
    experiment_body,
    make_many,
    make_source,
    read_page,
    serve,
    trial_body,
)

TWO = {"metric": "accuracy", "mode": "max", "others": [{"metric": "latency", "mode": "min"}]}


def make_trial(index: int, **status: Any) -> dict[str, Any]:
    """The number of units sets the accuracy, the optimizer how long a result takes, and the learning rate nothing."""
    units, optimizer = 16 * (1 + index * 7 % 16), ("sgd", "adamw", "lion")[index % 3]
    value = 0.5 + units / 600
    usage = {"trainingSeconds": 900 * (1 + index % 3) + index % 7, "podSeconds": 0, "gpuSeconds": 0}
    parameters = {"lr": f"{0.0001 * (1 + index * 31 % 50)}", "units": str(units), "optimizer": optimizer}
    best = {"accuracy": repr(value), "latency": repr(index * 31 % 50 + 0.5)}
    return trial_body(index, parameters, **(done(value, best=best, usage=usage) | status))


def make_digits(count: int = 60, **status: Any) -> ArchiveSource:
    trials = [make_trial(index, **status) for index in range(count)]
    return make_source(trials, experiment_body(objective=TWO))


def measure(source: ArchiveSource, place: int = 0) -> ImportanceChart:
    view = source.find_experiment("team", "digits")
    assert view is not None
    return measure_importance(collect_rows(view, source.list_trials("team", "digits")), place)


def read_table(page: str) -> Sequence[tuple[str, str]]:
    table = page[page.index('class="bars"') :]
    rows = re.findall(r"<th scope=\"row\".*?</tr>", table[: table.index("</table>")], re.DOTALL)
    return [
        (re.sub(r"<.*?>", "", row[: row.index("</th>")]), re.sub(r"\s+", " ", re.sub(r"<.*?>", " ", row)))
        for row in rows
    ]


async def test_the_page_shows_what_matters_first_and_what_it_was_computed_from() -> None:
    async with serve(make_digits()) as client:
        page = await read_page(client, f"{BASE}/parameters")
    rows = read_table(page)
    assert rows[0][0] == "units"
    assert re.search(r"units \d\d % ± \d+ [+−]?0\.\d\d", rows[0][1])
    assert "From 60 trials that have ended: what sets the best 8 of them (top 13 %) apart in accuracy." in page
    assert "20 resamples, seed 1" in page
    assert dict(rows)["momentum"].split() == ["momentum", "–", "–"]
    assert "fewer than 3 of the best trials have the parameter" in page


async def test_several_objectives_are_picked_in_the_address() -> None:
    async with serve(make_digits()) as client:
        page = await read_page(client, f"{BASE}/parameters?importance=latency")
        assert read_table(page)[0][0] == "lr"
        assert re.search(r'href="[^"]*parameters\?importance=latency#importance" aria-current="true"', page)
        picture = await read_page(client, f"{BASE}/charts/importance.svg?importance=latency&theme=dark")
        assert "for latency" in picture
        assert picture.index(">lr<") < picture.index(">units<")


async def test_a_few_trials_are_too_early() -> None:
    async with serve(make_source()) as client:
        page = await read_page(client, f"{BASE}/parameters")
        assert "Too early to say: 3 trials have ended with a value of accuracy, and it takes 20." in page
        assert 'class="bars"' not in page
        assert "Too early to say" in await read_page(client, f"{BASE}/charts/importance.svg", 404)
    async with serve(make_source([trial_body(0)])) as client:
        assert "no trial has ended with a value of accuracy" in await read_page(client, f"{BASE}/parameters")


def test_trials_that_have_not_ended_or_failed_do_not_count() -> None:
    running = [make_trial(index, state="RUNNING") for index in range(60, 80)]
    failed = [make_trial(index, state="ERROR", reason="MaxFailuresExceeded") for index in range(80, 90)]
    ended = [make_trial(index) for index in range(60)]
    assert measure(make_source([*ended, *running, *failed], experiment_body(objective=TWO))).trials == 60


def test_trials_with_one_value_say_nothing() -> None:
    chart = measure(make_digits(bestValue="0.5", best={"accuracy": "0.5"}))
    assert not chart.bars
    assert chart.problem == "The parameters of the trials with the best accuracy are those of all the others too."


def test_what_takes_time_is_told_by_the_time_of_a_result_and_not_by_how_soon_a_trial_was_stopped() -> None:
    by_name = {bar.name: bar for bar in measure(make_digits()).bars}
    assert by_name["optimizer"].time is not None
    assert by_name["optimizer"].time > 0.9
    assert not by_name["optimizer"].is_signed
    assert by_name["units"].is_signed
    # Bad trials are stopped after a ninth: their training takes a ninth of the time, and each result takes as long.
    trials = [make_trial(index) for index in range(60)]
    for trial in trials:
        if int(trial["spec"]["parameters"]["units"]) < 128:
            trial["status"] |= {"iteration": 1, "reason": "StoppedByScheduler"}
            trial["status"]["usage"] = {"trainingSeconds": 100, "podSeconds": 100, "gpuSeconds": 0}
        else:
            trial["status"]["usage"] = {"trainingSeconds": 900, "podSeconds": 900, "gpuSeconds": 0}
    stopped = {bar.name: bar for bar in measure(make_source(trials)).bars}
    assert stopped["units"].time is None  # all results took a hundred seconds


async def test_without_times_on_record_there_is_no_column_for_them() -> None:
    source = make_digits(usage=None)
    assert not measure(source).has_times
    async with serve(source) as client:
        assert "for time" not in await read_page(client, f"{BASE}/parameters")


def test_a_correlation_of_zero_has_no_sign() -> None:
    bar = measure(make_digits()).bars[0]
    values = [(0.8349, "+0.83"), (-0.2, "−0.20"), (0.001, "0.00"), (-0.001, "0.00"), (None, "–")]
    for time, text in values:
        object.__setattr__(bar, "time", time)
        object.__setattr__(bar, "is_signed", True)
        assert bar.time_text == text


async def test_hundreds_of_parameters_are_listed_and_the_first_ones_drawn() -> None:
    parameters = [{"name": f"p{place}", "float": {"min": 0, "max": 1}} for place in range(80)]
    trials = [
        trial_body(
            index,
            {f"p{place}": repr((index * (place + 3) * 7919 % 997) / 997) for place in range(80)},
            **done(index / 40),
        )
        for index in range(40)
    ]
    async with serve(make_source(trials, experiment_body(parameters=parameters))) as client:
        page = await read_page(client, f"{BASE}/parameters")
    assert len(read_table(page)) == 24
    assert "56 more parameters" in page


async def test_it_is_computed_once_for_many_viewers_and_again_when_there_is_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []

    def count(losses: Sequence[float], *rest: Any) -> Any:
        calls.append(len(losses))
        return estimate_importance(losses, *rest)

    monkeypatch.setattr(bars, "estimate_importance", count)
    async with serve(make_digits()) as client:
        await asyncio.gather(*(read_page(client, f"{BASE}/parameters") for _ in range(5)))
    async with serve(make_digits(61)) as client:
        await read_page(client, f"{BASE}/parameters")
    assert calls == [60, 61]


async def test_other_pages_are_answered_while_many_trials_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()

    def wait(*given: Any) -> Any:
        assert may_end.wait(60)
        return estimate_importance(*given)

    monkeypatch.setattr(bars, "estimate_importance", wait)
    async with serve(make_source(list(make_many(2000)))) as client:
        measured = asyncio.create_task(read_page(client, f"{BASE}/parameters"))
        for _ in range(3):
            await read_page(client, f"{BASE}/trials")
        assert not measured.done()
        may_end.set()
        assert "From 2,000 trials" in await measured


async def test_fanova_can_be_chosen_and_says_what_it_was_computed_from() -> None:
    async with serve(make_digits()) as client:
        page = await read_page(client, f"{BASE}/parameters?by=fanova&importance=latency")
        assert read_table(page)[0][0] == "lr"
        assert re.search(r'importance=latency&amp;by=fanova#importance" aria-current="true">fANOVA', page)
        assert "spread over the 64 trees of a random forest (seed 1)" in page
        assert re.search(r"From 60 trials that have ended: how much of the variance of latency each decides", page)
        assert dict(read_table(page))["momentum"].split()[:2] == ["momentum", "–"]  # some trials do without it
        assert 'parameters?importance=accuracy&amp;by=fanova#importance">accuracy' in page
        picture = await read_page(client, f"{BASE}/charts/importance.svg?importance=latency&by=fanova")
        assert "fANOVA of 60 trials; ± spread over 64 trees, seed 1" in picture


async def test_without_scikit_learn_there_is_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "find_spec", lambda _: None)
    async with serve(make_digits()) as client:
        assert "fANOVA" not in await read_page(client, f"{BASE}/parameters")
        assert "by is &#39;fanova&#39;; take one of" in await read_page(client, f"{BASE}/parameters?by=fanova", 400)


def test_where_nothing_varies_fanova_says_so() -> None:
    source = make_digits(bestValue="0.5", best={"accuracy": "0.5"})
    view = source.list_experiments()[0]
    rows = collect_rows(view, source.list_trials("team", "digits"))
    chart = measure_importance(rows, 0, ImportanceMethod.FANOVA)
    assert chart.problem == "No parameter that all trials have changes accuracy."
