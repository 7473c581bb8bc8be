"""The API server, as far as the commands need it."""

from __future__ import annotations

import http.client
import json
import random
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from podtune.cli.client.kubeconfig import ServerAccess, connect
from podtune.cli.client.pod_process import start_process
from podtune.kube.answers import check_answer, parse_refusal
from podtune.kube.errors import AnswerTimeout, AnswerTooLarge, ApiRefusal, NotSent, Unanswered, make_refusal
from podtune.kube.manifests import Manifest
from podtune.kube.pages import PageRequest
from podtune.kube.paths import check_path
from podtune.storage.volume.remote_store import ReaderConnection

_TIMEOUT = 30.0
"""Seconds to wait for an answer."""
WATCH_SECONDS = 240
"""How long the server keeps a watch open; then it is taken up again where it ended."""
WATCH_TRIES = 5
_PAGE = 500
MAX_ANSWER = 64 << 20
"""Bytes of an answer that are read: one object has at most some three MB."""
_MAX_REFUSAL = 1 << 20
MAX_LINE = 1 << 20
"""Bytes of a log's line; a longer one is read in pieces, for a program need not end its lines."""
_PROBES = {"TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds of silence before a probe, seconds between probes, and how many may remain unanswered."""
_OPENED = "OPENED"
"""Comes before a watch's changes: the server has taken the request."""
_FIELD_MANAGER = "kubectl-podtune"


@dataclass(frozen=True, slots=True)
class Change:
    """What a watch tells.

    Attributes:
        kind: RELISTED: what follows as ADDED is all there is, up to SYNCED; then ADDED, MODIFIED, DELETED. Between
            INTERRUPTED and RESUMED the server could not be reached; nothing is lost by that.
        object: What has changed; empty with the kinds that are about no object.
    """

    kind: str
    object: Manifest


class Api(Protocol):
    """What the commands need of an API server."""

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Manifest:
        """Reads one object.

        Raises:
            ResourceNotFound: There is none.
            ApiRefusal: The server refuses.
            Unanswered: It does not answer.
            WrongObject: It answers with another object.
        """

    def patch(self, path: str, change: Mapping[str, Any]) -> Manifest:
        """Changes some fields of one object (a merge patch), and gives it as it is then; raises as `get`."""

    def create(self, path: str, item: Mapping[str, Any], params: Mapping[str, str] | None = None) -> Manifest:
        """Makes an object in a collection, and gives it as it is then; raises as `get`."""

    def delete(self, path: str, uid: str, grace: int | None = None) -> None:
        """Deletes one object, if it is the one of this UID; raises as `get`.

        Args:
            path: Where it is.
            uid: Its UID.
            grace: Seconds that a pod is given to end: 0 deletes it at once; None for the pod's own.
        """

    def execute(self, path: str, container: str, command: Sequence[str]) -> ReaderConnection:
        """Starts a process in a container of a pod.

        Raises:
            ApiRefusal: The server refuses.
            ConnectionLost: It does not answer.
        """

    def list_all(self, path: str, params: Mapping[str, str] | None = None) -> list[Manifest]:
        """Reads all objects of a collection, page by page; raises as `get`."""

    def watch(
        self, path: str, params: Mapping[str, str] | None = None, is_wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[Change]:
        """Lists a collection and then follows it without an end; raises as `get` when it can't go on.

        Args:
            path: Where the collection is.
            params: What is asked of it.
            is_wanted: Whether anybody still listens; it ends when nobody does, but not before a silent server has
                ended its answer.
        """

    def read_lines(
        self, path: str, params: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> Iterator[str]:
        """Reads a text line by line, as it comes; raises as `get`.

        Args:
            path: Where it is.
            params: What is asked of it.
            timeout: Seconds that the server may be silent; None for any time, as a program may be silent for hours.
        """


@runtime_checkable
class DatedApi(Protocol):
    """An API server that says its time."""

    def read_date(self) -> datetime | None:
        """The time of the server, to the second; None where it does not say; raises as `Api.get`."""


class HttpApi:
    """The one real `Api`."""

    def __init__(
        self, connection: ServerAccess, sleep: Callable[[float], None] = time.sleep, rng: random.Random | None = None
    ) -> None:
        self._connection = connection
        self._sleep = sleep
        self._rng = rng or random.Random()
        handlers: list[urllib.request.BaseHandler] = [_NoRedirect(), _HttpHandler()]
        if connection.tls is not None:
            handlers.append(_HttpsHandler(connection.tls))
        if connection.proxy:
            handlers.append(urllib.request.ProxyHandler({"http": connection.proxy, "https": connection.proxy}))
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Manifest:
        """See `Api`."""
        with self._open(path, params, _TIMEOUT) as answer:
            body = self._read_object(answer)
        check_answer(path, body)
        return body

    def patch(self, path: str, change: Mapping[str, Any]) -> Manifest:
        """See `Api`."""
        with self._open(path, {"fieldManager": _FIELD_MANAGER}, _TIMEOUT, change=change) as answer:
            return self._read_object(answer)

    def create(self, path: str, item: Mapping[str, Any], params: Mapping[str, str] | None = None) -> Manifest:
        """See `Api`."""
        query = {"fieldManager": _FIELD_MANAGER, **(params or {})}
        with self._open(path, query, _TIMEOUT, change=item, method="POST") as answer:
            return self._read_object(answer)

    def delete(self, path: str, uid: str, grace: int | None = None) -> None:
        """See `Api`."""
        only: Manifest = {"preconditions": {"uid": uid}}
        if grace is not None:
            only["gracePeriodSeconds"] = grace
        with self._open(path, None, _TIMEOUT, change=only, method="DELETE") as answer:
            self._read_object(answer)

    def read_date(self) -> datetime | None:
        """See `DatedApi`."""
        with self._open("/version", None, _TIMEOUT) as answer:
            written = answer.headers.get("Date", "")
        try:
            return parsedate_to_datetime(written)
        except ValueError:
            return None

    def execute(self, path: str, container: str, command: Sequence[str]) -> ReaderConnection:
        """See `Api`."""
        return start_process(self._connection, path, container, command)

    def _read_object(self, answer: Any) -> Manifest:
        try:
            data = answer.read(MAX_ANSWER + 1)
            if len(data) > MAX_ANSWER:
                raise AnswerTooLarge(f"{self._connection.server} has answered with more than {MAX_ANSWER >> 20} MiB")
            body = json.loads(data)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._build_unanswered(error) from error
        if not isinstance(body, dict):
            raise Unanswered(f"{self._connection.server} does not answer like an API server; is --context right?")
        return body

    def list_all(self, path: str, params: Mapping[str, str] | None = None) -> list[Manifest]:
        """See `Api`."""
        return [item for page, _ in self._read_pages(path, params) for item in page]

    def watch(
        self, path: str, params: Mapping[str, str] | None = None, is_wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[Change]:
        """See `Api`."""
        while is_wanted():
            version = ""
            yield Change("RELISTED", {})
            for page, version in self._read_pages(path, params):  # noqa: B007 - the last page's is the list's
                while page:  # objects are large: none is kept for longer than it is needed
                    yield Change("ADDED", page.pop(0))
            yield Change("SYNCED", {})
            if version:
                yield from self._follow(path, params, version, is_wanted)
            self._sleep(self._rng.uniform(0.1, 0.5))

    def read_lines(
        self, path: str, params: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> Iterator[str]:
        """See `Api`."""
        with self._open(path, params, timeout) as answer:
            try:
                for line in iter(lambda: answer.readline(MAX_LINE), b""):
                    yield line.decode(errors="replace").rstrip("\n")
            except (OSError, http.client.HTTPException) as error:
                raise self._build_unanswered(error) from error

    def _read_pages(self, path: str, params: Mapping[str, str] | None) -> Iterator[tuple[list[Manifest], str]]:
        request: PageRequest | None = PageRequest(_PAGE, params or {})
        while request is not None:
            try:
                page = self.get(path, request.query)
            except AnswerTooLarge as error:
                request = request.shrink(error)
                continue
            request = request.follow(page)
            yield page.pop("items", None) or [], str((page.get("metadata") or {}).get("resourceVersion", ""))

    def _follow(
        self, path: str, params: Mapping[str, str] | None, version: str, is_wanted: Callable[[], bool]
    ) -> Iterator[Change]:
        """What has changed since a version; it ends when that is too old, and all has to be listed again."""
        failures, is_interrupted = 0, False
        while is_wanted():
            try:
                for kind, item in self._changes(path, params, version):
                    if is_interrupted:
                        is_interrupted = False
                        yield Change("RESUMED", {})
                    if kind == _OPENED:
                        continue
                    failures = 0
                    version = item["metadata"]["resourceVersion"]
                    if kind != "BOOKMARK":
                        yield Change(kind, item)
                # The server ends a watch after a while; one that ends them at once must not be run over.
                self._sleep(self._rng.uniform(0.1, 0.5))
            except Unanswered:
                failures += 1
                if failures == WATCH_TRIES:
                    raise
                if not is_interrupted:
                    is_interrupted = True
                    yield Change("INTERRUPTED", {})
                self._sleep(2**failures * self._rng.uniform(0.25, 0.5))
            except ApiRefusal as refusal:
                if refusal.status != http.client.GONE:
                    raise
                return

    def _changes(self, path: str, params: Mapping[str, str] | None, version: str) -> Iterator[tuple[str, Manifest]]:
        query = {
            **(params or {}),
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        with self._open(path, query, WATCH_SECONDS + _TIMEOUT) as answer:
            yield _OPENED, {}
            try:
                for line in iter(lambda: answer.readline(MAX_ANSWER), b""):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise _read_error_event(event["object"])
                    yield event["type"], event["object"]
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise self._build_unanswered(error) from error

    def _open(
        self,
        path: str,
        params: Mapping[str, str] | None,
        timeout: float | None,
        change: Mapping[str, Any] | None = None,
        method: str = "PATCH",
    ) -> Any:
        url = f"{self._connection.server}{check_path(path)}"
        if params:
            url += f"?{urllib.parse.urlencode(params)}"
        headers = {"Accept": "application/json, */*", "User-Agent": "kubectl-podtune", **self._connection.headers}
        request = urllib.request.Request(url, headers=headers)
        if change is not None:
            request.method, request.data = method, json.dumps(change).encode()
            kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
            request.add_header("Content-Type", kind)
        try:
            return self._opener.open(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise parse_refusal(error.code, error.read(_MAX_REFUSAL)) from error
        except (OSError, http.client.HTTPException) as error:  # urllib's URLError is an OSError
            raise self._build_unanswered(error) from error

    def _build_unanswered(self, error: Exception) -> Unanswered:
        """The error for a missing answer, with what a user may do about it."""
        kind = Unanswered
        if isinstance(error, urllib.error.URLError):  # before the answer, else it is raised as it is
            kind = NotSent
        elif isinstance(error, TimeoutError):
            kind = AnswerTimeout
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, socket.gaierror):
            reason = "its name does not resolve"
        elif isinstance(reason, TimeoutError):
            reason = "no answer in time"
        return kind(f"{self._connection.server} can't be reached: {reason}; is the cluster up, and --context right?")


def open_api(kubeconfig: Path | None, context: str | None, namespace: str | None) -> tuple[Api, str]:
    """The API server, and the namespace that is meant; tests put another one here.

    Raises:
        KubeconfigError: No way to a cluster is known.
    """
    connection = connect(kubeconfig, context, namespace)
    return HttpApi(connection), connection.namespace


def _probe_peer(connection: socket.socket) -> None:
    """Has a silent connection end when nobody is there any more: a watch would wait for minutes."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if hasattr(socket, name):  # they differ from system to system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _HttpConnection(http.client.HTTPConnection):
    """One whose other end is probed."""

    def connect(self) -> None:
        """Connects."""
        super().connect()
        _probe_peer(self.sock)


class _HttpsConnection(http.client.HTTPSConnection):
    """The same over TLS."""

    def connect(self) -> None:
        """Connects."""
        super().connect()
        _probe_peer(self.sock)


class _HttpHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Opens a connection that is probed."""
        return self.do_open(_HttpConnection, req)


class _HttpsHandler(urllib.request.HTTPSHandler):
    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__(context=tls)
        self._tls = tls

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Opens a connection that is probed."""
        return self.do_open(_HttpsConnection, req, context=self._tls)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An API server does not send us elsewhere, and elsewhere must not get our token."""

    def redirect_request(self, *_: Any) -> None:
        """Follows none: the redirect itself is the error."""


def _read_error_event(status: Manifest) -> ApiRefusal:
    """What a watch tells in the place of a change: that it can't go on."""
    return make_refusal(status.get("code", 500), status.get("reason", ""), status.get("message", ""))
