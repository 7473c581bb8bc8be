"""One answer for all who ask for the same at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from functools import wraps

from aiohttp import hdrs, web
from multidict import CIMultiDict

from podtune.dashboard.access.visit import VISIT
from podtune.dashboard.live.event_stream import find_revision
from podtune.dashboard.pages.packing import PagePacker

SHARED_SECONDS = 2.0
"""So long an answer is good for others: they ask as soon as they have heard of news, and pages tell the time, too."""
MOST_ANSWERS = 128
_LEAST_COMPRESSED = 1024
_INDIFFERENT = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "connection",
        "dnt",
        "host",
        "pragma",
        "priority",
        "referer",
        "upgrade-insecure-requests",
        "user-agent",
    }
)
"""Headers that say nothing of who asks. Whoever sends others, such as a cookie, shares with those who send the same."""
_Handler = Callable[[web.Request], Awaitable[web.Response]]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What was answered, to be sent several times."""

    status: int
    headers: CIMultiDict[str]
    body: bytes
    compressed: bytes | None

    def make_response(self, request: web.Request) -> web.Response:
        headers = self.headers.copy()
        if self.compressed is None or "gzip" not in request.headers.get(hdrs.ACCEPT_ENCODING, ""):
            return web.Response(status=self.status, headers=headers, body=self.body)
        headers[hdrs.CONTENT_ENCODING], headers[hdrs.VARY] = "gzip", hdrs.ACCEPT_ENCODING
        return web.Response(status=self.status, headers=headers, body=self.compressed)


@dataclass(frozen=True, slots=True)
class _Shared:
    until: float
    answer: asyncio.Task[_Answer]


class SharedAnswers:
    """The answers of the last seconds, and those that are being made."""

    def __init__(self) -> None:
        """Has none yet."""
        self._shared: dict[Hashable, _Shared] = {}
        self._packer = PagePacker()

    async def find(self, key: Hashable, make: Callable[[], Awaitable[web.Response]]) -> _Answer:
        """An answer, which is made unless it is there or on its way."""
        now = asyncio.get_running_loop().time()
        for old in [old for old, each in self._shared.items() if each.until < now]:
            del self._shared[old]
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = _Shared(now + SHARED_SECONDS, asyncio.ensure_future(self._make_answer(make)))
            shared.answer.add_done_callback(lambda task: self._forget_failed(key, task))
            while len(self._shared) > MOST_ANSWERS:
                del self._shared[next(iter(self._shared))]
        return await asyncio.shield(shared.answer)

    async def _make_answer(self, make: Callable[[], Awaitable[web.Response]]) -> _Answer:
        made = await make()
        body = made.body if isinstance(made.body, bytes) else b""
        compressed = self._packer.pack(body) if len(body) >= _LEAST_COMPRESSED else None
        return _Answer(made.status, made.headers.copy(), body, compressed)

    def _forget_failed(self, key: Hashable, task: asyncio.Task[_Answer]) -> None:
        shared = self._shared.get(key)
        if (task.cancelled() or task.exception() is not None) and shared is not None and shared.answer is task:
            del self._shared[key]


SHARED_ANSWERS = web.AppKey("shared_answers", SharedAnswers)


def share_answer(handler: _Handler) -> _Handler:
    """Lets all who ask for the same page of the same revision have one answer, made and compressed once.

    Viewers whose rights are their own share with nobody but themselves.
    """

    @wraps(handler)
    async def answer(request: web.Request) -> web.Response:
        own = tuple(sorted((name, value) for name, value in request.headers.items() if not _is_indifferent(name)))
        visit = request.get(VISIT)
        whose = (visit.viewer, visit.session, visit.source.scope, visit.can_act) if visit is not None else None
        key = (request.rel_url.raw_path_qs, find_revision(request), own, whose)
        found = await request.app[SHARED_ANSWERS].find(key, lambda: handler(request))
        return found.make_response(request)

    return answer


def _is_indifferent(name: str) -> bool:
    return name.lower() in _INDIFFERENT or name.lower().startswith("sec-")
