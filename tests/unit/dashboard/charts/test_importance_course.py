"""Importance as the search went on."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from podtune.dashboard.charts.importance.bars import measure_importance
from podtune.dashboard.charts.importance.course import ImportanceCourse, draw_importance_course
from podtune.dashboard.pages import importance as pages
from podtune.dashboard.trial_rows import ExperimentRows, collect_rows
from tests.unit.dashboard.archives import BASE, done, experiment_body, make_source, read_page, serve, trial_body

PARAMETERS = [{"name": name, "float": {"min": 0, "max": 1}} for name in ("early", "late", "noise")]


def make_trial(index: int, **status: Any) -> dict[str, Any]:
    """One a minute: `early` decides in the first half of the run, `late` in the second."""
    early, late, noise = (index * step % 97 / 97 for step in (31, 59, 73))
    value = early if index < 100 else 1 + late
    end = f"2026-01-01T{10 + index // 60:02}:{index % 60:02}:00Z"
    values = {"early": repr(early), "late": repr(late), "noise": repr(noise)}
    times = {"startTime": "2026-01-01T10:00:00Z", "completionTime": end}
    return trial_body(index, values, **(done(value, **times) | status))


def collect(*trials: dict[str, Any]) -> ExperimentRows:
    source = make_source(trials, experiment_body(parameters=PARAMETERS))
    return collect_rows(source.list_experiments()[0], source.list_trials("team", "digits"))


def draw(count: int = 200) -> ImportanceCourse | None:
    return draw_importance_course(collect(*(make_trial(index) for index in range(count))), 0)


def test_each_tenth_has_the_importance_from_what_was_known_then() -> None:
    course = draw()
    assert course is not None
    assert [point.trials for point in course.points] == [20, 40, 60, 80, 100, 120, 140, 160, 180, 200]
    early, late = ([point.shares[name] or 0.0 for point in course.points] for name in ("early", "late"))
    assert early[4] > 0.6 > late[4]
    assert late[9] > 0.6 > early[9]
    assert course.names[0] == "late"


def test_the_last_point_is_what_the_bars_say() -> None:
    rows = collect(*(make_trial(index) for index in range(200)))
    course, chart = draw_importance_course(rows, 0), measure_importance(rows)
    assert course is not None
    assert course.points[-1].shares == pytest.approx({bar.name: bar.share for bar in chart.bars})


def test_a_line_is_broken_where_too_few_of_the_best_trials_had_its_parameter() -> None:
    trials = [make_trial(index) for index in range(200)]
    for trial in trials[:100]:
        del trial["spec"]["parameters"]["late"]
    course, whole = draw_importance_course(collect(*trials), 0), draw()
    assert course is not None
    assert whole is not None
    assert course.points[0].shares["late"] is None
    assert course.has_gaps
    assert not whole.has_gaps


def test_parts_with_too_few_trials_have_no_point_and_too_few_points_no_chart() -> None:
    course = draw(60)
    assert course is not None
    assert [round(point.part, 1) for point in course.points] == [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert course.x_ticks[-1].label == "40\u00a0%"
    assert draw(20) is None
    assert draw_importance_course(collect(*(make_trial(index, completionTime=None) for index in range(60))), 0) is None


def test_names_at_the_ends_of_lines_do_not_lie_on_each_other() -> None:
    trials = [
        trial_body(
            index, {f"p{at}": repr(index * (at + 3) * 31 % 97 / 97) for at in range(5)}, **make_trial(index)["status"]
        )
        for index in range(200)
    ]
    parameters = [{"name": f"p{at}", "float": {"min": 0, "max": 1}} for at in range(5)]
    source = make_source(trials, experiment_body(parameters=parameters))
    course = draw_importance_course(collect_rows(source.list_experiments()[0], source.list_trials("team", "digits")), 0)
    assert course is not None
    places = sorted(line.label for line in course.lines)
    assert all(after - before > 7 for before, after in pairwise(places))
    assert places[-1] <= 100


async def test_the_page_has_the_chart_its_table_and_its_picture() -> None:
    trials = [make_trial(index) for index in range(200)]
    async with serve(make_source(trials, experiment_body(parameters=PARAMETERS))) as client:
        page = await read_page(client, f"{BASE}/parameters")
        table = page[page.index('<th scope="col">Part of the run</th>') :]
        assert re.findall(r"<th scope=\"row\">(\w+)", table)[:2] == ["Trials", "late"]
        assert "the table below has the numbers" in page
        picture = await read_page(client, f"{BASE}/charts/importance-course.svg?importance=accuracy&theme=dark")
        assert "digits: Importance for accuracy as the search went on" in picture
    async with serve(make_source()) as client:
        assert 'id="course"' not in await read_page(client, f"{BASE}/parameters")
        assert "importance-course" in await read_page(client, f"{BASE}/charts/importance-course.svg", 404)


async def test_of_very_many_trials_it_is_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_AT_ONCE", 100)
    trials = [make_trial(index) for index in range(200)]
    async with serve(make_source(trials, experiment_body(parameters=PARAMETERS))) as client:
        page = await read_page(client, f"{BASE}/parameters")
        assert "Part of the run" not in page
        assert "parameters?importance=accuracy&amp;course=1#course" in page
        assert "Part of the run" in await read_page(client, f"{BASE}/parameters?importance=accuracy&course=1")
