"""A minimal client of the API server: dicts in, dicts out.

The requests are made with bytes that orjson reads, because the official client's generated models cost more time than
everything else that the operator does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Literal, Protocol

import orjson

from podtune.api.names import FIELD_MANAGER
from podtune.cluster.connection import Connection
from podtune.kube.answers import check_answer
from podtune.kube.errors import (
    AnswerTooLarge,
    ApiError,
    ApiRefusal,
    NotLeading,
    NotSent,
    ResourceConflict,
    ResourceExists,
    ResourceNotFound,
    Unanswered,
)
from podtune.kube.manifests import Manifest, find_owner_uid
from podtune.kube.pages import PageRequest
from podtune.kube.paths import name_in

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

JSON = "application/json"
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""An answer that holds an object's metadata alone."""
MERGE = "application/merge-patch+json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"

_MAX_TRIES = 4
_FIRST_WAIT = 0.2
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
        idempotent: bool = False,
    ) -> Manifest:
        """Makes a request and returns the answer's JSON.

        Transient errors are retried a few times, with jitter, no sooner than the server asks for. So a request may
        have been carried out more than once when this returns or raises.

        A POST is the exception: it is retried only if the server certainly has not carried it out. The object that it
        made may be gone by the retry, a pod that has run say, and would be made a second time. The caller retries,
        once it has looked at what was made. A POST that does no harm when it is carried out twice is sent as
        `idempotent`, and retried like any other request.

        Raises:
            ApiRefusal: The server answered with an error.
            AnswerTooLarge: The answer is longer than we read.
            WrongObject: A single object was to be read, and the answer is another one.
            Unanswered: It did not answer; whether the request was carried out is known of a `NotSent` alone.
            NotLeading: It would have written, and we may not any more.
        """

    async def get_text(self, path: str, *, params: Mapping[str, str] | None = None) -> str:
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
        """Makes a client that asks `may_write` right before each request that writes."""
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

    def guard_writes(self, may_write: Callable[[], bool]) -> KubernetesClient:
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
        idempotent: bool = False,
    ) -> Manifest:
        """See `ClusterClient.request`."""
        may_repeat = idempotent or method != "POST"
        data = orjson.dumps(body) if body is not None else None
        headers = {"Content-Type": content_type, "Accept": accept}
        tries = 1
        while True:
            if method != "GET" and not self._may_write():
                raise NotLeading(f"{method} {path}: not sent, another operator may lead by now")
            try:
                answer = await self._connection.send(method, path, params=params, data=data, headers=headers)
                return _decode(answer, method, path)
            except ApiError as error:
                is_last = tries == _MAX_TRIES or not (may_repeat or _was_surely_not_carried_out(error))
                wait = self._compute_wait(error, tries, is_last=is_last)
                if wait is None:
                    raise
                await asyncio.sleep(wait)
                if is_last:
                    raise
            tries += 1

    async def get_text(self, path: str, *, params: Mapping[str, str] | None = None) -> str:
        """See `ClusterClient.get_text`."""
        answer = await self._connection.send("GET", path, params=params, data=None, headers={})
        return answer.decode(errors="replace")

    def stream(self, path: str, *, params: Mapping[str, str] | None = None) -> AsyncGenerator[bytes]:
        """See `ClusterClient.stream`."""
        return self._connection.stream(path, params=params)

    def _compute_wait(self, error: ApiError, tries: int, *, is_last: bool) -> float | None:
        """Seconds until the next try, or until its caller may try again; None where it need not wait."""
        match error:
            case Unanswered():
                asked = None
            case ApiRefusal(is_transient=True):
                asked = error.retry_after
            case _:
                return None
        if asked is not None and asked > MAX_WAIT:
            return None
        if is_last:
            return asked
        return max(asked or 0.0, _FIRST_WAIT * 2.0 ** (tries - 1)) * (1 + self._rng.random())


async def read_if_there(client: ClusterClient, path: str) -> Manifest | None:
    """Reads one object; None where there is none.

    Raises:
        ApiError: The API server could not be asked.
    """
    try:
        return await client.request("GET", path)
    except ResourceNotFound:
        return None


async def delete_exactly(client: ClusterClient, path: str, uid: str, grace: int | None = None) -> None:
    """Deletes one object, and no newer one of its name; nothing happens where it is gone.

    A conflict need not mean that another object has its name, so it is looked up.

    Raises:
        ApiError: It can't be deleted now.
    """
    body = {"preconditions": {"uid": uid}} | ({} if grace is None else {"gracePeriodSeconds": grace})
    try:
        await client.request("DELETE", path, body=body)
    except ResourceNotFound:
        return
    except ResourceConflict:
        found = await read_if_there(client, path)
        if found is not None and found["metadata"]["uid"] == uid:
            raise


async def create_owned(
    client: ClusterClient, path: str, body: Manifest, check: Callable[[Manifest], object] | None = None
) -> Manifest | None:
    """Creates an object with one owner; one that is there already is as good if it has the same owner, else None.

    Of a new object only the metadata is asked back: the rest is as it was sent, but for defaults that nobody here
    looks at, and a pod is a long text. Of one that is there, `check` raises what it has against it.

    Raises:
        ApiError: It could not be created.
    """
    try:
        made = await client.request("POST", path, params={"fieldManager": FIELD_MANAGER}, body=body, accept=METADATA)
        return {**body, "metadata": made["metadata"]}
    except ResourceExists:
        existing = await client.request("GET", name_in(path, body["metadata"]["name"]))
    (owner,) = body["metadata"]["ownerReferences"]
    if find_owner_uid(existing, owner["kind"]) != owner["uid"]:
        return None
    if check is not None:
        check(existing)
    return existing


async def list_pages(
    client: ClusterClient, path: str, params: Mapping[str, str] | None = None
) -> AsyncIterator[Manifest]:
    """Lists a collection, page by page; each answer is a list object with `items`.

    Where the objects are so large that a page is too long to be read, pages get smaller.
    """
    request: PageRequest | None = PageRequest(PAGE, params or {})
    while request is not None:
        try:
            page = await client.request("GET", path, params=request.query)
        except AnswerTooLarge as error:
            request = request.shrink(error)
            continue
        yield page
        request = request.follow(page)


def _was_surely_not_carried_out(error: ApiError) -> bool:
    """Whether the server never got the request, or turned it away unread; with a 5xx it may have carried it out."""
    return isinstance(error, NotSent) or (isinstance(error, ApiRefusal) and error.status == 429)


def _decode(answer: bytes, method: Method, path: str) -> Manifest:
    try:
        decoded = orjson.loads(answer)
    except orjson.JSONDecodeError as error:
        raise Unanswered(f"{method} {path}: the answer is not JSON: {error}") from error
    if not isinstance(decoded, dict):
        raise Unanswered(f"{method} {path}: the answer is not an object")
    if method == "GET":
        check_answer(path, decoded)
    return decoded
