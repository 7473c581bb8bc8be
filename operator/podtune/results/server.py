"""The HTTP server that agents post results to. The protocol is described in `podtune.protocol.messages`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

import structlog
from aiohttp import web
from prometheus_client import Counter

from podtune.cluster.client import ClusterClient
from podtune.kube import paths
from podtune.kube.errors import ApiError, ApiRefusal, ResourceNotFound
from podtune.protocol.assignment import parse_pod_uid
from podtune.protocol.fields import ProtocolError
from podtune.protocol.messages import MAX_REPORT_BYTES, Reply, Report, parse_report
from podtune.results.authentication import Authenticator, Caller, Unauthenticated
from podtune.results.loop_rate_limiter import LoopRateLimiter
from podtune.results.relay_places import NoPlace, RelayPlaces
from podtune.runner.experiment_machine import Unaccepted

log = structlog.get_logger(__name__)

ROUTE = "/v1/namespaces/{namespace}/trials/{trial}"
RETRY_AFTER = {"Retry-After": "1"}
REPORTS = Counter(
    "podtune_reports", "Reports of agents, by the HTTP status that they were answered with; none: broken off.", ["code"]
)
SINCE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
"""A point in time as RFC 3339 has it."""
_TAIL = re.compile(r"[1-9]\d{0,3}", re.ASCII)
_AT_A_TIME = 8
"""Reports taken in without letting anything else in between: up to ten milliseconds on a slow machine."""
_CHUNKS_AT_A_TIME = 8
"""Large chunks of logs passed on without letting anything else in between; each has 256 KiB at most."""
BODY_SECONDS = 30.0
"""How long a report's body may take: it has a megabyte at most, and agents wait no longer for an answer."""
HOLD = 1.0
"""Seconds that a pod's question for another trial may be held: agents wait longer for an answer."""
RELAY_PAUSE = 1.0
"""Seconds in which lines come together that nobody waits for; agents store them every ten seconds."""
LARGE_CHUNK = 64 << 10
"""A chunk of this size says that more is there already."""
RELAY_BYTES_A_SECOND = 2 << 20
"""How fast such a log is passed on at most."""


@dataclass(frozen=True, slots=True)
class LogSource:
    """The log of a pod that is passed on to its agent.

    Attributes:
        container: Name of the training container.
        is_urgent: Whether decisions may wait for what is in it, so that each line is passed on at once.
    """

    container: str
    is_urgent: bool


class ReportHandler(Protocol):
    """Where reports go."""

    def report(self, namespace: str, trial: str, pod: str, report: Report) -> Reply | Unaccepted:
        """Takes in a report of a trial; see `ExperimentMachine.report`."""

    async def wait_for_next(self, pod_uid: str, seconds: float) -> None:
        """Waits until a pod is given another trial, or so many seconds."""

    def find_log_source(self, namespace: str, trial: str, pod: str) -> LogSource | None:
        """What of a pod's log its agent may have, for a trial that the pod runs; None where it needs nothing of it."""

    @property
    def is_leading(self) -> bool:
        """Whether this process decides; one that does not acknowledges nothing."""


class ResultsServer:
    """Takes in results and streams logs, for authenticated agents."""

    def __init__(self, handler: ReportHandler, authenticator: Authenticator, client: ClusterClient) -> None:
        self._handler = handler
        self._authenticator = authenticator
        self._client = client
        self._limiter = LoopRateLimiter(_AT_A_TIME)
        self._chunk_limiter = LoopRateLimiter(_CHUNKS_AT_A_TIME)
        self._places = RelayPlaces()

    def build_application(self) -> web.Application:
        """The server's routes."""
        application = web.Application(client_max_size=MAX_REPORT_BYTES)
        application.router.add_post(f"{ROUTE}/results", self._post_results)
        application.router.add_get(f"{ROUTE}/log", self._get_log)
        return application

    async def _post_results(self, request: web.Request) -> web.Response:
        code = "none"
        try:
            response = await self._answer_report(request)
            code = str(response.status)
            return response
        except web.HTTPException as answer:
            code = str(answer.status)
            raise
        except Exception:
            code = "500"
            raise
        finally:
            REPORTS.labels(code).inc()

    async def _answer_report(self, request: web.Request) -> web.Response:
        await self._wait_for_turn(request)
        caller = await self._authenticate(request)
        try:
            report = parse_report(await _read_body(request))
        except ProtocolError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        if parse_pod_uid(report.attempt) != caller.uid:
            raise web.HTTPForbidden(text="the token is not that of the attempt's pod")
        trial = request.match_info["trial"]
        answer = self._handler.report(caller.namespace, trial, caller.pod, report)
        if report.final is not None and isinstance(answer, Reply) and answer.next is None:
            await self._handler.wait_for_next(caller.uid, HOLD)
            self._check_leads()
            answer = self._handler.report(caller.namespace, trial, caller.pod, report)
        match answer:
            case Reply():
                return web.Response(body=answer.to_json(), content_type="application/json")
            case Unaccepted.FENCED:
                raise web.HTTPConflict(text="this attempt is not the trial's current one")
            case Unaccepted.MISPLACED:
                text = (
                    "a checkpoint's uri does not lie below the trial's own prefix; nothing of the report was taken in"
                )
                raise web.HTTPBadRequest(text=text)
            case Unaccepted.FOLLOWS:
                raise web.HTTPForbidden(text="results of a gang come from rank 0; report them there")
            case Unaccepted.TOO_EARLY:
                raise web.HTTPServiceUnavailable(text="the pod has not been seen yet", headers=RETRY_AFTER)

    async def _get_log(self, request: web.Request) -> web.StreamResponse:
        """Passes the program's standard output on to its own agent, which must not ask the API server itself."""
        await self._wait_for_turn(request)
        caller = await self._authenticate(request)
        source = self._handler.find_log_source(caller.namespace, request.match_info["trial"], caller.pod)
        if source is None:
            raise web.HTTPForbidden(text="the trial's log holds no results and is not kept, or it is another's")
        params = {"container": source.container, "timestamps": "true", **_read_log_query(request)}
        pod = paths.pod(caller.namespace, caller.pod)
        follows = params["follow"] == "true"

        async def has_ended() -> bool:
            return not follows or await self._has_ended(pod, source.container)

        paced = follows and not source.is_urgent
        try:
            with self._places.take(caller):
                async with aclosing(self._client.stream(paths.log_of(pod), params=params)) as chunks:
                    limited = _limit(chunks, self._chunk_limiter, caller.namespace)
                    return await _relay(request, limited, has_ended, paced=paced)
        except NoPlace as refusal:
            kind = web.HTTPTooManyRequests if refusal.is_of_caller else web.HTTPServiceUnavailable
            raise kind(text=str(refusal), headers=RETRY_AFTER) from refusal

    async def _wait_for_turn(self, request: web.Request) -> None:
        """By namespace, then by address. A namespace is known by its token alone: a path may name somebody else's."""
        namespace = self._authenticator.recall_namespace(request.headers.get("Authorization", ""))
        await self._limiter.wait(request.remote or "", namespace)

    async def _has_ended(self, pod: str, container: str) -> bool:
        """Whether a container of a pod will print nothing more.

        A stream's proper end does not say so: the API server ends it properly too when it loses the kubelet.
        """
        try:
            status = (await self._client.request("GET", pod)).get("status") or {}
        except ResourceNotFound:
            return True
        except ApiRefusal:
            return False
        states = [c.get("state") or {} for c in status.get("containerStatuses") or () if c["name"] == container]
        return all("terminated" in state for state in states)

    def _check_leads(self) -> None:
        if not self._handler.is_leading:
            raise web.HTTPServiceUnavailable(text="another operator leads", headers=RETRY_AFTER)

    async def _authenticate(self, request: web.Request) -> Caller:
        self._check_leads()
        try:
            caller = await self._authenticator.authenticate(request.headers.get("Authorization", ""))
        except Unauthenticated as error:
            raise web.HTTPUnauthorized(text=str(error)) from error
        except ApiError as error:
            log.warning("token not reviewed", message=str(error))
            raise web.HTTPServiceUnavailable(text="the token could not be reviewed", headers=RETRY_AFTER) from error
        if caller.namespace != request.match_info["namespace"]:
            raise web.HTTPForbidden(text="the token is of another namespace")
        return caller


async def _read_body(request: web.Request) -> bytes:
    """The whole of a request's body, which may not take for ever."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(text=f"the report did not arrive within {BODY_SECONDS:g} s") from error


def _read_log_query(request: web.Request) -> dict[str, str]:
    """Which part of its log an agent asks for, as the API server is asked for it."""
    params = {"follow": "false" if request.query.get("follow") == "false" else "true"}
    if since := request.query.get("since"):
        if not SINCE.fullmatch(since):
            raise web.HTTPBadRequest(text=f"since is {since!r}; write it like 2024-05-01T12:00:00.5Z")
        params["sinceTime"] = since
    if tail := request.query.get("tail"):
        if not _TAIL.fullmatch(tail):
            raise web.HTTPBadRequest(text=f"tail is {tail!r}; write a number of lines up to 9999")
        params["tailLines"] = tail
    return params


async def _limit(chunks: AsyncGenerator[bytes], limiter: LoopRateLimiter, sender: str) -> AsyncGenerator[bytes]:
    """The same chunks, a large one when it is its turn: programs that print a lot may all have one at the same time."""
    async for chunk in chunks:
        if len(chunk) >= LARGE_CHUNK:
            await limiter.wait(sender)
        yield chunk


async def _relay(
    request: web.Request,
    chunks: AsyncGenerator[bytes],
    has_ended: Callable[[], Awaitable[bool]],
    *,
    paced: bool,
) -> web.StreamResponse:
    """Answers with chunks as they come; what fails before the first of them is answered with a status.

    Where it is paced, each chunk is followed by a pause, in which more comes together: a chunk costs the same whether
    it has one line or a thousand. What comes is held in a buffer of limited size; when that is full, nothing is read.

    The answer ends properly only where nothing more will come. Otherwise its connection is cut, and the agent, which
    would take a proper end for that of the program, asks again from where it was.
    """
    response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
    try:
        await anext(chunks)  # empty: the server has begun to answer
    except ApiRefusal as refusal:
        # A container that has not started yet is a 400 of the kubelet's.
        raise web.HTTPServiceUnavailable(text=refusal.message, headers=RETRY_AFTER) from refusal
    except ApiError as error:
        raise web.HTTPServiceUnavailable(text=str(error), headers=RETRY_AFTER) from error
    await response.prepare(request)
    try:
        async for chunk in chunks:
            await response.write(chunk)
            if paced:
                await asyncio.sleep(RELAY_PAUSE if len(chunk) < LARGE_CHUNK else len(chunk) / RELAY_BYTES_A_SECOND)
        is_whole = await has_ended()
        if is_whole:
            await response.write_eof()
    except ConnectionResetError:
        return response  # the agent has gone; where it is there again, it asks anew
    except ApiError as error:
        log.warning("log stream broken", path=request.path, message=str(error))
        is_whole = False
    if not is_whole and request.transport is not None:
        request.transport.abort()
    return response
