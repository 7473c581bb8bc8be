"""A cluster that changes while it is watched."""

from __future__ import annotations

import queue
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from podtune.cli.client.api_client import Change
from podtune.dashboard.live.cluster_source import ClusterSource
from podtune.kube import paths
from podtune.kube.manifests import Manifest
from tests.unit.cli.cli_fakes import FakeApi
from tests.unit.dashboard.archives import experiment_body, trial_body

TEAM = "team"
EXPERIMENTS, TRIALS = paths.experiments(TEAM), paths.trials(TEAM)
NOON = datetime(2026, 1, 1, 12, 3, tzinfo=UTC)


class LiveApi(FakeApi):
    """Its watches tell what a test puts in, until the test ends them."""

    def __init__(self) -> None:
        super().__init__()
        self.told: defaultdict[str, queue.SimpleQueue[Change | Exception | None]] = defaultdict(queue.SimpleQueue)

    def watch(
        self, path: str, params: Mapping[str, str] | None = None, is_wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[Change]:
        self.asked.append((path, dict(params or {})))
        while (change := self.told[path].get()) is not None:
            if isinstance(change, Exception):
                raise change
            yield change

    def lists(self, path: str, *items: Manifest) -> None:
        for change in (Change("RELISTED", {}), *(Change("ADDED", item) for item in items), Change("SYNCED", {})):
            self.told[path].put(change)

    def tells(self, path: str, *changes: Change | Exception) -> None:
        for change in changes:
            self.told[path].put(change)

    def ends(self) -> None:
        for path in (EXPERIMENTS, TRIALS, paths.experiments(), paths.trials()):
            self.told[path].put(None)


class Clock:
    """Goes on by a minute whenever it is asked."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        now, self.now = self.now, self.now + timedelta(minutes=1)
        return now


def team_experiment(name: str = "digits", version: str = "1", **status: Any) -> Manifest:
    body = experiment_body(name, status=status or None)
    return body | {"metadata": body["metadata"] | {"resourceVersion": version}}


def team_trial(index: int, version: str = "1", namespace: str = TEAM, **status: Any) -> Manifest:
    body = trial_body(index, **status)
    return body | {"metadata": body["metadata"] | {"namespace": namespace, "resourceVersion": version}}


def make_cluster(api: LiveApi, namespace: str | None = TEAM) -> ClusterSource:
    """A source that waits for no pause."""
    return ClusterSource(lambda: api, namespace, Clock(), pause=lambda _: None)
