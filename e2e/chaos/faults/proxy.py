"""An HTTP proxy that does to a request what the injector says.

One class serves the API server, the operator's results server and S3; they differ in how a call is told, how a
refusal reads, and how long a client waits for an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from e2e.chaos.faults.calls import Call, Request
from e2e.chaos.faults.injector import Armed, Injector
from e2e.chaos.faults.refusals import Refuse
from e2e.chaos.faults.watch_faults import WatchStream
from e2e.chaos.perturbation import Fault

Classify = Callable[[str, str, Mapping[str, str], Mapping[str, str], bytes], tuple[Call, str]]
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "expect", "content-length"}
)
FOLLOWING = (Call.FOLLOW_LOG, Call.AGENT_LOG)
"""Calls whose answer grows."""
SLOW_SECONDS = 3.0
AGAIN_SECONDS = 1.5
LATE_SECONDS = 0.6
STATUSES = {
    Fault.REFUSE_403: 403,
    Fault.REFUSE_404: 404,
    Fault.REFUSE_409: 409,
    Fault.REFUSE_412: 412,
    Fault.REFUSE_429: 429,
    Fault.REFUSE_500: 500,
    Fault.REFUSE_503: 503,
    Fault.REFUSE_504: 504,
    Fault.DONE_BUT_500: 500,
    Fault.DONE_BUT_504: 504,
    Fault.LATE_AFTER_504: 504,
    Fault.OUTAGE: 503,
}


class Processes(Protocol):
    """What a proxy can do to the process whose call it is."""

    async def kill(self, armed: Armed) -> None:
        """SIGKILL; returns when it is dead."""

    async def kill_again(self, armed: Armed) -> None:
        """SIGKILL once more while it starts anew."""

    async def terminate(self) -> None:
        """SIGTERM; returns at once."""

    async def depose(self, armed: Armed, *, freeze: bool) -> None:
        """Has another process lead; the deposed one is frozen meanwhile, or goes on for a moment."""

    async def turn_clock(self, seconds: float) -> None:
        """Sets the process's clock ahead, or back."""


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    headers: CIMultiDict[str]
    body: bytes


Override = Callable[[Request], Answer | None]
Follow = Callable[[Request], AsyncIterator[bytes]]


class Cut(Exception):
    """The client gets no answer."""


class Proxy:
    """Between a client and a server."""

    def __init__(
        self,
        upstream: Callable[[], str],
        classify: Classify,
        injector: Injector,
        refuse: Refuse,
        *,
        processes: Callable[[], Processes],
        lose_cluster: Callable[[Armed], Awaitable[None]],
        hold_seconds: float,
        tls: ssl.SSLContext | None = None,
        override: Override = lambda request: None,
        follow: Follow | None = None,
        seen: Callable[[Request, int], None] = lambda request, status: None,
        drop_headers: frozenset[str] = frozenset(),
    ) -> None:
        """Makes a proxy.

        Args:
            upstream: URL of the server as it is now.
            classify: Tells calls.
            injector: Says what is done to them.
            refuse: How the server refuses.
            processes: Of the clients.
            lose_cluster: Has the cluster lose an experiment.
            hold_seconds: Longer than the client waits for an answer.
            tls: How the server is spoken to.
            override: Answers in the server's place.
            follow: Answers in its place who follows a log; None where the server does it.
            seen: Is told of each request that was forwarded, and of the status that came.
            drop_headers: Headers that are not forwarded.
        """
        self._upstream = upstream
        self._classify = classify
        self._injector = injector
        self._refuse = refuse
        self._processes = processes
        self._lose_cluster = lose_cluster
        self._hold_seconds = hold_seconds
        self._tls = tls
        self._override = override
        self._follow = follow
        self._seen = seen
        self._dropped = HOP_BY_HOP | drop_headers
        self._lists: dict[str, Answer] = {}
        self._stale: set[str] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self.url = ""

    async def start(self, port: int = 0) -> None:
        """Listens on the loopback."""
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls if self._tls is not None else True)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )
        application = web.Application(client_max_size=1 << 30)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            application, access_log=None, handler_cancellation=True, shutdown_timeout=0.2, auto_decompress=False
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, backlog=1024)
        await site.start()
        host, bound = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{bound}"

    async def stop(self) -> None:
        """Stops listening."""
        for task in list(self._background):
            task.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        body = await incoming.read()
        query = dict(incoming.query)
        call, subject = self._classify(incoming.method, incoming.path, query, incoming.headers, body)
        request = Request(incoming.method, incoming.raw_path, query, incoming.headers, body, call, subject)
        try:
            if call in (Call.WATCH_EXPERIMENTS, Call.WATCH_TRIALS, Call.WATCH_PODS):
                return await self._watch(incoming, request)
            fault, armed = self._injector.strike(call, subject)
            if call in FOLLOWING and fault in (Fault.NONE, Fault.WATCH_CUT):
                return await self._follow_log(incoming, request, cut=fault is Fault.WATCH_CUT)
            answer = await self._answer(request, fault, armed)
        except (Cut, aiohttp.ClientError, OSError):
            if incoming.transport is not None:
                incoming.transport.abort()
            raise asyncio.CancelledError from None  # aiohttp's way to end a request without an answer
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body)

    async def _answer(self, request: Request, fault: Fault, armed: Armed | None) -> Answer:
        if armed is None or fault is Fault.NONE:
            return await self._forward(request)
        for strike in (self._refused, self._lost, self._delayed, self._repeated, self._on_process, self._spoilt):
            answer = await strike(request, fault, armed)
            if answer is not None:
                return answer
        raise AssertionError(f"{fault} can't be done to {request.call}")

    async def _refused(self, request: Request, fault: Fault, armed: Armed) -> Answer | None:
        status = STATUSES.get(fault)
        if status is None:
            return None
        if fault in (Fault.DONE_BUT_500, Fault.DONE_BUT_504):
            await self._forward(request)
        if fault is Fault.LATE_AFTER_504:
            self._later(LATE_SECONDS, request)
        headers, body = self._refuse(status, request)
        return Answer(status, CIMultiDict(headers), body)

    async def _lost(self, request: Request, fault: Fault, armed: Armed) -> Answer | None:
        match fault:
            case Fault.LOSE_REQUEST:
                raise Cut
            case Fault.LOSE_REPLY:
                await self._forward(request)
                raise Cut
            case Fault.TIMEOUT_BEFORE:
                await asyncio.sleep(self._hold_seconds)
                raise Cut
            case Fault.TIMEOUT_AFTER:
                await self._forward(request)
                await asyncio.sleep(self._hold_seconds)
                raise Cut
        return None

    async def _delayed(self, request: Request, fault: Fault, armed: Armed) -> Answer | None:
        match fault:
            case Fault.SLOW:
                await asyncio.sleep(SLOW_SECONDS * armed.random.uniform(0.7, 1.3))
                return await self._forward(request)
            case Fault.OVERTAKEN:
                try:
                    async with asyncio.timeout(SLOW_SECONDS):
                        await armed.moved.wait()
                except TimeoutError:
                    pass  # nothing came that could overtake it
                return await self._forward(request)
        return None

    async def _repeated(self, request: Request, fault: Fault, armed: Armed) -> Answer | None:
        match fault:
            case Fault.TWICE:
                await self._forward(request)
                return await self._forward(request)
            case Fault.LATE_AGAIN:
                self._later(AGAIN_SECONDS * armed.random.uniform(0.5, 1.5), request)
                return await self._forward(request)
        return None

    async def _on_process(self, request: Request, fault: Fault, armed: Armed) -> Answer | None:
        match fault:
            case Fault.KILL_BEFORE | Fault.KILL_TWICE:
                await self._processes().kill(armed)
                if fault is Fault.KILL_TWICE:
                    await self._processes().kill_again(armed)
                raise Cut
            case Fault.KILL_AFTER:
                await self._forward(request)
                await self._processes().kill(armed)
                raise Cut
            case Fault.LOSE_CLUSTER:
                await self._lose_cluster(armed)
                raise Cut
            case Fault.TERMINATE:
                await self._processes().terminate()
                return await self._forward(request)
            case Fault.SECOND_LEADER | Fault.FREEZE:
                await self._processes().depose(armed, freeze=fault is Fault.FREEZE)
                return await self._forward(request)
            case Fault.CLOCK_FORWARD | Fault.CLOCK_BACK:
                await self._processes().turn_clock(3600.0 if fault is Fault.CLOCK_FORWARD else -3600.0)
                return await self._forward(request)
        return None

    async def _spoilt(self, request: Request, fault: Fault, armed: Armed) -> Answer | None:
        answer = await self._forward(request)
        match fault:
            case Fault.GARBLED | Fault.TRUNCATED:
                return replace(answer, body=answer.body[: len(answer.body) // 2])
            case Fault.BIT_FLIPPED:
                body = bytearray(answer.body)
                if body:
                    body[armed.random.randrange(len(body))] ^= 1 << armed.random.randrange(8)
                return replace(answer, body=bytes(body))
        return None

    def _later(self, seconds: float, request: Request) -> None:
        async def forward() -> None:
            await asyncio.sleep(seconds)
            with contextlib.suppress(aiohttp.ClientError, OSError):  # nobody waits for its answer
                await self._forward(request)

        self._keep(forward())

    def _keep(self, coroutine: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # To the server

    async def _forward(self, request: Request) -> Answer:
        """The server's answer; what was received is carried out, whether or not its client still waits."""
        answer = self._override(request)
        if answer is None and request.call is Call.LIST and "limit" not in request.query:
            answer = self._stale_list(request)
        if answer is None:
            sending = asyncio.ensure_future(self._send(request))
            sending.add_done_callback(_forget)  # should its client be gone by then
            answer = await asyncio.shield(sending)
            if request.call is Call.LIST and "limit" not in request.query:
                self._lists[request.path.partition("?")[0]] = answer
        self._seen(request, answer.status)
        return answer

    async def _send(self, request: Request) -> Answer:
        assert self._session is not None  # started
        async with self._session.request(
            request.method, self._url(request), headers=self._headers(request.headers), data=request.body or None
        ) as response:
            return Answer(response.status, self._headers(response.headers), await response.read())

    def _stale_list(self, request: Request) -> Answer | None:
        path = request.path.partition("?")[0]
        if path in self._stale and path in self._lists:
            self._stale.discard(path)
            return self._lists[path]
        return None

    async def _watch(self, incoming: web.Request, request: Request) -> web.StreamResponse:
        """Passes events on, line by line."""
        assert self._session is not None  # started
        async with self._session.get(self._url(request), headers=self._headers(request.headers)) as upstream:
            response = web.StreamResponse(status=upstream.status, headers=self._headers(upstream.headers))
            await response.prepare(incoming)
            path = request.path.partition("?")[0]
            stream = WatchStream(request.call, self._injector, response.write, lambda: self._stale.add(path))
            async with stream:
                async for line in _lines(upstream.content):
                    if not await stream.take(line):
                        break
            if stream.cut:
                raise Cut
            return response

    async def _follow_log(self, incoming: web.Request, request: Request, *, cut: bool) -> web.StreamResponse:
        """Passes a log on as it grows; one that is cut breaks off after its first lines."""
        async with contextlib.AsyncExitStack() as stack:
            if self._follow is not None:
                response, chunks = web.StreamResponse(headers={"Content-Type": "text/plain"}), self._follow(request)
            else:
                assert self._session is not None  # started
                asking = self._session.get(self._url(request), headers=self._headers(request.headers))
                upstream = await stack.enter_async_context(asking)
                response = web.StreamResponse(status=upstream.status, headers=self._headers(upstream.headers))
                chunks = upstream.content.iter_any()
            await response.prepare(incoming)
            async for chunk in chunks:
                await response.write(chunk)
                if cut:
                    raise Cut
        return response

    def _url(self, request: Request) -> URL:
        return URL(self._upstream().rstrip("/") + request.path, encoded=True)

    def _headers(self, headers: Mapping[str, str]) -> CIMultiDict[str]:
        return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in self._dropped)


def _forget(task: asyncio.Task[Answer]) -> None:
    if not task.cancelled():
        task.exception()


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines, however long: `readline` has a limit."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"


def text_answer(text: str) -> Answer:
    """An answer of plain text."""
    return Answer(200, CIMultiDict({"Content-Type": "text/plain"}), text.encode())


def json_answer(status: int, body: object) -> Answer:
    """An answer of JSON."""
    return Answer(status, CIMultiDict({"Content-Type": "application/json"}), json.dumps(body).encode())
