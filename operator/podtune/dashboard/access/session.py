"""How a viewer shows who they are: a bearer token in a header or a cookie, or a proxy's word over mutual TLS."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from podtune.dashboard.access.viewer import Viewer

COOKIE = "podtune-session"
SECURE_COOKIE = f"__Secure-{COOKIE}"
LONGEST_TOKEN = 3800
"""Characters; browsers keep no longer cookies."""
ALL_AUTHENTICATED = "system:authenticated"
_RESERVED = "system:"
"""What names of Kubernetes' own users and groups begin with."""
_END_OF_DATES = 253402300800
"""Seconds from 1970 to the year 10000, which no date can be in."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_BEARER = "bearer "
_NO_PATH = ""
"""Without a path, a cookie is for what is beside /login, wherever a proxy has put that. /logout is beside it, too."""


@dataclass(frozen=True, slots=True)
class ProxyTrust:
    """Headers of an authenticating proxy; without the first, none is believed.

    Attributes:
        user_header: Names the viewer.
        groups_header: Names the viewer's groups, with commas or one a header; empty where there are none.
    """

    user_header: str = ""
    groups_header: str = ""


@dataclass(frozen=True, slots=True)
class LoginSession:
    """A token, and since when it is in use.

    Attributes:
        began: Seconds since 1970; 0 where each request brings the token in a header.
    """

    token: str = field(repr=False)
    began: int = 0

    def make_form_token(self, purpose: str) -> str:
        """What a form holds to show that it is a page of this session's that sends it; nobody else can make it."""
        said = f"podtune {self.began} {purpose}"
        return hmac.new(self.token.encode(), said.encode(), hashlib.sha256).hexdigest()

    def has_made(self, form_token: str, purpose: str) -> bool:
        """Whether a form's token is this session's."""
        return hmac.compare_digest(self.make_form_token(purpose).encode(), form_token.encode())


def is_token(text: str) -> bool:
    """Whether a text can be a bearer token."""
    return bool(_TOKEN.fullmatch(text))


def find_token_end(token: str) -> float | None:
    """When a token expires by its own word, in seconds since 1970; None where it doesn't say that to us."""
    try:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        end = float(claims["exp"])
    except (LookupError, TypeError, ValueError, binascii.Error, OverflowError, RecursionError):
        return None
    return end if 0 < end < _END_OF_DATES else None


def read_session(request: web.Request) -> LoginSession | None:
    """The token that a request brings; None where it brings none."""
    header = request.headers.get(hdrs.AUTHORIZATION, "")
    if header.lower().startswith(_BEARER):
        token = header[len(_BEARER) :].strip()
        return LoginSession(token) if is_token(token) else None
    began, _, token = request.cookies.get(_name_cookie(request), "").partition(".")
    return LoginSession(token, int(began)) if began.isdecimal() and len(began) < 12 and is_token(token) else None


def keep_session(request: web.Request, response: web.StreamResponse, token: str, length: timedelta) -> None:
    """Has the browser bring a token with each request, until it or the session expires."""
    now = time.time()
    end = find_token_end(token)
    seconds = length.total_seconds() if end is None else min(length.total_seconds(), end - now)
    response.set_cookie(
        _name_cookie(request),
        f"{int(now)}.{token}",
        max_age=max(1, int(seconds)),
        path=_NO_PATH,
        secure=_is_secure(request),
        httponly=True,
        samesite="Strict",
    )


def drop_session(request: web.Request, response: web.StreamResponse) -> None:
    """Has the browser forget its token."""
    response.del_cookie(
        _name_cookie(request), path=_NO_PATH, secure=_is_secure(request), httponly=True, samesite="Strict"
    )


def read_proxied_viewer(request: web.Request, trust: ProxyTrust) -> Viewer | None:
    """Who the viewer is by the word of a proxy that has shown its certificate; None where there is no such word.

    Kubernetes' own users and groups are nobody's that a proxy knows: whoever could name themselves one would be it.
    """
    names = request.headers.getall(trust.user_header, []) if trust.user_header else []
    name = names[0].strip() if len(names) == 1 else ""  # of two, one may have come through the proxy
    transport = request.transport
    if not name or name.startswith(_RESERVED) or transport is None or not transport.get_extra_info("peercert"):
        return None
    told = request.headers.getall(trust.groups_header, []) if trust.groups_header else []
    groups = dict.fromkeys(group.strip() for header in told for group in header.split(",") if group.strip())
    own = (group for group in groups if not group.startswith(_RESERVED))
    return Viewer(name, groups=(*own, ALL_AUTHENTICATED))


def is_from_own_page(request: web.Request) -> bool:
    """Whether a browser says that a page of ours has sent a form. Who says nothing is no browser of today."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get(hdrs.ORIGIN)
    return origin is None or urlsplit(origin).netloc == request.host


async def read_form(request: web.Request) -> Mapping[str, object]:
    """What a form of ours has sent.

    Raises:
        HTTPBadRequest: No page of ours sends such a form, or it can't be read.
    """
    refusal = web.HTTPBadRequest(text="this form can't be read: no page of the dashboard sends such a one\n")
    if request.content_type.startswith("multipart/"):
        raise refusal
    try:
        return await request.post()
    except (ValueError, LookupError) as error:
        raise refusal from error


def _is_secure(request: web.Request) -> bool:
    """Whether the browser has come over TLS: the first of several proxies knows that."""
    protocol = request.headers.get("X-Forwarded-Proto", "").partition(",")[0]
    return request.secure or protocol.strip().lower() == "https"


def _name_cookie(request: web.Request) -> str:
    """Over TLS, a name that browsers take from nobody who has intercepted plain HTTP."""
    return SECURE_COOKIE if _is_secure(request) else COOKIE
