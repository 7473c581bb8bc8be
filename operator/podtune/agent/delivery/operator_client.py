"""The operator's results server, as the agent sees it: one connection that is kept open."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, urlencode, urlsplit

from podtune.agent.logs.line_clipper import LineClipper
from podtune.agent.settings import Settings
from podtune.protocol.fields import ProtocolError
from podtune.protocol.messages import Reply, Report, parse_reply

_TIMEOUT = 5.0
"""Seconds until a request without an answer is given up."""
LOG_TIMEOUT = 3600.0
"""Seconds that a program may print nothing before its log is asked for again."""
MAX_REPLY_BYTES = 16 << 20
"""A reply may hold two records of the snapshot, in JSON within JSON."""
MAX_RETRY_AFTER = 30.0


class OperatorError(Exception):
    """The operator can't be talked to at present.

    Attributes:
        retry_after: Seconds after which it wants to be asked again; None where it has not said.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Fenced(Exception):
    """This attempt is no longer the trial's current one, and never will be again."""


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Which part of a program's output is wanted.

    Attributes:
        since: RFC 3339 time from which on; empty for all of it.
        tail: How many of the latest lines, in the place of `since`; 0 for no such limit.
        follow: Whether to go on until the program has ended.
    """

    since: str = ""
    tail: int = 0
    follow: bool = True

    def encode(self) -> str:
        """As a query, with its question mark."""
        fields = {"tail": str(self.tail)} if self.tail else {"since": self.since} if self.since else {}
        if not self.follow:
            fields["follow"] = "false"
        return f"?{urlencode(fields)}" if fields else ""


class OperatorConnection(Protocol):
    """What an agent asks of who decides: in a pod that is the operator's results server. Each thread has its own."""

    def post(self, report: Report) -> Reply:
        """See `OperatorClient.post`."""

    def stream_log(self, request: LogRequest, is_over: Callable[[], bool]) -> AbstractContextManager[Iterator[bytes]]:
        """See `OperatorClient.stream_log`."""

    def interrupt_log(self) -> None:
        """See `OperatorClient.interrupt_log`."""


class OperatorClient:
    """Talks to the results server. Each thread needs its own."""

    def __init__(self, settings: Settings) -> None:
        url = urlsplit(settings.results_url)
        self._url, self._tls = settings.results_url, settings.results_tls
        self._trials = f"{url.path.rstrip('/')}/v1/namespaces/{quote(settings.namespace, '')}/trials/"
        self.turn_to(settings.trial)
        self._token_file = settings.token_file
        self._host, self._port = url.hostname or "", url.port
        self._connection: http.client.HTTPConnection | None = None
        self._log_socket: socket.socket | None = None

    def turn_to(self, trial: str) -> None:
        """Speaks of another trial from now on, over the same connection."""
        self._base = f"{self._trials}{quote(trial, '')}"

    def post(self, report: Report) -> Reply:
        """Sends a report, and returns the answer.

        Raises:
            Fenced: The attempt counts no more.
            OperatorError: There was no answer, or none that is a reply.
        """
        body = report.to_json()
        try:
            response, data = self._exchange(body)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise OperatorError(f"no answer from the operator: {self._describe(error)}") from error
        if response.status != http.client.OK:
            self.close()  # the next request may reach another replica
            raise _build_refusal(response, data)
        try:
            return parse_reply(data)
        except ProtocolError as error:
            raise OperatorError(f"the operator's answer is no reply: {error}") from error

    @contextmanager
    def stream_log(self, request: LogRequest, is_over: Callable[[], bool]) -> Iterator[Iterator[bytes]]:
        """The program's output, line by line as it comes.

        Args:
            request: What is asked for.
            is_over: Whether nobody waits for it any more. Whoever makes it true calls `interrupt_log` after that: one
                of both breaks the stream off, at whatever moment it comes.

        Raises:
            Fenced: The attempt counts no more.
            OperatorError: The stream can't be had, or broke off.
        """
        connection = self._connect(_TIMEOUT)
        try:
            connection.connect()
            self._log_socket = connection.sock
            if is_over():
                raise ConnectionAbortedError("it was broken off before it began")
            connection.request("GET", f"{self._base}/log{request.encode()}", headers=self._build_headers())
            response = connection.getresponse()
            if response.status != http.client.OK:
                raise _build_refusal(response, response.read(MAX_REPLY_BYTES))
            if connection.sock is not None:
                connection.sock.settimeout(LOG_TIMEOUT)
            yield _read_lines(response)
        except (OSError, http.client.HTTPException) as error:
            raise OperatorError(f"the log stream ended early: {self._describe(error)}") from error
        finally:
            self._log_socket = None
            connection.close()

    def interrupt_log(self) -> None:
        """Breaks off the stream that another thread reads or waits for, if there is one."""
        if (sock := self._log_socket) is not None:
            with suppress(OSError):  # it has been closed meanwhile
                # Not TLS's own shutdown: it would take away what the other thread reads with.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the connection; the next request opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self, seconds: float) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=seconds)
        return http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=self._tls)

    def _describe(self, error: Exception) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"the certificate of {self._url} is not believed ({error.verify_message}): who answers there is not "
                "the operator that made this pod, or its authorities are others by now; a new pod is given those"
            )
        return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

    def _exchange(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        reused = self._connection is not None
        try:
            return self._exchange_once(body)
        except (ConnectionError, http.client.RemoteDisconnected):
            # A server may close an idle connection at any time; a report may be sent twice, so it simply is.
            self.close()
            if not reused:
                raise
        return self._exchange_once(body)

    def _exchange_once(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        if self._connection is None:
            self._connection = self._connect(_TIMEOUT)
        headers = self._build_headers() | {"Content-Type": "application/json"}
        self._connection.request("POST", f"{self._base}/results", body, headers)
        response = self._connection.getresponse()
        return response, response.read(MAX_REPLY_BYTES)

    def _build_headers(self) -> dict[str, str]:
        # Read for every request: the kubelet renews the token, and a 401 is mended by asking again.
        try:
            token = self._token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise OperatorError(f"the token can't be read: {error}") from error
        return {"Authorization": f"Bearer {token}"}


def _read_lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The lines of a response as they come. Not `readline()`: it takes a stream that was cut for one that has ended."""
    clipper = LineClipper()
    while data := response.read1(1 << 16):
        yield from clipper.feed(data)
    yield from clipper.finish()


def _build_refusal(response: http.client.HTTPResponse, data: bytes) -> Exception:
    said = data[:300].decode("utf-8", "replace").strip()
    message = f"the operator answers {response.status} {response.reason}: {said}"
    if response.status == http.client.CONFLICT:
        return Fenced(message)
    retry_after = response.headers.get("Retry-After", "")
    seconds = min(float(retry_after), MAX_RETRY_AFTER) if re.fullmatch(r"\d{1,6}", retry_after) else None
    return OperatorError(message, seconds)
