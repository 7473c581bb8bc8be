"""What kopf is told to do, and where its events go."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kopf._cogs.clients import errors, watching
from kopf._cogs.structs.references import Resource
from kopf._core.reactor import orchestration, queueing
from structlog.testing import capture_logs

from podtune.controllers.store.store import Store
from podtune.controllers.watch.kopf import (
    Handler,
    Watched,
    call_handlers_directly,
    make_handlers,
    make_registry,
    make_settings,
)
from podtune.controllers.watch.opt_ins import OptIns, WatchForbidden
from podtune.controllers.watch.resync import POD_SELECTOR, Resync
from podtune.controllers.watch.watch_health import WatchHealth
from podtune.kube.manifests import Manifest

KOPFS_WATCHER = queueing.watcher
PODS = Resource(group="", version="v1", plural="pods", kind="Pod", preferred=True, verbs=frozenset({"list", "watch"}))
EXPERIMENTS = Resource(
    group="podtune.dev",
    version="v1alpha1",
    plural="experiments",
    kind="Experiment",
    preferred=True,
    verbs=frozenset({"list", "watch"}),
)
BODY: Manifest = {"metadata": {"name": "digits", "uid": "e-1", "resourceVersion": "7"}}


@dataclass
class Calls:
    """A store, the health of the watches and a resync that note what they are told."""

    calls: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        def note(*args: object) -> None:
            self.calls.append(" ".join([name, *(arg for arg in args if isinstance(arg, str))]))
            assert args == () or args[-1] is BODY

        return note


def make_noting_handlers(told: Calls) -> dict[Watched, Handler]:
    return make_handlers(cast("Store", told), cast("WatchHealth", told), cast("Resync", told))


def send(plural: str, type_: str | None) -> list[str]:
    """Has the handler of a kind of objects take an event; returns what was told of it, in order."""
    told = Calls()
    (handle,) = [handle for watched, handle in make_noting_handlers(told).items() if watched.plural == plural]
    handle({"type": type_, "object": BODY})
    return told.calls


@pytest.mark.parametrize(("plural", "kind"), [("experiments", "Experiment"), ("trials", "Trial"), ("pods", "Pod")])
def test_an_event_goes_to_the_store(plural: str, kind: str) -> None:
    method = f"observe_{kind.lower()}"
    assert send(plural, "ADDED") == send(plural, "MODIFIED") == [f"saw {kind}", method]
    assert send(plural, "DELETED") == [f"saw {kind}", f"{method}_deletion"]


def test_a_list_has_everything_listed_before_long_since_it_tells_of_no_deletion() -> None:
    assert send("trials", None) == ["saw Trial", "call", "observe_trial"]


def test_a_kopf_that_calls_handlers_itself_calls_ours() -> None:
    told = Calls()
    registered = make_noting_handlers(told)
    handlers = list(make_registry(registered)._watching.get_all_handlers())
    selectors = [handler.selector for handler in handlers if handler.selector is not None]
    assert [(one.group, one.version, one.any_name) for one in selectors] == list(registered)
    for handler in handlers:
        asyncio.run(cast("Any", handler.fn)(event={"type": "ADDED", "object": BODY}, unknown=None))
    assert told.calls[1::2] == ["observe_experiment", "observe_trial", "observe_pod"]


def test_kopf_writes_nothing_to_the_cluster() -> None:
    settings = make_settings()
    assert (settings.posting.enabled, settings.scanning.disabled, settings.peering.standalone) == (False, True, True)


def test_kopf_watches_pods_of_trials_alone() -> None:
    assert make_settings().watching.label_selectors["v1", "pods"] == POD_SELECTOR


def test_a_watch_that_hangs_is_given_up_after_the_api_server_should_have_ended_it() -> None:
    watching = make_settings().watching
    assert watching.server_timeout is not None
    assert watching.client_timeout is not None
    assert watching.server_timeout < watching.client_timeout


class TestTheReplacedFunction:
    """Kopf's `queueing.watcher`: held against the kopf that is installed."""

    @pytest.fixture(autouse=True)
    def _restore(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(queueing, "watcher", KOPFS_WATCHER)  # and so it is set again in the end

    @staticmethod
    async def watch(monkeypatch: pytest.MonkeyPatch, handle: Handler, *events: Any) -> dict[str, Any]:
        """Has a watch of pods bring events, as kopf calls it; returns how the watch was asked for."""
        asked: dict[str, Any] = {}

        async def bring(**options: Any) -> AsyncIterator[Any]:
            asked.update(options)
            for event in events:
                yield event

        monkeypatch.setattr(watching, "infinite_watch", bring)
        call_handlers_directly({Watched("", "v1", "pods"): handle})
        names = inspect.signature(KOPFS_WATCHER).parameters
        await queueing.watcher(**cast("Any", dict.fromkeys(names, SimpleNamespace()) | {"resource": PODS}))
        return asked

    def test_this_kopf_calls_it_for_each_kind(self) -> None:
        assert "coro=queueing.watcher(" in inspect.getsource(orchestration.spawn_missing_watchers)

    async def test_the_watch_is_asked_for_as_kopf_does(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = await self.watch(monkeypatch, lambda _: None)
        call = re.search(r"infinite_watch\((.*?)\)", inspect.getsource(KOPFS_WATCHER), re.DOTALL)
        assert call is not None
        assert asked.keys() == set(re.findall(r"(\w+)=", call.group(1)))

    async def test_events_come_in_their_order_without_bookmarks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[Any] = []
        added, deleted = {"type": None, "object": BODY}, {"type": "DELETED", "object": BODY}
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {}}}
        await self.watch(monkeypatch, seen.append, added, watching.Bookmark.LISTED, bookmark, deleted)
        assert seen == [added, deleted]

    async def test_a_handler_that_fails_is_told_of_and_ends_no_watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[str] = []

        def handle(event: Any) -> None:
            seen.append(event["type"])
            raise RuntimeError("boom")

        with capture_logs() as logs:
            await self.watch(
                monkeypatch, handle, {"type": "ADDED", "object": BODY}, {"type": "DELETED", "object": BODY}
            )
        assert seen == ["ADDED", "DELETED"]
        assert [line["event"] for line in logs] == ["event not handled"] * 2

    async def test_where_namespaces_opt_in_each_has_a_watch_of_its_own_but_for_experiments(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[tuple[str, str | None]] = []

        async def bring(*, resource: Resource, namespace: str | None, **_: Any) -> AsyncIterator[Any]:
            asked.append((resource.plural, namespace))
            if namespace == "lost":
                raise errors.APIForbiddenError(None, status=403, headers={})
            yield watching.Bookmark.LISTED

        class TwoOptIns:
            async def follow(self, watch: Any) -> None:
                await watch("team")
                with pytest.raises(WatchForbidden, match="pods"):
                    await watch("lost")

        monkeypatch.setattr(watching, "infinite_watch", bring)
        call_handlers_directly(make_noting_handlers(Calls()), cast("OptIns", TwoOptIns()))
        names = dict.fromkeys(inspect.signature(KOPFS_WATCHER).parameters, SimpleNamespace()) | {"namespace": None}
        for resource in (EXPERIMENTS, PODS):
            await queueing.watcher(**cast("Any", names | {"resource": resource}))
        assert asked == [("experiments", None), ("pods", "team"), ("pods", "lost")]
