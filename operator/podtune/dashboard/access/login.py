"""Logging in and out with a bearer token: the pages, and the cookie that they set."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from functools import partial

from aiohttp import hdrs, web

from podtune.cli.errors import explain_error
from podtune.dashboard.access.reviews import Reviewer, TokenRefused, TooManyLogins
from podtune.dashboard.access.session import (
    LONGEST_TOKEN,
    drop_session,
    find_token_end,
    is_from_own_page,
    is_token,
    keep_session,
    read_form,
)
from podtune.dashboard.access.visit import LOG_OUT, VISIT
from podtune.dashboard.addresses import PREFIX, lead_to
from podtune.dashboard.live.event_stream import STAYS
from podtune.dashboard.numbers import format_minute
from podtune.dashboard.rendering import render_page
from podtune.dashboard.server.logs import get_field_logger
from podtune.kube.errors import ApiError

PUBLIC = frozenset({"login", "login-form"})
"""Names of the routes that let anybody in."""
_NEXT = re.compile(r"(experiments/[A-Za-z0-9._~%!$&'()*+,;=:@/?-]*)?")
"""Where a login may lead to: a page of ours, by its way from the first one."""
_log = get_field_logger(__name__)


class LoginNeeded(Exception):
    """The viewer has to log in, or to do so again.

    Attributes:
        reason: What became of an earlier login, in a sentence; empty where there was none.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


def add_login(app: web.Application, reviewer: Reviewer, length: timedelta) -> None:
    """Adds the addresses to log in and out at."""
    app.add_routes(
        [
            web.get("/login", _show_login, name="login"),
            web.post("/login", partial(_log_in, reviewer, length), name="login-form"),
            web.post("/logout", _log_out),
        ]
    )


def describe_refusal(token: str) -> str:
    """Why the API server doesn't take a token, as far as the token itself says."""
    end = find_token_end(token)
    if end is not None and end < time.time():
        return f"This token expired on {format_minute(end)} UTC."
    return "The API server does not take this token: it is mistyped, revoked, or from another cluster."


def render_login(request: web.Request, reason: str = "", status: int = 401, goal: str | None = None) -> web.Response:
    """The page that asks for a token, in the place of the one that was asked for."""
    response = render_page(
        request,
        "access/login.html",
        status=status,
        reason=reason,
        goal=_find_goal(request) if goal is None else goal,
    )
    if status == web.HTTPUnauthorized.status_code:
        response.headers[hdrs.WWW_AUTHENTICATE] = 'Bearer realm="podtune"'
    return response


def render_busy(request: web.Request) -> web.Response:
    """The page for when too many log in at a time."""
    return _render_problem(request, "Too many logins at a time", "Try again in a moment.", 5)


def render_overload(request: web.Request) -> web.Response:
    """The page for when one viewer asks for too much at a time."""
    message = "You ask for more pages than the API server can be asked about. Try again in a moment."
    return _render_problem(request, "Too many pages at a time", message, 5, web.HTTPTooManyRequests.status_code)


def render_outage(request: web.Request, error: Exception) -> web.Response:
    """The page for when the API server can't say who the viewer is, or what they may see."""
    _log.warning("viewer not checked", message=explain_error(error))
    message = "So it can't say who you are and what you may see. This page works again as soon as it answers."
    return _render_problem(request, "The API server does not answer", message, 10)


def _render_problem(
    request: web.Request,
    title: str,
    message: str,
    seconds: int,
    status: int = web.HTTPServiceUnavailable.status_code,
) -> web.Response:
    response = render_page(request, "error.html", status=status, title=title, message=message)
    response.headers[hdrs.RETRY_AFTER] = str(seconds)
    return response


async def _show_login(request: web.Request) -> web.Response:
    request[STAYS] = True  # a stranger is told of no news
    return render_login(request, status=web.HTTPOk.status_code)


async def _log_in(reviewer: Reviewer, length: timedelta, request: web.Request) -> web.Response:
    request[STAYS] = True
    if not is_from_own_page(request):
        return render_login(request, "Another site has sent this login. Log in here, if you want to.", 403, goal="")
    form = await read_form(request)
    token, goal = (str(form.get(name, "")).strip() for name in ("token", "next"))
    token, goal = token.removeprefix("Bearer ").strip(), goal if _NEXT.fullmatch(goal) else ""
    if problem := _find_problem(token):
        return render_login(request, problem, 400, goal)
    try:
        viewer = await reviewer.identify(token)
    except TokenRefused:
        _log.info("login refused", client=request.remote or "")
        return render_login(request, describe_refusal(token), goal=goal)
    except TooManyLogins:
        return render_busy(request)
    except ApiError as error:
        return render_outage(request, error)
    _log.info("login", viewer=viewer.name, client=request.remote or "")
    response = lead_to(f"./{goal}")
    keep_session(request, response, token, length)
    return response


def _find_problem(token: str) -> str:
    """Why a text is not worth asking the API server about."""
    if not token:
        return "Paste a token."
    if len(token) > LONGEST_TOKEN:
        return f"This token is too long: it has {len(token):,} characters, and browsers keep {LONGEST_TOKEN:,}."
    return "" if is_token(token) else "This is no token: it has characters that no token has."


async def _log_out(request: web.Request) -> web.Response:
    visit, form = request[VISIT], await read_form(request)
    if visit.session is None or not visit.session.has_made(str(form.get("form", "")), LOG_OUT):
        raise web.HTTPForbidden(text="this form is not of your session; go back, and log out again\n")
    _log.info("logout", viewer=visit.viewer.name)
    response = lead_to("./")
    drop_session(request, response)
    return response


def _find_goal(request: web.Request) -> str:
    """Where a login leads to: the page that was asked for."""
    if request.method != hdrs.METH_GET:
        return ""
    path = str(request.rel_url)[len(request.app[PREFIX]) + 1 :]
    return path if _NEXT.fullmatch(path) else ""
