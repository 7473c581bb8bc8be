"""One request of one viewer: who they are, what they may see, and what their page says of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from podtune.dashboard.access.session import LoginSession
from podtune.dashboard.access.viewed_source import ViewedSource
from podtune.dashboard.access.viewer import Viewer


@dataclass(frozen=True, slots=True)
class Visit:
    """A request that was let in.

    Attributes:
        session: The token that it came with; None where a proxy says who the viewer is.
        can_act: Whether they may change the Experiment or the Trial that the page is about.
    """

    viewer: Viewer
    session: LoginSession | None
    source: ViewedSource
    can_act: bool = False


VISIT = web.RequestKey("visit", Visit)


class Gate(Protocol):
    """Lets requests in."""

    async def readmit(self, request: web.Request) -> bool:
        """Looks again at whether the viewer of an open stream may still see what it is about."""

    async def may_read_logs(self, request: web.Request) -> bool:
        """Whether the viewer may read the logs of pods in the namespace that an address names."""


GATE = web.AppKey("gate", Gate)
IS_OPEN = web.AppKey("is_open", bool)
"""There where pages say who sees them: True where that is everybody."""
OFFERS_ACTIONS = web.AppKey("offers_actions", bool)
LOG_OUT = "log out"


@dataclass(frozen=True, slots=True)
class PageAccess:
    """What a page says of its viewer.

    Attributes:
        is_open: Everybody sees it.
        name: The viewer's; empty where nobody is known.
        short_name: The same for a narrow place.
        form_token: For the form that logs out; empty where there is no session to end.
        is_restricted: Whether there may be experiments that they don't see.
        offers_actions: Whether anybody may act.
        can_act: Whether this viewer may, on what the page is about.
    """

    is_open: bool = False
    name: str = ""
    short_name: str = ""
    form_token: str = ""
    is_restricted: bool = False
    offers_actions: bool = False
    can_act: bool = False


def find_page_access(request: web.Request) -> PageAccess | None:
    """What a page says of its viewer; None where the dashboard is a program of theirs."""
    if IS_OPEN not in request.app:
        return None
    visit = request.get(VISIT)
    if visit is None:
        return PageAccess(is_open=request.app[IS_OPEN], offers_actions=request.app[OFFERS_ACTIONS])
    has_cookie = visit.session is not None and visit.session.began > 0
    return PageAccess(
        name=visit.viewer.name,
        short_name=visit.viewer.short_name,
        form_token=visit.session.make_form_token(LOG_OUT) if visit.session is not None and has_cookie else "",
        is_restricted=visit.source.scope.namespaces is not None,
        offers_actions=request.app[OFFERS_ACTIONS],
        can_act=visit.can_act,
    )


async def may_go_on(request: web.Request) -> bool:
    """Whether a stream's viewer may still see what it is about."""
    gate = request.app.get(GATE)
    return gate is None or await gate.readmit(request)


async def may_read_logs(request: web.Request) -> bool:
    """Whether a viewer may read the logs of pods in a namespace, wherever these are kept.

    Raises:
        TooManyQuestions: Too many of theirs wait already.
        ApiError: The API server can't be asked.
    """
    gate = request.app.get(GATE)
    return gate is None or await gate.may_read_logs(request)
