"""What kopf calls for each event: held against the kopf that is installed."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import kopf
import pytest
from kopf._cogs.aiokits.aiotoggles import ToggleSet
from kopf._cogs.clients import watching
from kopf._cogs.structs.references import Resource
from kopf._core.reactor import orchestration, processing, queueing, running
from structlog.testing import capture_logs

from podtune.controllers.watch.event_processing import give_events_to_handlers_alone

PODS = Resource(group="", version="v1", plural="pods", kind="Pod", preferred=True, verbs=frozenset({"list", "watch"}))
KOPFS_OWN = processing.process_resource_event
KOPFS_WATCHER = queueing.watcher
PASSED_ON = ("registry", "resource", "raw_event")
EVENT = {"type": "MODIFIED", "object": {"metadata": {"name": "e-0-1", "uid": "u"}}}


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    vars(processing)["process_resource_event"] = KOPFS_OWN
    vars(queueing)["watcher"] = KOPFS_WATCHER


@pytest.fixture
def registry() -> kopf.OperatorRegistry:
    return kopf.OperatorRegistry()


async def process(registry: kopf.OperatorRegistry) -> None:
    """As kopf calls it, with all that it passes."""
    give_events_to_handlers_alone()
    names = [name for name in inspect.signature(KOPFS_OWN).parameters if name not in PASSED_ON]
    others: Any = dict.fromkeys(names, SimpleNamespace())
    await processing.process_resource_event(registry=registry, resource=PODS, raw_event=EVENT, **others)


def test_this_kopf_calls_for_each_event_what_we_think() -> None:
    assert "processor=functools.partial(processing.process_resource_event" in inspect.getsource(running.spawn_tasks)
    assert set(PASSED_ON) <= inspect.signature(KOPFS_OWN).parameters.keys()


def test_this_kopf_calls_for_each_kind_what_we_think() -> None:
    give_events_to_handlers_alone()
    assert "coro=queueing.watcher(" in inspect.getsource(orchestration.spawn_missing_watchers)
    assert inspect.signature(queueing.watcher).parameters.keys() == inspect.signature(KOPFS_WATCHER).parameters.keys()
    asked_for = inspect.signature(watching.infinite_watch).parameters.keys()
    assert {"settings", "resource", "namespace", "operator_paused"} <= asked_for


async def test_events_are_processed_in_their_order_and_the_end_of_the_list_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later = {**EVENT, "type": "DELETED"}
    seen: list[Any] = []
    listed = ToggleSet(any)
    toggle = await listed.make_toggle(name="pods")

    async def events(**_: Any) -> AsyncIterator[Any]:
        for event in (EVENT, watching.Bookmark.LISTED, {"type": "BOOKMARK", "object": {"metadata": {}}}, later):
            yield event

    async def note(*, raw_event: Any) -> None:
        seen.append((raw_event, toggle in listed))

    monkeypatch.setattr(watching, "infinite_watch", events)
    give_events_to_handlers_alone()
    await queueing.watcher(
        namespace=None,
        settings=kopf.OperatorSettings(),
        resource=PODS,
        processor=note,
        operator_indexed=listed,
        resource_indexed=toggle,
    )
    assert seen == [(EVENT, True), (later, False)]


async def test_an_event_comes_to_the_handlers_of_its_resource(registry: kopf.OperatorRegistry) -> None:
    seen: list[Any] = []

    @kopf.on.event("v1", "pods", registry=registry)
    async def of_pods(event: Any, **_: Any) -> None:
        seen.append(("pod", event))

    @kopf.on.event("podtune.dev", "v1alpha1", "trials", registry=registry)
    async def of_trials(event: Any, **_: Any) -> None:
        seen.append(("trial", event))

    await process(registry)
    assert seen == [("pod", EVENT)]


async def test_a_handler_that_fails_is_told_of_and_stops_nothing(registry: kopf.OperatorRegistry) -> None:
    seen: list[Any] = []

    @kopf.on.event("v1", "pods", registry=registry)
    async def fails(event: Any, **_: Any) -> None:
        raise RuntimeError("boom")

    @kopf.on.event("v1", "pods", registry=registry)
    async def comes_after(event: Any, **_: Any) -> None:
        seen.append(event)

    with capture_logs() as logs:
        await process(registry)
    assert seen == [EVENT]
    assert [line["event"] for line in logs] == ["event not handled"]
