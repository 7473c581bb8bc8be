"""What kopf calls for each event: held against the kopf that is installed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import kopf
import pytest
from kopf._cogs.structs.references import Resource
from kopf._core.reactor import processing, running
from structlog.testing import capture_logs

from podtune.controllers.event_processing import give_events_to_handlers_alone

PODS = Resource(group="", version="v1", plural="pods", kind="Pod", preferred=True, verbs=frozenset({"list", "watch"}))
KOPFS_OWN = processing.process_resource_event
PASSED_ON = ("registry", "resource", "raw_event")
EVENT = {"type": "MODIFIED", "object": {"metadata": {"name": "e-0-1", "uid": "u"}}}


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    vars(processing)["process_resource_event"] = KOPFS_OWN


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
