"""News at a pace, which all viewers share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

import pytest

from podtune.cli.client.resources import ExperimentView, TrialView, read_experiment, read_trial
from podtune.dashboard.live import paced_source
from podtune.dashboard.live.paced_source import PacedSource
from podtune.dashboard.sources import LiveSource, Outage
from tests.unit.dashboard.archives import experiment_body, trial_body

PACE = 1.0
TOPIC = "team", "digits"


class ChangingSource(LiveSource):
    """Has as many trials as there were changes."""

    title = "changes"
    has_own_title = True
    outage: Outage | None = None

    def __init__(self) -> None:
        self.view = read_experiment(experiment_body())
        self.trials: tuple[TrialView, ...] = ()
        self.looks = 0
        self.news = asyncio.Event()

    def change(self) -> None:
        self.trials = (*self.trials, read_trial(trial_body(len(self.trials))))
        self.news.set()

    def list_experiments(self) -> Sequence[ExperimentView]:
        return (self.view,)

    def find_experiment(self, namespace: str, name: str) -> ExperimentView | None:
        return self.view if (namespace, name) == TOPIC else None

    def list_trials(self, namespace: str, experiment: str) -> Sequence[TrialView]:
        return self.trials

    def find_deletion(self, namespace: str, experiment: str) -> datetime | None:
        return None

    def find_revision(self, namespace: str, experiment: str) -> str:
        self.looks += 1
        return str(len(self.trials))

    async def wait_for_news(self, namespace: str, experiment: str, known: str) -> str:
        while str(len(self.trials)) == known:
            self.news.clear()
            await self.news.wait()
        return str(len(self.trials))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Sleeping moves it on."""
    clock = Clock()

    async def sleep(seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return clock


async def test_within_a_pace_all_see_the_same_and_then_the_newest(clock: Clock) -> None:
    source = ChangingSource()
    paced = PacedSource(source, PACE, clock)
    assert (paced.find_revision(*TOPIC), len(paced.list_trials(*TOPIC))) == ("0", 0)
    source.change()
    clock.now += PACE / 2
    assert (paced.find_revision(*TOPIC), len(paced.list_trials(*TOPIC))) == ("0", 0)
    clock.now += PACE / 2
    assert (paced.find_revision(*TOPIC), len(paced.list_trials(*TOPIC))) == ("1", 1)
    assert paced.find_experiment(*TOPIC) is source.view
    assert paced.find_experiment("team", "other") is None


async def test_what_came_within_a_pace_is_told_at_its_end(clock: Clock) -> None:
    source = ChangingSource()
    paced = PacedSource(source, PACE, clock)
    known = paced.find_revision(*TOPIC)
    source.change()
    source.change()
    assert await paced.wait_for_news(*TOPIC, known) == "2"
    assert clock.now == 101.0
    assert len(paced.list_trials(*TOPIC)) == 2


async def test_many_who_wait_are_told_the_same_after_one_look(clock: Clock) -> None:
    source = ChangingSource()
    paced = PacedSource(source, PACE, clock)
    known = paced.find_revision(*TOPIC)
    waiting = [asyncio.ensure_future(paced.wait_for_news(*TOPIC, known)) for _ in range(20)]
    await asyncio.wait(waiting, timeout=0.01)
    looks = source.looks
    clock.now += 10 * PACE
    source.change()
    assert await asyncio.gather(*waiting) == ["1"] * 20
    assert source.looks == looks + 1


async def test_a_list_shows_nothing_of_an_experiment_that_is_older_than_the_list(clock: Clock) -> None:
    source = ChangingSource()
    paced = PacedSource(source, PACE, clock)
    paced.list_trials(*TOPIC)
    source.change()
    clock.now += PACE / 2
    assert paced.find_revision("", "") == "1"
    assert paced.list_experiments() == (source.view,)
    assert len(paced.list_trials(*TOPIC)) == 1


async def test_experiments_that_nobody_looks_at_are_forgotten(clock: Clock) -> None:
    source = ChangingSource()
    paced = PacedSource(source, PACE, clock)
    for number in range(paced_source.MOST_GLIMPSES + 1):
        paced.find_revision("team", str(number))
    looks = source.looks
    paced.find_revision("team", str(paced_source.MOST_GLIMPSES))
    assert source.looks == looks
    paced.find_revision("team", "0")
    assert source.looks == looks + 1
