"""Pages that wait for another server, and say so until it has answered.

Such a page is sent in two parts: what stands above the answer, with a sentence of who is asked; then the answer, which
hides that sentence. This takes no script, and nothing is kept between requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from podtune.dashboard.rendering import render_page

ANNOUNCE_AFTER = 0.7
"""Seconds after which people wonder whether anything happens."""
PLACE = "<!-- the answer -->"
"""Stands in a page below the sentence of who is asked."""
_MAIN = '<main id="content">'
_MEANWHILE: web.RequestKey[Callable[[], web.Response]] = web.RequestKey("meanwhile")
"""Makes the page that says what it waits for."""


def announce(request: web.Request, template: str, asked: str, seconds: float, **facts: Any) -> None:
    """Has the page that is asked for say what it waits for, should that take long.

    Args:
        request: What is answered.
        template: Of the page; it includes `trial/meanwhile.html`, and leaves out what follows that, where `asked` is
            given.
        asked: What is done, in a few words.
        seconds: How long the page waits at most.
        facts: What the template needs for its first part.
    """

    def render() -> web.Response:
        return render_page(request, template, asked=asked, seconds=seconds, **facts)

    request[_MEANWHILE] = render


@web.middleware
async def tell_meanwhile(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Sends a page whole, or in two parts where its answer takes longer."""
    answering = asyncio.ensure_future(handler(request))
    try:
        await asyncio.wait({answering}, timeout=ANNOUNCE_AFTER)
        make = request.get(_MEANWHILE)
        if answering.done() or make is None or request.method == hdrs.METH_HEAD:
            return await answering
        first = _write(make()).partition(PLACE)[0]
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/html; charset=utf-8"})
        response.headers["X-Accel-Buffering"] = "no"
        with suppress(ConnectionError):  # the page is closed
            await response.prepare(request)
            await response.write(first.encode())
            await response.write(_find_answer(await answering).encode())
        return response
    finally:
        answering.cancel()


def _find_answer(response: web.StreamResponse) -> str:
    """The second part; of a page that says what went wrong, its content."""
    text = _write(response)
    return text.partition(PLACE)[2] or text.partition(_MAIN)[2]


def _write(response: web.StreamResponse) -> str:
    return (response.text or "") if isinstance(response, web.Response) else ""
