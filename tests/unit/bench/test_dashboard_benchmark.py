"""The dashboard's benchmark: its trials are what an experiment has, and it tells what it could not measure."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from e2e.bench.dashboard import viewing
from e2e.bench.dashboard.first_view import FirstView, find_median
from e2e.bench.dashboard.live_server import ChangingSource
from e2e.bench.dashboard.servers import Served, serve_archive, serve_changes, write_archive
from e2e.bench.dashboard.trial_maker import NAME, NAMESPACE, RUNGS, make_trial
from e2e.bench.dashboard.viewers import watch
from e2e.bench.measurement import Figure
from e2e.bench.targets import TARGETS
from e2e.bench.tuner.environments import Environment, Missing
from e2e.devcluster.errors import ClusterError
from podtune.cli.client.resources import read_trial
from podtune.dashboard.charts.learning.rungs import draw_rungs
from podtune.dashboard.sources import LiveSource, open_archive
from podtune.dashboard.trial_rows import ShownState, collect_rows


def test_the_trials_are_the_same_each_time_and_stopped_at_rungs(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    write_archive(200, file)
    source = open_archive(file)
    (view,) = source.list_experiments()
    experiment = collect_rows(view, source.list_trials(NAMESPACE, NAME))
    assert len(experiment.rows) == 200
    assert experiment.counts[ShownState.STOPPED] > experiment.counts[ShownState.DONE] > 0
    plot = draw_rungs(experiment)
    assert plot is not None
    assert [strip.rung for strip in plot.strips] == list(RUNGS)
    assert make_trial(7) == make_trial(7) != make_trial(8)


def test_a_running_trial_goes_on_from_what_it_was() -> None:
    before, after = (read_trial(make_trial(3, results=count)).status.curve for count in (5, 6))
    assert before is not None
    assert after is not None
    assert list(after.list_points())[:5] == list(before.list_points())


async def test_as_many_trials_change_as_are_asked_for() -> None:
    source = ChangingSource(150)
    assert isinstance(source, LiveSource)
    before, known = source.list_trials(NAMESPACE, NAME), source.find_revision(NAMESPACE, NAME)
    changing = asyncio.ensure_future(source.change(50))
    assert await asyncio.wait_for(source.wait_for_news(NAMESPACE, NAME, known), 30) != known
    after = source.list_trials(NAMESPACE, NAME)
    changing.cancel()
    assert sum(now is not then for now, then in zip(after, before, strict=True)) == 5


def test_viewers_hear_of_changes_and_get_the_page() -> None:
    with serve_changes(120, 50) as served:
        for seconds in (1.0, 4.0, 16.0, 64.0):  # the first is enough where the machine is not busy
            seen = asyncio.run(watch(served.page, 3, seconds))
            if seen.waits:
                break
        assert seen.waits
        assert seen.revisions
        assert served.megabytes > 10
        assert served.seconds > 0


def test_a_program_that_fails_says_why(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text("kind: Other\n")
    with pytest.raises(RuntimeError) as failure, serve_archive(file):
        pass
    assert any("it is no ExperimentArchive" in note for note in failure.value.__notes__)


def test_medians_are_taken_of_each_figure() -> None:
    views = [FirstView(1, 9, 4), FirstView(2, 8, 4), FirstView(3, 1, 5)]
    assert find_median(views) == FirstView(2, 8, 4)


def test_without_a_browser_it_says_so_and_measures_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def refuse() -> Iterator[None]:
        raise ClusterError("apt-get install chromium")
        yield

    monkeypatch.setattr(viewing, "open_browser", refuse)
    monkeypatch.setattr(viewing, "write_archive", lambda trials, file: write_archive(20, file))
    monkeypatch.setattr(viewing, "_measure_updates", lambda seconds: [Figure("update", 1.0)])
    found = viewing.measure(full=False)
    assert "Chromium is missing, so nobody has looked at a page: apt-get install chromium" in found.setting
    assert [figure.name for figure in found.figures] == [
        "dashboard's memory with an archive of 10,000 trials",
        "update",
    ]


def test_without_optuna_dashboard_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Browser:
        pass

    @contextmanager
    def open_it() -> Iterator[Browser]:
        yield Browser()

    def refuse(environment: Environment) -> None:
        raise Missing("no network")

    view = FirstView(120.0, 300.0, 240.0)
    monkeypatch.setattr(viewing, "open_browser", open_it)
    monkeypatch.setattr(viewing, "visit", lambda browser, address, chart: view)
    monkeypatch.setattr(viewing, "write_archive", lambda trials, file: write_archive(20, file))
    monkeypatch.setattr(viewing, "_measure_updates", lambda seconds: [])
    monkeypatch.setattr(Environment, "install", refuse)
    found = viewing.measure(full=False)
    assert found.setting.endswith("Optuna Dashboard could not be had: no network")
    figures = {figure.name: figure.value for figure in found.figures}
    assert figures["first paint of 10,000 trials"] == 120.0
    assert figures["first chart of 10,000 trials"] == 300.0


def test_optuna_dashboard_is_opened_once_as_it_takes_more_than_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    @contextmanager
    def serve(command: object, variables: object) -> Iterator[Served]:
        yield Served("http://theirs/", Path("/proc/self"))

    def look(browser: object, address: str, chart: str) -> FirstView:
        opened.append(address)
        return FirstView(812.0, 77_049.0, 1510.0)

    monkeypatch.setattr(viewing, "serve_told", serve)
    monkeypatch.setattr(viewing, "visit", look)
    monkeypatch.setattr(Environment, "describe_run", lambda *given: ([], {}))
    shown = {figure.name: figure.text for figure in viewing._measure_beside(cast(Any, None))}
    assert opened == ["http://theirs/"]
    assert shown["Optuna Dashboard: first chart of 10,000 trials"] == "77.05 s"
    assert shown["Optuna Dashboard: first paint of 10,000 trials"] == "812 ms"


def test_what_is_promised_is_measured() -> None:
    told = {
        *(figure.name for figure in viewing._tell_view("", FirstView(1, 1, 1))),
        "server's processor time for a live update of 10,000 trials",
        "dashboard's memory with an archive of 10,000 trials",
        "dashboard's memory at 10,000 trials that change",
    }
    assert {name for name in TARGETS if "10,000 trials" in name and "operator" not in name} <= told


def test_what_reading_changes_costs_is_no_part_of_an_update() -> None:
    assert viewing.find_cost(used=0.5, without=0.2, updates=2) == pytest.approx(150.0)
    assert math.isnan(viewing.find_cost(used=0.5, without=0.2, updates=0))
