"""The API server, seen through a keyhole: dicts in, dicts out.

The requests are made with bytes that orjson reads, because the official client's generated models cost more time than
everything else that the operator does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, Literal, Protocol

import orjson

from podtune.cluster.connection import Connection
from podtune.kube.answers import WrongAnswer, check_answer
from podtune.kube.errors import AnswerTooLarge, ApiError, ApiRefusal, NotLeading, Unreachable, WrongObject

Manifest = dict[str, Any]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

JSON = "application/json"
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""An answer that holds an object's metadata alone."""
MERGE = "application/merge-patch+json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"

MAX_TRIES = 4
FIRST_WAIT = 0.2
MAX_WAIT = 10.0
"""Seconds; a server that asks for a longer wait is answered by giving up: whoever asked has a backoff of its own."""
PAGE = 100
"""Objects of a list that come at a time: to decode them holds everything up, for half a megabyte some milliseconds."""


class ClusterClient(Protocol):
    """What the operator needs of an API server."""

    async def request(
        self,
        method: Method,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Manifest:
        """Makes a request and returns the answer's JSON.

        Transient errors are retried a few times, with jitter, no sooner than the server asks for. So a request may
        have been carried out more than once when this returns or raises.

        Raises:
            ApiRefusal: The server answered with an error.
            AnswerTooLarge: The answer is longer than we read.
            WrongObject: A single object was to be read, and the answer is another one.
            Unreachable: It did not answer; whether the request was carried out is not known.
            NotLeading: It would have written, and we may not any more.
        """

    async def text(self, path: str, *, params: Mapping[str, str] | None = None) -> str:
        """Reads a text, such as a log; one try.

        Raises:
            ApiError: As with `request`.
        """

    def stream(self, path: str, *, params: Mapping[str, str] | None = None) -> AsyncGenerator[bytes]:
        """Reads a text that grows, chunk by chunk, until its end.

        The first chunk is empty and comes as soon as the server has agreed. Close the generator when you leave it.

        Raises:
            ApiError: As with `request`; also when the text breaks off.
        """


class KubernetesClient:
    """The one real `ClusterClient`."""

    def __init__(
        self, connection: Connection, rng: random.Random, may_write: Callable[[], bool] = lambda: True
    ) -> None:
        """Makes a client.

        Args:
            connection: The API server.
            rng: Draws the jitter.
            may_write: Asked right before each request that writes.
        """
        self._connection = connection
        self._rng = rng
        self._may_write = may_write

    @classmethod
    async def connect(cls, rng: random.Random) -> KubernetesClient:
        """Finds the API server, as `Connection.find` does.

        Raises:
            ApiError: It could not be found.
        """
        return cls(await Connection.find(), rng)

    def guarded(self, may_write: Callable[[], bool]) -> KubernetesClient:
        """A client over the same connections that writes only while it may."""
        return KubernetesClient(self._connection, self._rng, may_write)

    async def close(self) -> None:
        """Closes all connections."""
        await self._connection.close()

    async def request(
        self,
        method: Method,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Manifest:
        """See `ClusterClient.request`."""
        data = orjson.dumps(body) if body is not None else None
        headers = {"Content-Type": content_type, "Accept": accept}
        tries = 1
        while True:
            if method != "GET" and not self._may_write():
                raise NotLeading(f"{method} {path}: not sent, another operator may lead by now")
            try:
                answer = await self._connection.send(method, path, params=params, data=data, headers=headers)
                return _decoded(answer, method, path)
            except ApiError as error:
                wait = self._wait(error, tries)
                if wait is None:
                    raise
                await asyncio.sleep(wait)
                if tries == MAX_TRIES:
                    raise
            tries += 1

    async def text(self, path: str, *, params: Mapping[str, str] | None = None) -> str:
        """See `ClusterClient.text`."""
        answer = await self._connection.send("GET", path, params=params, data=None, headers={})
        return answer.decode(errors="replace")

    def stream(self, path: str, *, params: Mapping[str, str] | None = None) -> AsyncGenerator[bytes]:
        """See `ClusterClient.stream`."""
        return self._connection.stream(path, params=params)

    def _wait(self, error: ApiError, tries: int) -> float | None:
        """Seconds until the next try, or until its caller may try again; None where it need not wait."""
        if isinstance(error, AnswerTooLarge | WrongObject):
            return None
        if isinstance(error, ApiRefusal) and not error.is_transient:
            return None
        asked = error.retry_after if isinstance(error, ApiRefusal) else None
        if asked is not None and asked > MAX_WAIT:
            return None
        if tries == MAX_TRIES:
            return asked
        return max(asked or 0.0, FIRST_WAIT * 2.0 ** (tries - 1)) * (1 + self._rng.random())


async def list_pages(
    client: ClusterClient, path: str, params: Mapping[str, str] | None = None
) -> AsyncIterator[Manifest]:
    """Lists a collection, page by page; each answer is a list object with `items`.

    Where the objects are so large that a page is too long to be read, pages get smaller.
    """
    token, limit = "", PAGE
    while True:
        query = {"limit": str(limit), **(params or {}), **({"continue": token} if token else {})}
        try:
            page = await client.request("GET", path, params=query)
        except AnswerTooLarge:
            if limit == 1:
                raise
            limit = max(1, limit // 8)
            continue
        yield page
        token = page.get("metadata", {}).get("continue", "")
        if not token:
            return


def _decoded(answer: bytes, method: Method, path: str) -> Manifest:
    request = f"{method} {path}"
    try:
        decoded = orjson.loads(answer)
    except orjson.JSONDecodeError as error:
        raise Unreachable(f"{request}: the answer is not JSON: {error}") from error
    if not isinstance(decoded, dict):
        raise Unreachable(f"{request}: the answer is not an object")
    if method == "GET":
        try:
            check_answer(path, decoded)
        except WrongAnswer as error:
            raise WrongObject(f"{request}: {error}") from error
    return decoded
