"""What of an experiment's budgets is used, and when it will end."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.cli.views.budgets import estimate_time_left, list_budgets
from podtune.dashboard.trial_rows import ExperimentRows, collect_rows, read_moment
from tests.unit.dashboard.archives import BASE, done, experiment_body, make_source, read_page, serve, trial_body

START = "2026-01-01T10:00:00Z"
NOW = (read_moment(START) or 0.0) + 2 * 3600


def make_rows(
    counts: dict[str, int] | None = None, status: dict[str, Any] | None = None, **spec: Any
) -> ExperimentRows:
    known = {"state": "Running", "startTime": START, "trials": counts or {"total": 10}}
    source = make_source([trial_body(0)], experiment_body(status=known | (status or {}), **spec))
    view = source.find_experiment("team", "digits")
    assert view is not None
    return collect_rows(view, source.list_trials("team", "digits"))


def test_what_was_exported_has_used_its_time_up_to_the_latest_moment_on_record() -> None:
    body = experiment_body(status={"state": "Running", "startTime": START}, stop={"totalTime": "4h"})
    source = make_source([trial_body(0, **done(0.5, completionTime="2026-01-01T11:30:00Z"))], body)
    rows = collect_rows(source.list_experiments()[0], source.list_trials("team", "digits"))
    assert [(each.name, each.used_text) for each in list_budgets(rows.view, rows.tell_time(None))][-1] == (
        "Time",
        "1h30m",
    )


def tell_left(rows: ExperimentRows) -> str:
    left = estimate_time_left(rows.view, NOW)
    return f"{left.text}, {left.budget.name}" if left is not None else ""


def test_trials_last_as_long_as_they_have_taken_so_far() -> None:
    rows = make_rows({"total": 50, "terminated": 20, "error": 5})
    assert [(each.name, each.used_text, each.limit_text) for each in list_budgets(rows.view, NOW)] == [
        ("Trials", "25", "100")
    ]
    assert tell_left(rows) == "about 6h left, Trials"


def test_a_trial_that_runs_counts_as_half_done() -> None:
    assert tell_left(make_rows({"total": 100, "terminated": 60, "running": 40})) == "about 30m left, Trials"


@pytest.mark.parametrize(
    "rows",
    [
        make_rows({"total": 10, "terminated": 2, "running": 8}),
        make_rows({"total": 50, "terminated": 25}, {"state": "Complete", "completionTime": START}),
        make_rows({"total": 50, "terminated": 25}, {"suspendedSince": START}),
        make_rows({"total": 50, "terminated": 25}, {"startTime": None}),
        make_rows({"total": 50, "terminated": 25}, search={"maxTrials": "unlimited"}),
    ],
)
def test_what_cannot_be_told_is_not_told(rows: ExperimentRows) -> None:
    assert estimate_time_left(rows.view, NOW) is None


def test_the_limit_that_is_reached_first_says_when_it_ends() -> None:
    stop = {"totalTime": "12h", "experiment": [{"time": "3h"}, {"any": [{"gpuHours": 40}, {"target": 0.9}]}]}
    usage = {"gpuHours": 30.0, "podHours": 10.0}
    rows = make_rows({"total": 50, "terminated": 25}, {"usage": usage}, stop=stop)
    assert [(each.name, each.used_text, each.limit_text) for each in list_budgets(rows.view, NOW)] == [
        ("Trials", "25", "100"),
        ("Time", "2h", "3h"),
        ("GPU-hours", "30.0", "40.0"),
    ]
    assert tell_left(rows) == "about 40m left, GPU-hours"
    timed = make_rows({"total": 50, "terminated": 25}, stop=stop)
    assert tell_left(timed) == "1h left, Time"  # a clock needs no estimate


def test_suspensions_do_not_count() -> None:
    rows = make_rows({"total": 50}, {"suspendedSeconds": 3600}, stop={"totalTime": "3h"})
    assert tell_left(rows) == "2h left, Time"


def test_money_counts_gpus_and_pods_and_failures_are_a_budget_that_ends_nothing_by_time() -> None:
    cost = {"budget": 100, "perGpuHour": 2.5, "perPodHour": 0.5}
    stop = {"experiment": [{"cost": cost}, {"failures": {"count": 8}}, {"all": [{"time": "1h"}, {"target": 1}]}]}
    usage = {"gpuHours": 18.0, "podHours": 10.0}
    rows = make_rows({"total": 10, "error": 2}, {"usage": usage}, stop=stop)
    assert [(each.name, each.used_text, each.limit_text, each.share) for each in list_budgets(rows.view, NOW)] == [
        ("Trials", "2", "100", 0.02),
        ("Money", "50", "100", 0.5),
        ("Failed trials", "2", "8", 0.25),
    ]
    assert tell_left(rows) == "about 2h left, Money"


def test_rules_of_a_newer_operator_are_passed_over() -> None:
    stop = {"totalTime": "soon", "experiment": ["never", {"time": 7}, {"cost": "much"}, {"gpuHours": "many"}]}
    assert [each.name for each in list_budgets(make_rows(stop=stop).view, NOW)] == ["Trials"]


async def test_the_overview_shows_the_budgets_and_which_is_reached_first() -> None:
    status = {"state": "Running", "startTime": START, "trials": {"total": 6, "terminated": 4}}
    body = experiment_body(status=status, stop={"totalTime": "3h"})
    trials = [trial_body(0, startTime=START, completionTime="2026-01-01T12:00:00Z")]
    async with serve(make_source(trials, body)) as client:
        page = await read_page(client, f"{BASE}/")
    assert "1h left, then the limit on time is reached" in page
    assert "4 <small>of 100</small>" in page
    assert '<rect class="used" width="66.67%"' in page
