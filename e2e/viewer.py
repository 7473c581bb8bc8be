"""Somebody who looks at a dashboard, as a browser does, but for its scripts."""

from __future__ import annotations

import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from email.message import Message
from http.client import HTTPResponse
from typing import IO, Any

from e2e.kubernetes import DEADLINE


@dataclass(frozen=True)
class Answer:
    """What a dashboard has answered, whatever its status."""

    status: int
    text: str
    headers: Message


@dataclass(frozen=True)
class DashboardViewer:
    """One viewer.

    Attributes:
        address: The dashboard's, with a slash at its end.
        cookie: Their session; empty where they have none.
    """

    address: str
    cookie: str = ""

    def log_in(self, token: str) -> DashboardViewer:
        """The same viewer with a session, as the login form gives it."""
        answer = self.send("login", {"token": token})
        assert answer.status == 303, answer
        return replace(self, cookie=answer.headers["Set-Cookie"].partition(";")[0])

    def read(self, path: str) -> str:
        """A page, whatever its status."""
        return self.send(path).text

    def send(self, path: str, form: Mapping[str, str] | None = None) -> Answer:
        """Asks for a page, or sends a form; follows no redirection."""
        with self._open(path, form) as answer:
            return Answer(answer.status, answer.read().decode(), answer.headers)

    def follow(self, path: str, accept: Callable[[str], bool]) -> str:
        """Reads a page anew only when its stream tells of a change, as a browser does, until it is accepted."""
        page = self.read(path)
        events = re.search('data-events="([^"]+)" data-revision="([^"]+)"', page)
        assert events, page
        with closing(self._open(f"{events[1].lstrip('./')}?since={events[2]}")) as lines:
            while not accept(page):
                assert any(line.startswith(b"event: change") for line in lines), "the stream has ended"
                page = self.read(path)
        return page

    def _open(self, path: str, form: Mapping[str, str] | None = None) -> HTTPResponse:
        body = None if form is None else urllib.parse.urlencode(form).encode()
        headers = {"Sec-Fetch-Site": "same-origin", **({"Cookie": self.cookie} if self.cookie else {})}
        request = urllib.request.Request(f"{self.address}{path}", body, headers)
        opener = urllib.request.build_opener(_AnyStatus, urllib.request.ProxyHandler({}))
        answer: HTTPResponse = opener.open(request, timeout=DEADLINE)
        return answer


class _AnyStatus(urllib.request.HTTPErrorProcessor):
    """Takes every answer as it is: a refusal is what tests look for, and a redirection may bring a cookie."""

    def http_response(self, request: urllib.request.Request, response: IO[bytes]) -> Any:
        del request
        return response
