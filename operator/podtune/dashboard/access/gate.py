"""Lets requests in: finds out who the viewer is, and hands pages the part of the source that they may see."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from datetime import timedelta

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from podtune.api.names import EXPERIMENT_PLURAL, TRIAL_PLURAL
from podtune.cli.errors import CliError, explain_error
from podtune.dashboard.access import login
from podtune.dashboard.access.login import LoginNeeded, describe_refusal
from podtune.dashboard.access.reviews import (
    Reviewer,
    Right,
    TokenRefused,
    TooManyLogins,
    TooManyQuestions,
    find_namespaces,
    may_see,
)
from podtune.dashboard.access.session import LoginSession, ProxyTrust, read_proxied_viewer, read_session
from podtune.dashboard.access.viewed_source import NOTHING, Scope, ViewedSource
from podtune.dashboard.access.viewer import Viewer
from podtune.dashboard.access.visit import GATE, IS_OPEN, OFFERS_ACTIONS, VISIT, Visit
from podtune.dashboard.numbers import format_minute
from podtune.dashboard.pages.context import STATIC, WITH_BUTTONS
from podtune.dashboard.rendering import render_page
from podtune.dashboard.server.logs import get_field_logger
from podtune.dashboard.sources import LiveSource
from podtune.kube.errors import ApiError

_PUBLIC = login.PUBLIC | {STATIC}
"""Names of the routes that ask nobody who they are."""
_log = get_field_logger(__name__)


@dataclass(frozen=True, slots=True)
class Access:
    """How viewers are let in.

    Attributes:
        reviewer: Asks the API server; None where everybody may see all.
        session: How long a login lasts.
        proxy: What is believed of a proxy.
        offers_actions: Whether viewers with a token may act.
    """

    reviewer: Reviewer | None
    session: timedelta
    proxy: ProxyTrust
    offers_actions: bool = False


class Forbidden(Exception):
    """A viewer lacks the right to see a namespace; whether there is anything in it makes no difference."""


def add_access(app: web.Application, source: LiveSource, access: Access) -> None:
    """Has an application ask its viewers who they are, or say that it asks nobody."""
    app[IS_OPEN], app[OFFERS_ACTIONS] = access.reviewer is None, access.offers_actions
    if access.reviewer is None:
        return
    gate = _Gate(source, access.reviewer, access)
    app[GATE] = gate
    app.middlewares.append(gate.middleware)
    login.add_login(app, access.reviewer, access.session)


class _Gate:
    def __init__(self, source: LiveSource, reviewer: Reviewer, access: Access) -> None:
        self._source = source
        self._reviewer = reviewer
        self._access = access

    @property
    def middleware(self) -> Middleware:
        @web.middleware
        async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.match_info.route.name in _PUBLIC:
                return await handler(request)
            try:
                request[VISIT] = await self._admit(request)
            except LoginNeeded as error:
                return login.render_login(request, error.reason)
            except Forbidden:
                return self._render_forbidden(request)
            except TooManyLogins:
                return login.render_busy(request)
            except TooManyQuestions:
                return login.render_overload(request)
            except (ApiError, CliError) as error:
                return login.render_outage(request, error)
            return await handler(request)

        return admit

    async def readmit(self, request: web.Request) -> bool:
        """Looks again at who is let in already; a stream ends where that can't be found out."""
        try:
            request[VISIT] = await self._admit(request)
        except (LoginNeeded, Forbidden, TooManyLogins, TooManyQuestions):
            return False
        except (ApiError, CliError) as error:
            _log.warning("stream ends", message=explain_error(error))
            return False
        return True

    async def may_read_logs(self, request: web.Request) -> bool:
        """See `Gate`."""
        right = Right("get", "pods", request.match_info["namespace"], part="log", group="")
        return await self._reviewer.allows(request[VISIT].viewer, right)

    async def _admit(self, request: web.Request) -> Visit:
        viewer, session = await self._identify(request)
        namespace, experiment = request.match_info.get("namespace", ""), request.match_info.get("experiment", "")
        request[VISIT] = Visit(viewer, session, ViewedSource(self._source, NOTHING))
        if experiment:
            if not await may_see(self._reviewer, viewer, namespace, experiment):
                raise Forbidden
            scope = Scope(frozenset(), (namespace, experiment))
            can_act = session is not None and await self._is_allowed_to_act(request, viewer)
            return Visit(viewer, session, ViewedSource(self._source, scope), can_act)
        candidates = {view.namespace for view in self._source.list_experiments()}
        scope = Scope(await find_namespaces(self._reviewer, viewer, candidates))
        return Visit(viewer, session, ViewedSource(self._source, scope))

    async def _is_allowed_to_act(self, request: web.Request, viewer: Viewer) -> bool:
        """Whether the viewer may change what a page is about, where it offers that."""
        info = request.match_info
        if not self._access.offers_actions or not (info.route.name in WITH_BUTTONS or "action" in info):
            return False
        plural, name = (TRIAL_PLURAL, info["trial"]) if "trial" in info else (EXPERIMENT_PLURAL, info["experiment"])
        return await self._reviewer.allows(viewer, Right("patch", plural, info["namespace"], name))

    async def _identify(self, request: web.Request) -> tuple[Viewer, LoginSession | None]:
        session = read_session(request)
        if session is None:
            proxied = read_proxied_viewer(request, self._access.proxy)
            if proxied is None:
                raise LoginNeeded
            return proxied, None
        if session.began and session.began + self._access.session.total_seconds() < time.time():
            ended = format_minute(session.began + self._access.session.total_seconds())
            raise LoginNeeded(f"Your session ended on {ended} UTC.")
        try:
            return await self._reviewer.identify(session.token), session
        except TokenRefused as error:
            raise LoginNeeded(describe_refusal(session.token)) from error

    def _render_forbidden(self, request: web.Request) -> web.Response:
        viewer, namespace = request[VISIT].viewer, request.match_info["namespace"]
        role = f"kubectl create rolebinding see-experiments -n {shlex.quote(namespace)} --clusterrole view"
        return render_page(
            request,
            "access/forbidden.html",
            status=web.HTTPForbidden.status_code,
            namespace=namespace,
            name=viewer.name,
            remedy=f"{role} {_write_subject(viewer)}",
        )


def _write_subject(viewer: Viewer) -> str:
    """The viewer, as an option of `kubectl create rolebinding`."""
    account = viewer.service_account
    return f"--serviceaccount {shlex.quote(account)}" if account else f"--user {shlex.quote(viewer.name)}"
