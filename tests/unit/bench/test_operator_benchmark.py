"""The operator's benchmark: it runs, and tells a miss from a hit."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import aiohttp
import pytest
from rich.console import Console

from e2e.bench import __main__ as command
from e2e.bench.fake_cluster.api_objects import Objects, Refused, selecting
from e2e.bench.fake_cluster.fake_cluster import FakePod, run_fake_cluster
from e2e.bench.fake_cluster.operator_with_profile import EVENT_LOOP, owner, package_of
from e2e.bench.figures import read, run_parts
from e2e.bench.measurement import Figure, Measurement, headlines, percentile
from e2e.bench.operator import fairness, growth, kept, log_relay, profile, reaction, restart, results
from e2e.bench.targets import TARGETS
from e2e.bench.tuner.environments import Environment, Missing
from e2e.chaos.polling import until
from podtune.cluster.lease import LeaseSettings
from podtune.runner.scheduling import slots

RATE = "results taken in a second"


def test_a_figure_that_misses_its_target_is_a_broken_promise() -> None:
    found = Measurement("", [Figure(RATE, 4999), Figure("results lost", 0), Figure("no target", 1)], ["another"])
    assert found.problems == [f"{RATE}: 4,999", "another"]
    assert not TARGETS[RATE].holds(float("nan"))
    assert not TARGETS["results lost"].holds(float("nan"))


def test_a_percentile_is_a_value_that_was_seen() -> None:
    assert percentile([4, 1, 3, 2], 0.5) == 2
    assert percentile([4, 1, 3, 2], 0.99) == 4


def test_a_part_that_fails_keeps_no_other_from_being_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    file.write_text(json.dumps({"older": {"figures": 1}}))

    def fails() -> tuple[object, list[str]]:
        raise RuntimeError("no cluster")

    def works() -> tuple[object, list[str]]:
        return Measurement("", [Figure(RATE, 6000)]).to_json(), []

    parts = {"fails": fails, "works": works}
    console = Console(width=100)
    nothing = tmp_path / "none.json"
    assert run_parts(parts, console, committed=nothing, headlines=headlines, file=file) == 1
    written = read(file)
    assert written.keys() == {"older", "works"}
    assert headlines({"works": written["works"]}) == {RATE: 6000}
    assert "not measured: fails: no cluster" in capsys.readouterr().out


def test_what_was_measured_stays_when_the_rest_is_interrupted(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"

    def interrupted() -> tuple[object, list[str]]:
        raise KeyboardInterrupt

    parts = {"first": lambda: (Measurement("", [Figure(RATE, 6000)]).to_json(), []), "second": interrupted}
    with pytest.raises(KeyboardInterrupt):
        run_parts(parts, Console(), committed=file, headlines=headlines, file=file)
    assert headlines(read(file)) == {RATE: 6000}


async def test_a_watch_begins_after_a_version_and_sees_what_it_selects() -> None:
    pods = Objects().of("pods")
    first = pods.create("n", {"metadata": {"name": "a", "labels": {"x": "1"}}})
    pods.create("n", {"metadata": {"name": "b", "labels": {"x": "2"}}})
    pods.set_deleting("n", "a")
    pods.remove("n", "a")
    queue = pods.watch(int(first["metadata"]["resourceVersion"]), selecting("x in (1,3)"))
    events = [json.loads(queue.get_nowait() or b"") for _ in range(queue.qsize())]
    assert [event["type"] for event in events] == ["MODIFIED", "DELETED"]
    assert "deletionTimestamp" in events[0]["object"]["metadata"]


def test_what_was_made_from_an_older_version_is_refused() -> None:
    trials = Objects().of("trials")
    body = trials.create("n", {"metadata": {"name": "a"}})
    trials.replace("n", {**body, "status": {"state": "RUNNING"}}, only="status")
    with pytest.raises(Refused, match="modified"):
        trials.replace("n", {**body, "status": {}}, only="status")
    assert trials.get("n", "a")["status"] == {"state": "RUNNING"}


@pytest.mark.slow
async def test_results_of_a_few_agents_are_taken_in_with_decisions() -> None:
    found = await results.measure_crowd(4, 110)
    figures = {figure.name: figure.value for figure in found.figures}
    assert figures["results lost"] == figures["results counted twice"] == 0
    assert figures["results taken in a second"] > 0
    assert found.broken == []


@pytest.mark.slow
async def test_logs_of_a_few_pods_come_whole_to_their_agents() -> None:
    found = await log_relay.measure_logs(3, seconds=1.0)
    figures = {figure.name: figure.value for figure in found.figures}
    assert figures["operator's processor time for a MiB of logs"] > 0
    assert found.broken == []


@pytest.mark.slow
async def test_an_operator_that_is_killed_among_a_few_trials_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "PERIOD", 0.3)
    found = await restart.measure_restart(12, 4, watched_seconds=0.5)
    figures = {figure.name: figure.value for figure in found.figures}
    assert figures["results lost over the restart"] == figures["pods made twice"] == 0
    assert 0 < figures["first result taken in after SIGKILL"] <= figures["first decision after SIGKILL"]
    assert found.broken == []


@pytest.mark.long
async def test_small_experiments_are_timed_beside_a_giant() -> None:
    found = await fairness.measure_small_beside(600, 1)
    figures = {figure.name: figure.value for figure in found.figures}
    assert figures["pods of a small experiment posted, alone, p50"] > 0
    assert figures["trials of the giant still queued at the end"] > 0
    assert found.broken == []


@pytest.mark.slow
async def test_who_is_refused_all_but_its_lease_leads_on_and_comes_back_when_it_may() -> None:
    async with run_fake_cluster(lambda _: None) as cluster:
        for number, name in enumerate(("listed", "watched"), start=1):  # its watch is open once it has seen the second
            cluster.create_experiment(name, 3, 3)
            assert await until(lambda number=number: len(cluster.created) == 3 * number, 60)
        cluster.api.retry_after = 1
        renewals: list[float] = []
        cluster.api.objects.of("leases").listeners.append(lambda *_: renewals.append(time.monotonic()))
        cluster.create_experiment("late", 3, 1)
        assert await until(lambda: len(cluster.api.refused) > 2 and len(renewals) > 1, 60)
        assert max(later - earlier for earlier, later in pairwise(renewals)) < LeaseSettings("", "", "").give_up_after
        waits = [later - earlier for earlier, later in pairwise(cluster.api.refused)]
        assert min(waits) >= 1, "it waits at least as long as it was asked to"
        assert len(cluster.created) == 6
        cluster.api.retry_after = 0
        assert await until(lambda: len(cluster.created) == 7, 60)
        assert await cluster.operator.metric("podtune_leading") == 1


@pytest.mark.slow
async def test_reactions_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaction, "PERIOD", 0.2)
    found = await reaction.measure_reaction(3, 0.5, spread=0.2)
    figures = {figure.name: figure.value for figure in found.figures}
    assert 0 < figures["result to decision, p50"] <= figures["result to decision, p99"]
    assert found.broken == []


@pytest.mark.slow
async def test_the_cost_of_a_trial_is_taken_over_all_experiments() -> None:
    cost = await growth.run(2, 5, at_once=3)
    assert cost.trials == 10
    assert cost.processor_ms > 0
    assert cost.resident_bytes > cost.grown_bytes


@pytest.mark.long
def test_what_is_kept_is_compared_with_trials_of_which_nothing_is() -> None:
    everything = {**kept.STORE, "logs": {"keep": "1Mi"}, "snapshot": {"period": "5s"}}
    found = kept.measure_variants({"all kept": everything}, steps=2, rounds=1, trials=3)
    figures = {figure.name: figure.value for figure in found.figures}
    assert figures["processor time a trial, none kept"] > 0
    assert figures["processor time a trial, all kept, to none kept"] > 0


@pytest.mark.slow
async def test_agents_read_the_output_that_is_kept_and_no_other() -> None:
    async def print_lines(pod: FakePod) -> None:
        pod.log.print("one")
        await pod.answers.until_acknowledged(pod.report(1.0))
        pod.log.print("two")

    async with run_fake_cluster(lambda _: print_lines) as cluster:
        for name, keep in (("kept", "1Mi"), ("dropped", "0")):
            cluster.create_experiment(name, 1, 1, **kept.STORE, logs={"keep": keep})
        await cluster.until_complete(60)
        read = {pod.trial: (pod.log.count, pod.lines_kept) for pod in cluster.pods_made.values()}
        assert read == {"kept-0": (2, 2), "dropped-0": (2, 0)}
        assert cluster.problems == []


@pytest.mark.slow
async def test_the_profile_of_an_operator_adds_up() -> None:
    found = await profile.measure_trials(20)
    whole, *parts = (figure.value for figure in found.figures)
    assert sum(parts) == pytest.approx(whole)
    assert any("podtune.runner" in figure.name for figure in found.figures)


@pytest.mark.parametrize(
    ("module", "package"),
    [(growth, None), (slots, "podtune.runner"), (aiohttp, "aiohttp"), (asyncio, EVENT_LOOP), (json, None)],
)
def test_time_belongs_to_the_package_of_a_file(module: ModuleType, package: str | None) -> None:
    assert module.__file__ is not None
    assert package_of(module.__file__) == package


def test_what_the_standard_library_does_it_does_for_its_caller() -> None:
    frames: list[str] = []
    library = {"look": lambda: frames.append(owner(sys._getframe()))}
    installed = compile("look()", aiohttp.__file__, "exec")
    exec(installed, library)
    assert frames == ["aiohttp"]
    assert owner(None) == EVENT_LOOP


def test_every_part_can_be_measured() -> None:
    for module in command.PARTS.values():
        assert callable(importlib.import_module(f"e2e.bench.{module}").measure)


def test_where_ray_can_not_be_had_the_setting_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> object:
        raise Missing("no network")

    monkeypatch.setattr(Environment, "run", fails)
    ours = Measurement("Ours", [Figure(RATE, 6000)])
    found = results.beside_ray(ours)
    assert found.setting == "Ours. Ray Tune's loop was not measured: no network"
    assert found.figures == ours.figures


def test_ray_is_shown_by_the_results_it_takes_in_and_what_they_cost_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"actors": 8, "results": 1000, "seconds": 4.0, "processor_seconds": 2.0}
    monkeypatch.setattr(Environment, "run", lambda *_, **__: found)
    shown = {figure.name: figure.text for figure in results.beside_ray(Measurement("Ours", [])).figures}
    assert shown == {
        "results taken in a second by Ray Tune's loop": "250 results/s",
        "processor time of Ray Tune's driver a result": "2,000 µs",
    }
