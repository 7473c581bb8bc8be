"""Kopf's events, given to their raw event handlers and to nothing else, one after the other as they come.

For each object kopf keeps a task with a queue, so that handlers may take their time; and for each event it wraps the
object, makes three loggers, looks for causes of four kinds, applies a patch and keeps a memory of the object. All of it
is for handlers that Podtune does not have (see `handlers`): ours are quick. In a run of short trials that was a third
of all that the operator did. So what kopf calls for each kind, and for each event, is replaced; lists, watches and
their renewal stay kopf's. Should a later kopf call something else, the test of this says so, and until somebody looks
at it, all works as before, only slower.
"""

from __future__ import annotations

from typing import Any

import kopf
import structlog
from kopf._cogs.clients import watching
from kopf._core.reactor import processing, queueing

log = structlog.get_logger(__name__)
BOOKMARK = "BOOKMARK"
"""Type of the events that tell of no object, but of how far the watch has come."""


def give_events_to_handlers_alone() -> None:
    """Has kopf pass events on directly from now on."""
    vars(queueing)["watcher"] = _watch
    vars(processing)["process_resource_event"] = _process


async def _watch(
    *,
    resource: Any,
    namespace: Any,
    settings: kopf.OperatorSettings,
    processor: Any,
    operator_paused: Any = None,
    operator_indexed: Any = None,
    resource_indexed: Any = None,
) -> None:
    """Has the events of a kind processed until it is cancelled."""
    events = watching.infinite_watch(
        settings=settings, resource=resource, namespace=namespace, operator_paused=operator_paused
    )
    async for event in events:
        if event is watching.Bookmark.LISTED:
            if operator_indexed is not None and resource_indexed is not None:
                await operator_indexed.drop_toggle(resource_indexed)  # kopf waits for all kinds to be listed
        elif not isinstance(event, watching.Bookmark) and event["type"] != BOOKMARK:
            await processor(raw_event=event)


async def _process(*, registry: kopf.OperatorRegistry, resource: Any, raw_event: Any, **_: Any) -> None:
    """Has an event handled; a handler's failure is told and passed over, as kopf does it."""
    for handler in registry._watching.get_all_handlers():
        if handler.selector is not None and handler.selector.check(resource):
            fn: Any = handler.fn  # which takes what it wants by name: ours are coroutines, and want the event
            try:
                await fn(event=raw_event)
            except Exception:
                log.exception("event not handled", handler=handler.id)
