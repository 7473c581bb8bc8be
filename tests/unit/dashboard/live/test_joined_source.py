"""Some namespaces of a cluster as one source."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from podtune.cli.client.api_client import Change
from podtune.cli.errors import CliError
from podtune.dashboard.live.cluster_source import ClusterSource
from podtune.dashboard.live.joined_source import JoinedSource
from podtune.kube import paths
from podtune.kube.errors import Unanswered, make_refusal
from podtune.kube.manifests import Manifest
from tests.unit.dashboard.archives import read_page, serve
from tests.unit.dashboard.live.live_api import (
    EXPERIMENTS,
    TRIALS,
    LiveApi,
    make_cluster,
    team_experiment,
    team_trial,
)

WAIT = 30
OTHER_EXPERIMENTS, OTHER_TRIALS = paths.experiments("other"), paths.trials("other")


def other_experiment(version: str = "7", **status: str) -> Manifest:
    body = team_experiment("words", version, **status)
    return body | {"metadata": body["metadata"] | {"namespace": "other"}}


@pytest.fixture
def api() -> Iterator[LiveApi]:
    api = LiveApi()
    api.lists(EXPERIMENTS, team_experiment())
    api.lists(TRIALS, team_trial(0))
    api.lists(OTHER_EXPERIMENTS, other_experiment())
    api.lists(OTHER_TRIALS)
    yield api
    for path in (EXPERIMENTS, TRIALS, OTHER_EXPERIMENTS, OTHER_TRIALS):
        api.told[path].put(None)


def join(api: LiveApi) -> JoinedSource:
    return JoinedSource({name: make_cluster(api, name) for name in ("team", "other")})


@pytest.fixture
def source(api: LiveApi) -> Iterator[JoinedSource]:
    source = join(api)
    source.start()
    yield source
    source.stop()


def test_it_has_what_each_has(source: JoinedSource) -> None:
    assert [(view.namespace, view.name) for view in source.list_experiments()] == [
        ("other", "words"),
        ("team", "digits"),
    ]
    assert source.title == "namespaces other, team"
    found = source.find_experiment("team", "digits")
    assert found is not None
    assert [trial.name for trial in source.list_trials("team", "digits")] == ["digits-0"]
    for namespace in ("other", "third"):
        assert source.find_experiment(namespace, "digits") is None
        assert not source.list_trials(namespace, "digits")


async def test_news_of_any_wake_who_waits_for_all(api: LiveApi, source: JoinedSource) -> None:
    known, one = source.find_revision("", ""), source.find_revision("team", "digits")
    waiting = asyncio.ensure_future(source.wait_for_news("", "", known))
    api.tells(OTHER_EXPERIMENTS, Change("MODIFIED", other_experiment("8", state="Running")))
    assert await asyncio.wait_for(waiting, WAIT) == source.find_revision("", "")
    assert source.find_revision("team", "digits") == one
    waiting = asyncio.ensure_future(source.wait_for_news("team", "digits", one))
    api.tells(TRIALS, Change("ADDED", team_trial(5)))
    assert await asyncio.wait_for(waiting, WAIT) != one


async def test_of_a_namespace_that_is_not_shown_nothing_is_waited_for_in_a_loop(
    source: JoinedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def loop(*_: str) -> str:
        raise AssertionError("another namespace has no news of it")

    monkeypatch.setattr(ClusterSource, "wait_for_news", loop)
    assert source.find_revision("third", "digits") == ""
    assert await source.wait_for_news("third", "digits", "1-2-3") == ""
    waiting = asyncio.ensure_future(source.wait_for_news("third", "digits", ""))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


async def test_only_pages_of_what_may_have_news_open_a_stream(source: JoinedSource) -> None:
    async with serve(source) as client:
        assert 'id="live"' in await read_page(client, "/experiments/team/absent/", 404)
        assert 'id="live"' not in await read_page(client, "/experiments/third/digits/", 404)
        assert 'id="live"' not in await read_page(client, "/nowhere", 404)


async def test_an_outage_of_one_is_told(api: LiveApi, source: JoinedSource) -> None:
    known = source.find_revision("", "")
    api.tells(OTHER_TRIALS, Unanswered("no route"))
    await asyncio.wait_for(source.wait_for_news("", "", known), WAIT)
    assert source.outage is not None
    assert source.outage.reason == "no route"


def test_a_namespace_that_may_not_be_read_ends_the_start(api: LiveApi) -> None:
    refused = LiveApi()
    for path in (EXPERIMENTS, TRIALS):
        refused.tells(path, make_refusal(403, "Forbidden", "you cannot list"))
    source = JoinedSource({"team": make_cluster(refused, "team"), "other": make_cluster(api, "other")})
    with pytest.raises(CliError, match="you cannot list"):
        source.start()
    source.stop()
    refused.ends()
