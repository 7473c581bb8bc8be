"""The HTTP server that agents post results to. The protocol is described in `podtune.protocol.messages`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import structlog
from aiohttp import web

from podtune.cluster.client import ClusterClient
from podtune.cluster.errors import ApiError, ApiRefusal
from podtune.cluster.paths import pods
from podtune.protocol.messages import MAX_REPORT_BYTES, ProtocolError, Reply, Report, parse_report
from podtune.results.authentication import Authenticator, Caller, Unauthenticated
from podtune.runner.experiment_machine import Unaccepted

log = structlog.get_logger(__name__)

ROUTE = "/v1/namespaces/{namespace}/trials/{trial}"
RETRY_AFTER = {"Retry-After": "1"}


class Intake(Protocol):
    """Where reports go."""

    def report(self, namespace: str, trial: str, pod: str, report: Report) -> Reply | Unaccepted:
        """Takes in a report of a trial; see `ExperimentMachine.report`."""

    def program_container(self, namespace: str, trial: str) -> str | None:
        """Name of the training container of a trial that reads results off standard output; None for others."""

    @property
    def is_leading(self) -> bool:
        """Whether this process decides; one that does not acknowledges nothing."""


class ResultsServer:
    """Takes in results and streams logs, for authenticated agents."""

    def __init__(self, intake: Intake, authenticator: Authenticator, client: ClusterClient) -> None:
        self._intake = intake
        self._authenticator = authenticator
        self._client = client

    def application(self) -> web.Application:
        """The server's routes."""
        application = web.Application(client_max_size=MAX_REPORT_BYTES)
        application.router.add_post(f"{ROUTE}/results", self._post_results)
        application.router.add_get(f"{ROUTE}/log", self._get_log)
        return application

    async def _post_results(self, request: web.Request) -> web.Response:
        caller = await self._caller(request)
        try:
            report = parse_report(await request.read())
        except ProtocolError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        if report.attempt != caller.uid:
            raise web.HTTPForbidden(text="the token is not that of the attempt's pod")
        answer = self._intake.report(caller.namespace, request.match_info["trial"], caller.pod, report)
        match answer:
            case Reply():
                return web.Response(body=answer.to_json(), content_type="application/json")
            case Unaccepted.FENCED:
                raise web.HTTPConflict(text="this attempt is not the trial's current one")
            case Unaccepted.TOO_EARLY:
                raise web.HTTPServiceUnavailable(text="the pod has not been seen yet", headers=RETRY_AFTER)

    async def _get_log(self, request: web.Request) -> web.StreamResponse:
        """Passes the program's standard output on to its own agent, which must not ask the API server itself."""
        caller = await self._caller(request)
        trial = request.match_info["trial"]
        container = self._intake.program_container(caller.namespace, trial)
        if container is None or caller.pod.rpartition("-")[0] != trial:
            raise web.HTTPForbidden(text="the trial's results are not read off standard output, or it is another's")
        params = {"container": container, "follow": "true", "timestamps": "true"}
        if "since" in request.query:
            params["sinceTime"] = request.query["since"]
        lines = self._client.stream(f"{pods(caller.namespace)}/{caller.pod}/log", params=params)
        return await _relay(request, lines)

    async def _caller(self, request: web.Request) -> Caller:
        if not self._intake.is_leading:
            raise web.HTTPServiceUnavailable(text="another operator leads", headers=RETRY_AFTER)
        try:
            caller = await self._authenticator.authenticate(request.headers.get("Authorization", ""))
        except Unauthenticated as error:
            raise web.HTTPUnauthorized(text=str(error)) from error
        except ApiError as error:
            log.warning("token not reviewed", error=str(error))
            raise web.HTTPServiceUnavailable(text="the token could not be reviewed", headers=RETRY_AFTER) from error
        if caller.namespace != request.match_info["namespace"]:
            raise web.HTTPForbidden(text="the token is of another namespace")
        return caller


async def _relay(request: web.Request, chunks: AsyncIterator[bytes]) -> web.StreamResponse:
    """Answers with chunks as they come; what fails before the first of them is answered with a status."""
    response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
    try:
        first = await anext(chunks, None)
    except ApiRefusal as refusal:
        # A container that has not started yet is a 400 of the kubelet's.
        raise web.HTTPServiceUnavailable(text=refusal.message, headers=RETRY_AFTER) from refusal
    except ApiError as error:
        raise web.HTTPServiceUnavailable(text=str(error), headers=RETRY_AFTER) from error
    await response.prepare(request)
    try:
        if first is not None:
            await response.write(first)
        async for chunk in chunks:
            await response.write(chunk)
    except ApiError as error:
        # A proper end would tell the agent that the program has ended: cut the connection, and it asks again.
        log.warning("log stream broken", path=request.path, error=str(error))
        if request.transport is not None:
            request.transport.abort()
        return response
    await response.write_eof()
    return response
