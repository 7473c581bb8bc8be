"""What a program asks of the endpoint, and what it is answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """A request that bears the token.

    Attributes:
        method: Such as POST.
        path: Without the query.
        query: The values of the query, by name; of several of a name, the last.
        body: What came with it, at most `MAX_BODY` bytes.
    """

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes

    def parse_body(self) -> dict[str, Any]:
        """The body as a JSON object.

        Raises:
            BadRequest: It is none.
        """
        try:
            content = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"the body is not JSON: {error}; send a JSON object") from error
        if not isinstance(content, dict):
            raise BadRequest("the body is not a JSON object; send one")
        return content


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a request is answered: a status code of HTTP and a JSON object."""

    status: int
    content: Mapping[str, Any]


class BadRequest(ValueError):
    """A request that can't be taken; the text says what is wrong, and what to send instead."""


class Source(Protocol):
    """Speaks the protocol of one kind of programs, and writes what they report as results. Used by several threads."""

    def is_asked(self, path: str) -> bool:
        """Whether a path is one of this protocol's."""

    def answer(self, request: Request) -> HttpAnswer:
        """Takes a request in.

        Raises:
            BadRequest: It can't be taken.
            OSError: The results can't be written.
        """

    def refuse(self, status: int, problem: str) -> HttpAnswer:
        """Says in the protocol's own form why a request was not taken."""
