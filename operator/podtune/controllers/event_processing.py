"""Kopf's events, given to their raw event handlers and to nothing else.

For each event kopf wraps the object, makes three loggers, looks for causes of four kinds, applies a patch and keeps a
memory of the object: all for handlers that Podtune does not have (see `handlers`). In a run of short trials that was a
quarter of all that the operator did. So what kopf calls for each event is replaced; lists, watches, their renewal and
the order of an object's events stay kopf's. Should a later kopf call something else, the test of this says so, and
until somebody looks at it, all works as before, only slower.
"""

from __future__ import annotations

from typing import Any

import kopf
import structlog
from kopf._core.reactor import processing

log = structlog.get_logger(__name__)


def give_events_to_handlers_alone() -> None:
    """Has kopf pass events on directly from now on."""
    vars(processing)["process_resource_event"] = _process


async def _process(*, registry: kopf.OperatorRegistry, resource: Any, raw_event: Any, **_: Any) -> None:
    """Has an event handled; a handler's failure is told and passed over, as kopf does it."""
    for handler in registry._watching.get_all_handlers():
        if handler.selector is not None and handler.selector.check(resource):
            fn: Any = handler.fn  # which takes what it wants by name: ours are coroutines, and want the event
            try:
                await fn(event=raw_event)
            except Exception:
                log.exception("event not handled", handler=handler.id)
