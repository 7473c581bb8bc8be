"""A cluster that knows some people by their tokens, and what each of them may do."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from podtune.api.names import EXPERIMENT_PLURAL, TRIAL_PLURAL
from podtune.dashboard.access.gate import Access
from podtune.dashboard.access.reviews import Reviewer
from podtune.dashboard.access.session import ProxyTrust
from podtune.dashboard.actions.pages import ViewerApi
from podtune.dashboard.app import AppSettings, make_app
from podtune.dashboard.live.cluster_source import ClusterSource
from podtune.dashboard.live.object_reader import TokenReader
from podtune.dashboard.stores.access import StoreAccess
from podtune.kube import paths
from podtune.kube.errors import Unanswered
from podtune.kube.manifests import Manifest
from tests.unit.dashboard.archives import Client
from tests.unit.dashboard.live.live_api import LiveApi, make_cluster, team_experiment, team_trial

ALICE, BOB, ROOT = "alice-token", "bob-token", "root-token"
USERS = {ALICE: "alice", BOB: "system:serviceaccount:other:bob", ROOT: "root"}
Grant = tuple[str, str, str, str, str]
"""A user, a verb, a resource, a namespace and a name; empty for all."""


def grant_sight(user: str, namespace: str) -> set[Grant]:
    return {(user, "list", plural, namespace, "") for plural in (EXPERIMENT_PLURAL, TRIAL_PLURAL)}


class ReviewingApi(LiveApi):
    """Alice may see namespace team, root everything, and Bob nothing.

    While its gate is closed, it holds reviews of tokens and users that begin as `held`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.users = dict(USERS)
        self.grants = grant_sight("alice", "team") | grant_sight("root", "")
        self.reviewed: Counter[str] = Counter()
        self.specs: list[Manifest] = []
        self.is_away = False
        self.gate = threading.Event()
        self.gate.set()
        self.held = ""
        self.arrivals = threading.Semaphore(0)

    def create(self, path: str, item: Mapping[str, Any], params: Mapping[str, str] | None = None) -> Manifest:
        if path not in (paths.TOKEN_REVIEWS, paths.ACCESS_REVIEWS):
            return super().create(path, item)
        self.reviewed[item["kind"]] += 1
        self.specs.append(dict(item["spec"]))
        self.arrivals.release()
        if item["spec"].get("token", item["spec"].get("user")).startswith(self.held):
            assert self.gate.wait(30)
        if self.is_away:
            raise Unanswered("https://api can't be reached: no route")
        return {"status": self._review(path, item["spec"])}

    def _review(self, path: str, spec: Mapping[str, Any]) -> Manifest:
        if path == paths.TOKEN_REVIEWS:
            name = self.users.get(spec["token"])
            return {"authenticated": True, "user": {"username": name, "groups": ["g"]}} if name else {"error": "no"}
        asked = spec["resourceAttributes"]
        is_of_logs = (asked.get("group", ""), asked["resource"], asked.get("subresource")) == ("", "pods", "log")
        assert asked.get("group") == "podtune.dev" or is_of_logs
        return {"allowed": any(_covers(grant, spec["user"], asked) for grant in self.grants)}


def _covers(grant: Grant, user: str, asked: Mapping[str, str]) -> bool:
    who, verb, plural, namespace, name = grant
    is_it = (who, verb, plural) == (user, asked["verb"], asked["resource"])
    return is_it and namespace in ("", asked.get("namespace", "")) and name in ("", asked.get("name", ""))


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def open_source(
    api: ReviewingApi, digits: Manifest | None = None, trial: Manifest | None = None
) -> Iterator[ClusterSource]:
    """Experiments in three namespaces: team/digits, other/words and third/secret."""
    experiments = [
        digits or team_experiment(),
        move(team_experiment("words"), "other"),
        move(team_experiment("secret"), "third"),
    ]
    api.lists(paths.experiments(), *experiments)
    api.lists(paths.trials(), team_trial(0), trial or team_trial(1))
    source = make_cluster(api, None)
    source.start()
    yield source
    source.stop()
    api.ends()


def move(item: Manifest, namespace: str) -> Manifest:
    return item | {"metadata": item["metadata"] | {"namespace": namespace}}


@asynccontextmanager
async def serve_viewers(
    api: ReviewingApi,
    source: ClusterSource,
    clock: Clock | None = None,
    *,
    session: timedelta = timedelta(hours=1),
    proxy: ProxyTrust | None = None,
    is_open: bool = False,
) -> AsyncIterator[Client]:
    reviewer = None if is_open else Reviewer(lambda: api, clock or Clock())
    async with serve_app(source, Access(reviewer, session, proxy or ProxyTrust())) as client:
        yield client


@asynccontextmanager
async def serve_app(
    source: ClusterSource, access: Access, connect_as: ViewerApi | None = None, stores: StoreAccess | None = None
) -> AsyncIterator[Client]:
    reader = TokenReader(connect_as) if connect_as else None
    settings = AppSettings(
        allows_host=lambda _: True, access=access, connect_as=connect_as, reader=reader, stores=stores
    )
    app = make_app(source, settings)
    async with TestClient(TestServer(app)) as client:
        yield client
    if access.reviewer is not None:
        access.reviewer.close()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
