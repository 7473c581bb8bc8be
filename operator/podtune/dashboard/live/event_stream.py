"""Tells open pages that what they show has changed; each page then fetches itself anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from aiohttp import hdrs, web

from podtune.dashboard.access.visit import VISIT, may_go_on
from podtune.dashboard.sources import LiveSource, Outage

PACE = 1.0
"""Seconds between two events of a stream, at least."""
LONGEST_SILENCE = 15.0
"""Seconds after which a silent stream says that it is there: proxies and we find out whether the other end is."""
_EVENTS = "events"
"""The last part of a stream's address."""
LIVE_SOURCE = web.AppKey("live_source", LiveSource)
_STOPPING = web.AppKey("stopping", asyncio.Event)
_REVISION = web.RequestKey("revision", str)
STAYS = web.RequestKey("stays", bool)
"""Set on a request whose page shows what was asked for then, and is not asked for anew with each change."""
Awaited = TypeVar("Awaited")


@dataclass(frozen=True, slots=True)
class LivePage:
    """What a page needs to keep itself up to date.

    Attributes:
        events: Where its stream is, seen from the first page.
        revision: What it shows is of.
        outage: Why what it shows may be old.
    """

    events: str
    revision: str
    outage: Outage | None


def add_streams(app: web.Application, source: LiveSource) -> None:
    """Lets the pages of an application follow a source."""
    app[LIVE_SOURCE] = source
    app[_STOPPING] = asyncio.Event()
    app.middlewares.append(_note_revision)
    app.on_shutdown.append(_stop)
    app.add_routes(
        [
            web.get(f"/{_EVENTS}", _send_events),
            web.get(f"/experiments/{{namespace}}/{{experiment}}/{_EVENTS}", _send_events),
        ]
    )


def find_live_page(request: web.Request) -> LivePage | None:
    """How the page that is asked for is kept up to date; None where what it shows never changes."""
    # Without a revision there is no news either, such as of a namespace that is not shown.
    if LIVE_SOURCE not in request.app or not find_revision(request) or request.get(STAYS):
        return None
    namespace, experiment = _find_topic(request)
    folder = f"experiments/{quote(namespace, safe='')}/{quote(experiment, safe='')}/" if experiment else ""
    return LivePage(f"{folder}{_EVENTS}", find_revision(request), _get_source(request).outage)


def find_revision(request: web.Request) -> str:
    """The revision that was the newest when the request came; empty where what is shown never changes."""
    revision: str = request.get(_REVISION, "")
    return revision


@web.middleware
async def _note_revision(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Before anything is read: what changes while a page is made is news to it."""
    request[_REVISION] = _get_source(request).find_revision(*_find_topic(request))
    return await handler(request)


def _get_source(request: web.Request) -> LiveSource:
    visit = request.get(VISIT)
    return visit.source if visit is not None else request.app[LIVE_SOURCE]


def _find_topic(request: web.Request) -> tuple[str, str]:
    """The Experiment that a page is about; empty names where it is about all."""
    return request.match_info.get("namespace", ""), request.match_info.get("experiment", "")


async def _send_events(request: web.Request) -> web.StreamResponse:
    """An event for every change, and one at once if the page is older than the newest."""
    stopping = request.app[_STOPPING]
    topic, known = _find_topic(request), request.query.get("since", "")
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream", "X-Accel-Buffering": "no"})
    with suppress(ConnectionError):  # the page is closed
        await response.prepare(request)
        await response.write(b": open\n\n")
        while not stopping.is_set():
            news = _get_source(request).wait_for_news(*topic, known)
            revision = await _wait_unless(stopping, news, LONGEST_SILENCE)
            if not await may_go_on(request):
                # The page gets itself anew, and so the answer that says why.
                await response.write(b"event: change\ndata: over\n\n")
                break
            if revision is None:
                await response.write(b": still here\n\n")
                continue
            known = revision
            await response.write(f"event: change\ndata: {known}\n\n".encode())
            await _wait_unless(stopping, asyncio.sleep(PACE), PACE)
    return response


async def _wait_unless(
    stopping: asyncio.Event, coroutine: Coroutine[Any, Any, Awaited], seconds: float
) -> Awaited | None:
    """The outcome; None where there is none in time, or before the program stops."""
    task, stop = asyncio.ensure_future(coroutine), asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({task, stop}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        stop.cancel()


async def _stop(app: web.Application) -> None:
    app[_STOPPING].set()
