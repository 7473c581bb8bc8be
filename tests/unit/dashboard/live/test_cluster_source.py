from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator

import pytest

from podtune.cli.client.api_client import Api, Change
from podtune.cli.errors import CliError
from podtune.dashboard.live.cluster_source import LONGEST_PAUSE, ClusterSource
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal, NotSent, ResourceNotFound, Unanswered, make_refusal
from tests.unit.dashboard.archives import done
from tests.unit.dashboard.live.live_api import (
    EXPERIMENTS,
    NOON,
    TEAM,
    TRIALS,
    Clock,
    LiveApi,
    make_cluster,
    team_experiment,
    team_trial,
)

WAIT = 30


@pytest.fixture
def api() -> Iterator[LiveApi]:
    api = LiveApi()
    yield api
    api.ends()


@pytest.fixture
def source(api: LiveApi) -> Iterator[ClusterSource]:
    """One that knows an experiment with two trials."""
    api.lists(EXPERIMENTS, team_experiment())
    api.lists(TRIALS, team_trial(0), team_trial(1))
    source = make_cluster(api)
    source.start()
    yield source
    source.stop()


async def _hear(source: ClusterSource, known: str, experiment: str = "digits") -> str:
    return await asyncio.wait_for(source.wait_for_news(TEAM, experiment, known), WAIT)


def test_all_that_there_is_is_known_once_it_has_started(source: ClusterSource) -> None:
    assert source.title == "namespace team"
    assert [view.name for view in source.list_experiments()] == ["digits"]
    assert [trial.name for trial in source.list_trials(TEAM, "digits")] == ["digits-0", "digits-1"]
    assert source.outage is None


def test_all_namespaces_are_read_where_that_is_asked_for(api: LiveApi) -> None:
    api.lists(paths.experiments(), team_experiment())
    api.lists(paths.trials())
    source = make_cluster(api, None)
    source.start()
    assert source.title == "all namespaces"
    assert source.find_experiment(TEAM, "digits") is not None
    source.stop()


@pytest.mark.parametrize(
    ("namespace", "error", "kind", "said"),
    [
        (None, make_refusal(403, "Forbidden", "you cannot list trials"), CliError, "403: you cannot.*with -n"),
        (TEAM, make_refusal(403, "Forbidden", "you cannot list trials"), CliError, "role `view` is enough"),
        (TEAM, make_refusal(404, "NotFound", "not found"), CliError, "install the chart podtune-crds"),
        (TEAM, NotSent("server can't be reached"), NotSent, "can't be reached"),
    ],
)
def test_what_stands_in_the_way_at_the_start_ends_it(
    api: LiveApi, namespace: str | None, error: Exception, kind: type[Exception], said: str
) -> None:
    api.tells(paths.trials(namespace or ""), error)
    with pytest.raises(kind, match=said):
        make_cluster(api, namespace).start()


async def test_a_change_is_told_to_those_who_look_at_that_experiment(api: LiveApi, source: ClusterSource) -> None:
    known = source.find_revision(TEAM, "digits")
    other = asyncio.ensure_future(source.wait_for_news(TEAM, "words", source.find_revision(TEAM, "words")))
    waiting = asyncio.ensure_future(_hear(source, known))
    await asyncio.sleep(0)
    api.tells(TRIALS, Change("MODIFIED", team_trial(1, "2", **done(0.9))))
    assert await waiting == source.find_revision(TEAM, "digits") != known
    assert source.list_trials(TEAM, "digits")[1].has_ended
    assert not other.done()
    other.cancel()


async def test_news_that_came_before_one_asked_is_told_at_once(api: LiveApi, source: ClusterSource) -> None:
    known = source.find_revision(TEAM, "digits")
    api.tells(TRIALS, Change("ADDED", team_trial(2)))
    await _hear(source, known)
    assert await _hear(source, known) == source.find_revision(TEAM, "digits")
    assert await _hear(source, "of a program that ran before")


async def test_after_a_watch_has_expired_what_is_gone_is_missed(api: LiveApi, source: ClusterSource) -> None:
    known = source.find_revision(TEAM, "digits")
    api.tells(TRIALS, make_refusal(410, "Expired", "too old"))
    api.lists(TRIALS, team_trial(1), team_trial(5))
    while [trial.index for trial in source.list_trials(TEAM, "digits")] != [1, 5] or source.outage is not None:
        known = await _hear(source, known)
    assert len([path for path, _ in api.asked if path == TRIALS]) == 2


async def test_while_the_server_is_away_the_time_since_when_is_known(api: LiveApi, source: ClusterSource) -> None:
    known = source.find_revision(TEAM, "digits")
    api.tells(TRIALS, Change("INTERRUPTED", {}))
    known = await _hear(source, known)
    assert source.outage is not None
    assert source.outage.since == NOON
    api.tells(TRIALS, Unanswered("server can't be reached: no route"))
    await _hear(source, known)
    assert source.outage is not None
    assert source.outage.since == NOON, "the time of the first failure"
    assert source.outage.reason == "server can't be reached: no route"
    assert len(source.list_trials(TEAM, "digits")) == 2, "what was known is still shown"
    known = source.find_revision(TEAM, "digits")
    api.lists(TRIALS, team_trial(0), team_trial(1))
    await _hear(source, known)
    assert source.outage is None


async def test_a_connection_that_goes_on_ends_an_outage(api: LiveApi, source: ClusterSource) -> None:
    known = source.find_revision(TEAM, "digits")
    api.tells(EXPERIMENTS, Change("INTERRUPTED", {}))
    known = await _hear(source, known)
    api.tells(EXPERIMENTS, Change("RESUMED", {}))
    await _hear(source, known)
    assert source.outage is None


async def test_when_the_server_refuses_the_credentials_others_are_asked_for(api: LiveApi) -> None:
    renewed = LiveApi()
    opened: list[Api] = [renewed, api]
    api.lists(EXPERIMENTS, team_experiment())
    api.lists(TRIALS, team_trial(0))
    renewed.lists(TRIALS, team_trial(0), team_trial(1))
    source = ClusterSource(opened.pop, TEAM, Clock(), pause=lambda _: None)
    source.start()
    known = source.find_revision(TEAM, "digits")
    api.tells(TRIALS, ApiRefusal(401, "Unauthorized", "Unauthorized"))
    while len(source.list_trials(TEAM, "digits")) < 2:
        known = await _hear(source, known)
    source.stop()
    renewed.ends()


def test_tries_become_more_seldom_and_are_not_all_at_once(api: LiveApi) -> None:
    api.lists(EXPERIMENTS, team_experiment())
    api.lists(TRIALS)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            source.stop()
            ended.set()

    ended = threading.Event()
    source = ClusterSource(lambda: api, TEAM, Clock(), pause=pause)
    source.start()
    api.tells(TRIALS, *(ResourceNotFound(404, "NotFound", "gone") for _ in range(8)))
    assert ended.wait(WAIT)
    assert all(
        limit / 2 <= paused <= limit for paused, limit in zip(pauses, (2, 4, 8, 16, 30, 30, 30, 30), strict=True)
    )
    assert max(pauses) <= LONGEST_PAUSE
    assert len({round(paused, 6) for paused in pauses}) == 8


async def test_a_revision_does_not_tell_how_much_happens_in_other_experiments(
    api: LiveApi, source: ClusterSource
) -> None:
    told = [source.find_revision(TEAM, "digits")]
    for version in range(2, 14):
        api.tells(EXPERIMENTS, Change("MODIFIED", team_experiment("words", str(version))))
        api.tells(EXPERIMENTS, Change("MODIFIED", team_experiment(version=str(version))))
        told.append(await _hear(source, told[-1]))
    assert len({*told, source.find_revision(TEAM, "words")}) == 14
    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in told)
    assert sorted(told) != told, "they are counted"
