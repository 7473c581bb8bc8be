"""Learning curves, rungs, and what of them an address restores."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from podtune.dashboard.charts.learning.curves import FIRST, MOST_LISTED, MOST_POINTS, draw_curves
from podtune.dashboard.charts.learning.frame import CurveAxes, list_metrics
from podtune.dashboard.charts.learning.rungs import RungMark, compare_to_limit, draw_rungs, list_rung_results
from podtune.dashboard.charts.learning.trial_curve import draw_trial_curve
from podtune.dashboard.sources import ArchiveSource
from podtune.dashboard.trial_rows import ExperimentRows, ShownState, collect_rows
from tests.unit.dashboard.archives import (
    BASE,
    Manifest,
    done,
    experiment_body,
    list_trials,
    make_source,
    read_page,
    serve,
    trial_body,
)

OTHERS = {"metric": "accuracy", "mode": "max", "others": [{"metric": "loss", "mode": "min"}]}


def curve(*values: float | None, steps: list[int] | None = None, others: list[float] | None = None) -> Manifest:
    at = steps or list(range(1, len(values) + 1))
    columns = [list(values)] if others is None else [list(values), others]
    return {"results": len(at), "every": 1, "steps": at, "seconds": [60 * step for step in at], "values": columns}


def decision(number: int, action: str, rung: int, value: float, cutoff: float | None = None) -> Manifest:
    limit = {} if cutoff is None else {"cutoff": repr(cutoff), "peers": "9"}
    return {
        "number": number,
        "time": f"2026-01-01T10:{number:02}:00Z",
        "attempt": 1,
        "step": rung,
        "action": action,
        "message": f"{action} at rung {rung}",
        "inputs": {"rung": str(rung), "metric": "accuracy", "value": repr(value)} | limit,
    }


def stopped(value: float, cutoff: float, *, number: int = 1, **status: Any) -> Manifest:
    ledger = [decision(number, "STOP", 3, value, cutoff)]
    return done(value, reason="StoppedByScheduler", ledger=ledger, scheduler={"rungs": {"3": repr(value)}}, **status)


def collect(source: ArchiveSource) -> ExperimentRows:
    (view,) = source.list_experiments()
    return collect_rows(view, source.list_trials(view.namespace, view.name))


def make_asha() -> list[Manifest]:
    """Trials 0 and 1 were stopped at rung 3, 2 finished at 9, 3 is beyond 3, and 4 waits at 3."""
    finished = done(
        0.95, scheduler={"rungs": {"3": "0.8", "9": "0.95"}}, progress="9.0", curve=curve(0.5, 0.7, 0.8, 0.95)
    )
    return [
        trial_body(0, **stopped(0.4, 0.5, number=1, curve=curve(0.1, 0.2, 0.4))),
        trial_body(1, **stopped(0.5561, 0.5564, number=2, curve=curve(0.3, 0.4, 0.5561))),
        trial_body(2, **finished),
        trial_body(
            3, state="RUNNING", attempt=1, progress="5.0", scheduler={"rungs": {"3": "0.7"}}, curve=curve(0.6, 0.7)
        ),
        trial_body(
            4, state="PAUSED", attempt=1, ledger=[decision(1, "PAUSE", 3, 0.6)], scheduler={"rungs": {"3": "0.6"}}
        ),
    ]


async def test_an_experiment_shows_the_curves_of_its_trials_by_how_they_went() -> None:
    async with serve(make_source(make_asha())) as client:
        page = await read_page(client, f"{BASE}/")
        points = json.loads(await read_page(client, f"{BASE}/charts/curves.json"))
    assert 'aria-label="Learning curves: accuracy over iterations, 2 stopped early, 1 completed, 1 pending"' in page
    assert points["labels"] == ["iteration", "accuracy"]
    name, word, xs, ys, *numbers = points["items"][0]
    assert (name, word) == ("digits-2", "Completed")
    assert numbers == [["1", "2", "3", "4"], ["0.5", "0.7", "0.8", "0.95"]]
    assert xs == sorted(xs)
    assert ys == sorted(ys, reverse=True)


def test_running_trials_lie_on_top() -> None:
    plot = draw_curves(collect(make_source(make_asha())), CurveAxes())
    assert plot is not None
    assert [group.progress for group in plot.groups] == [ShownState.STOPPED, ShownState.DONE, ShownState.PENDING]


def test_failed_trials_have_a_mark_at_their_end() -> None:
    failed = trial_body(0, state="ERROR", reason="MaxFailuresExceeded", attempt=1, curve=curve(0.5, 0.9))
    plot = draw_curves(
        collect(make_source([failed, trial_body(1, **done(0.9, curve=curve(0.5, 0.6, 0.7, 0.8)))])), CurveAxes()
    )
    assert plot is not None
    ((x, y),) = plot.ends
    assert 45 < x < 55
    assert y < 10


async def test_an_address_restores_the_axes() -> None:
    trials = [trial_body(0, **done(0.9, curve=curve(0.5, 0.9, others=[0.9, 0.0])))]
    async with serve(make_source(trials, experiment_body(objective=OTHERS))) as client:
        page = await read_page(client, f"{BASE}/?x=time&objective=loss&curves=time&log=x")
        points = json.loads(await read_page(client, f"{BASE}/charts/curves.json?objective=loss&curves=time&log=x"))
        both = json.loads(await read_page(client, f"{BASE}/charts/curves.json?objective=loss&log=y"))
    chosen = re.findall(r'href="[^"]*\?([^"#]*)(?:#curves)?" aria-current="true">([^<]*)<', page)
    address = "x=time&amp;objective=loss&amp;curves=time&amp;log=x"
    assert [(address, word) for word in ("by time", "loss", "by time", "x log", "y linear")] == chosen
    assert points["labels"] == ["minutes of training", "loss"]
    assert points["items"][0][4:] == [["1", "2"], ["0.9", "0"]]
    assert both["items"][0][4:] == [["1"], ["0.9"]]  # zero has no place on a logarithmic scale


async def test_an_archive_without_curves_says_why_there_are_none() -> None:
    async with serve(make_source()) as client:
        assert "Operators of earlier versions kept none" in await read_page(client, f"{BASE}/")
        assert "an operator of an earlier version kept none" in await read_page(client, f"{BASE}/trials/digits-1")
        assert "It has reported no accuracy yet" in await read_page(client, f"{BASE}/trials/digits-5")
        await read_page(client, f"{BASE}/charts/curves.svg", 404)
        assert json.loads(await read_page(client, f"{BASE}/charts/curves.json"))["items"] == []
    async with serve(make_source([])) as client:
        assert "curves begin with the first result" in await read_page(client, f"{BASE}/")


async def test_curves_that_a_logarithm_can_not_show_are_offered_without_it() -> None:
    trials = [trial_body(0, **done(-0.5, curve=curve(-0.9, -0.5)))]
    async with serve(make_source(trials)) as client:
        assert "no place for zero and below" in await read_page(client, f"{BASE}/?log=y")


def test_of_very_many_curves_the_best_and_an_even_sample_are_drawn() -> None:
    values = [place / 100 for place in range(64)]
    count = 3 * MOST_POINTS // 64
    trials = [trial_body(place, **done(place / count, curve=curve(*values))) for place in range(count)]
    trials[5]["status"] |= {"state": "RUNNING", "reason": ""}
    plot = draw_curves(collect(make_source(trials)), CurveAxes())
    assert plot is not None
    assert plot.total == count
    drawn = [each.row.view.index for each in plot.curves]
    assert MOST_POINTS * 0.95 <= 64 * len(drawn) <= MOST_POINTS
    assert {count - 1 - place for place in range(FIRST)} <= {*drawn}
    assert [each.row.view.index for each in plot.listed] == [count - 1 - place for place in range(MOST_LISTED)]
    assert 5 in drawn
    lower = sum(place < (count - FIRST) / 2 for place in drawn)
    assert abs(2 * lower - (len(drawn) - FIRST)) <= 3


def test_a_curve_is_broken_where_a_value_is_missing_and_where_its_trial_went_back() -> None:
    trials = [trial_body(0, **done(0.9, curve=curve(0.1, None, 0.3, 0.4, 0.9, steps=[1, 2, 3, 6, 4])))]
    plot = draw_curves(collect(make_source(trials)), CurveAxes())
    assert plot is not None
    assert plot.groups[0].paths[0].count("M") == 3


async def test_curves_and_checkpoints_of_trials_that_are_evaluated_have_the_training_objective() -> None:
    evaluation = {"trainingObjective": {"metric": "loss", "mode": "min"}}
    assert list_metrics(collect(make_source([], experiment_body(evaluation=evaluation)))) == [("loss", -1.0)]
    kept = [{"step": 3, "uri": "s3://models/digits-0/3", "digest": "sha256:0", "metric": "0.61"}]
    trials = [trial_body(0, **done(0.9, checkpoints=kept)), trial_body(1)]
    async with serve(make_source(trials, experiment_body(evaluation=evaluation))) as client:
        pages = [await read_page(client, f"{BASE}/trials/digits-{index}") for index in (0, 1)]
    assert '<th class="n">Iteration</th><th class="n">loss</th><th>URI</th>' in pages[0]
    assert "It has reported no loss yet." in pages[1]


def test_there_is_no_half_of_an_iteration() -> None:
    plot = draw_curves(collect(make_source([trial_body(0, **done(0.5, curve=curve(0.1, 0.5)))])), CurveAxes())
    assert plot is not None
    assert [tick.label for tick in plot.frame.x_ticks] == ["0", "1", "2"]


def test_each_rung_shows_what_became_of_its_trials() -> None:
    experiment = collect(make_source(make_asha()))
    plot = draw_rungs(experiment)
    assert plot is not None
    low, high = plot.strips
    assert (low.rung, high.rung) == (3, 9)
    results = [result for row in experiment.rows for result in list_rung_results(row)]
    assert {result.row.view.index: result.outcome for result in results if result.rung == 3} == {
        0: RungMark.STOPPED,
        1: RungMark.STOPPED,
        2: RungMark.CONTINUED,
        3: RungMark.CONTINUED,
        4: RungMark.WAITING,
    }
    assert (low.trials, low.count(RungMark.STOPPED), low.count(RungMark.FINISHED)) == (5, 2, 0)
    assert [result.outcome for result in results if result.rung == 9] == [RungMark.FINISHED]
    assert (high.trials, high.count(RungMark.FINISHED)) == (1, 1)
    assert low.cutoff == 0.5564  # the latest
    assert low.cutoffs == (0.5, 0.5564)
    assert high.cutoff is None


async def test_a_mark_at_a_rung_tells_the_numbers_of_the_decision() -> None:
    async with serve(make_source(make_asha())) as client:
        page = await read_page(client, f"{BASE}/")
        marks = json.loads(await read_page(client, f"{BASE}/charts/rung:3.0.json"))
    assert "Why trials stopped" in page
    assert [item[4] for item in marks["items"][:3]] == [
        ["0.4 < cutoff 0.5, of 9"],
        ["0.5561 < cutoff 0.5564, of 9"],
        ["0.8"],
    ]


@pytest.mark.parametrize(
    ("value", "limit", "sign", "text"),
    [
        (0.89241, 0.89238, 1.0, "0.89241 ≥ cutoff 0.89238"),
        (0.5, 0.5, 1.0, "0.5 ≥ cutoff 0.5"),
        (0.7, 0.5, -1.0, "0.7 > cutoff 0.5"),
        (0.3, 0.5, -1.0, "0.3 ≤ cutoff 0.5"),
    ],
)
def test_compared_numbers_have_digits_that_tell_them_apart(value: float, limit: float, sign: float, text: str) -> None:
    assert compare_to_limit(value, limit, "cutoff", sign) == text


async def test_without_cutoffs_there_are_no_rungs() -> None:
    async with serve(make_source([trial_body(0, **done(0.9, scheduler={"rungs": {"3": "0.9"}}))])) as client:
        assert "Why trials stopped" not in await read_page(client, f"{BASE}/")
        await read_page(client, f"{BASE}/charts/rungs.svg", 404)


async def test_a_trial_shows_the_cutoff_that_ended_it_and_the_best_trial() -> None:
    async with serve(make_source(make_asha())) as client:
        page = await read_page(client, f"{BASE}/trials/digits-1")
        points = json.loads(await read_page(client, f"{BASE}/charts/trial:digits-1.json"))
        best = await read_page(client, f"{BASE}/trials/digits-2")
    assert "accuracy 0.5561 &lt; cutoff 0.5564</text>" in page
    assert 'class="curve behind"' in page
    assert [item[0] for item in points["items"]] == ["digits-1", "digits-2"]
    assert 'class="curve behind"' not in best


def test_a_trial_shows_where_it_was_retried() -> None:
    retry = decision(2, "RETRY", 2, 0.4) | {"inputs": {"user": "1"}}
    trials = [trial_body(0, **done(0.9, curve=curve(0.1, 0.5, 0.7, 0.9), ledger=[retry]))]
    experiment = collect(make_source(trials))
    plot = draw_trial_curve(experiment, experiment.rows[0])
    assert plot is not None
    ((turn),) = plot.turns
    assert turn.label == "retried"
    assert 45 < turn.x < 55


@pytest.mark.parametrize("chart", ["curves", "rungs", "trial:digits-1"])
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_downloads_are_well_formed_pictures(chart: str, theme: str) -> None:
    async with serve(make_source(make_asha())) as client:
        text = await read_page(client, f"{BASE}/charts/{chart}.svg?theme={theme}")
    picture = ET.fromstring(text)
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert "2 stopped" in text or chart != "rungs"


async def test_a_trial_shows_the_median_that_ended_it() -> None:
    entry = decision(1, "STOP", 2, 0.5) | {
        "inputs": {"time": "2", "metric": "accuracy", "median": "0.7", "best": "0.6"}
    }
    ended = done(0.6, reason="StoppedByScheduler", ledger=[entry], curve=curve(0.6, 0.5))
    async with serve(make_source([trial_body(0, **ended)])) as client:
        page = await read_page(client, f"{BASE}/trials/digits-0")
        assert "Why trials stopped" not in await read_page(client, f"{BASE}/")
    assert "Stopped: best accuracy 0.6 &lt; median 0.7<" in page


async def test_a_curve_of_many_results_says_how_many_are_shown() -> None:
    long = curve(0.1, 0.5, 0.9, steps=[1, 3, 5]) | {"results": 5, "every": 2}
    async with serve(make_source([trial_body(0, **done(0.9, curve=long))])) as client:
        page = await read_page(client, f"{BASE}/trials/digits-0")
    assert "Of its 5 results, one in 2 is shown, and the last." in page


async def test_a_clone_shows_from_where_it_went_on() -> None:
    trials = [trial_body(0, **done(0.9, curve=curve(0.1, 0.3, 0.8, 0.9, steps=[1, 6, 4, 8])))]
    async with serve(make_source(trials)) as client:
        page = await read_page(client, f"{BASE}/trials/digits-0")
    assert 'class="curve jump done"' in page
    assert "went on from another trial’s checkpoint" in page


@pytest.mark.parametrize("chart", ["other", "rung:x", "rung:", "trial:digits-77"])
async def test_points_of_a_chart_that_is_not_there_are_not_found(chart: str) -> None:
    async with serve(make_source([*make_asha(), *list_trials()[5:]])) as client:
        await read_page(client, f"{BASE}/charts/{chart}.json", 404)
