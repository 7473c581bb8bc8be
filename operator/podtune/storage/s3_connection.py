"""Signed requests to one S3 server, over connections that are kept open.

The standard library alone: the AWS SDK takes a second of processor time and 30 MB to say the same, in every pod.
"""

from __future__ import annotations

import http.client
import random
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from urllib.parse import SplitResult, urlsplit

from podtune.storage.address import StoreAddress
from podtune.storage.backoff import Backoff
from podtune.storage.content import PIECE, Content
from podtune.storage.errors import InvalidCredentials, StoreSettingsError
from podtune.storage.s3_credentials import CredentialSource, NoCredentials
from podtune.storage.s3_errors import Refusal, no_answer, no_credentials, refused
from podtune.storage.s3_signature import EMPTY_SHA256, Credentials, Request, signed

CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 30.0
ATTEMPTS = 4
"""Tries of one request within one call, with waits between them."""
FIRST_WAIT = 0.2
LONGEST_WAIT = 3.0
MAX_IDLE = 16
"""Connections that are kept."""
MAX_REFUSAL = 1 << 16

Answer = http.client.HTTPResponse


class S3Connection:
    """Speaks to the server of one bucket. May be used by several threads at once."""

    def __init__(self, address: StoreAddress, credentials: CredentialSource) -> None:
        """Connects to nothing yet.

        Args:
            address: The bucket and its server.
            credentials: Who asks.
        """
        self._address = address
        self._credentials = credentials
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._url, self._in_path = locate(address)

    def __del__(self) -> None:
        self._drop_idle()

    @contextmanager
    def request(
        self,
        method: str,
        key: str = "",
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: Content | None = None,
    ) -> Iterator[Answer]:
        """A good answer to a request, after several tries if need be; its body is read by the caller.

        Args:
            method: HTTP method.
            key: The object; the bucket itself when empty.
            query: Not quoted.
            headers: Names in small letters.
            content: The body.

        Raises:
            Refusal: The store said no.
            OSError: It said nothing, or broke off in the midst of it.
            NoCredentials: There is nothing to sign with.
        """
        asked = self._prepare(method, key, query or {}, headers or {}, content)
        connection, answer = self._persist(asked, content)
        try:
            yield answer
        finally:
            self._give_back(connection, answer)

    @contextmanager
    def answered(self, doing: str) -> Iterator[None]:
        """Turns all that `request` raises into the fitting `StoreError`; `doing` is what was tried, for its message."""
        try:
            yield
        except Refusal as refusal:
            error = refused(self._address, doing, refusal)
            if isinstance(error, InvalidCredentials):
                self._credentials.forget()
            raise error from refusal
        except NoCredentials as lack:
            raise no_credentials(self._address, doing, lack) from lack
        except (OSError, http.client.HTTPException) as failure:
            raise no_answer(self._address, doing, failure) from failure

    def _prepare(
        self, method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str], content: Content | None
    ) -> Request:
        root = f"{self._url.path.rstrip('/')}/{self._address.bucket}" if self._in_path else self._url.path.rstrip("/")
        length = {"content-length": str(content.size)} if content is not None else {}
        return Request(
            method,
            self._url.netloc,
            f"{root}/{key}" if key else root or "/",
            query,
            {**headers, **length},
            content.sha256 if content is not None else EMPTY_SHA256,
        )

    def _persist(self, asked: Request, content: Content | None) -> tuple[http.client.HTTPConnection, Answer]:
        """Asks until there is an answer that asking again won't better."""
        backoff = Backoff(FIRST_WAIT, LONGEST_WAIT, random.Random())
        for _ in range(ATTEMPTS - 1):
            try:
                return self._send(asked, content)
            except (OSError, http.client.HTTPException):
                self._drop_idle()  # the server has restarted, or they have idled for too long
            except Refusal as refusal:
                if not refusal.is_worth_repeating:
                    raise
            time.sleep(backoff.next())
        return self._send(asked, content)

    def _send(self, asked: Request, content: Content | None) -> tuple[http.client.HTTPConnection, Answer]:
        credentials: Credentials = self._credentials.get()
        headers = signed(asked, credentials, self._address.region, datetime.now(UTC))
        connection = self._take()
        try:
            body = content.pieces() if content is not None and content.size else None
            with suppress(BrokenPipeError, ConnectionResetError):  # who refuses may say so before having heard it all
                connection.request(asked.method, asked.target, body, headers)
            answer = connection.getresponse()
            if answer.status >= http.client.MULTIPLE_CHOICES:
                said = answer.read(MAX_REFUSAL)
                self._give_back(connection, answer)
                raise Refusal.from_answer(answer.status, said)
        except Refusal:
            raise
        except BaseException:
            connection.close()
            raise
        return connection, answer

    def _take(self) -> http.client.HTTPConnection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        connection = self._connect()
        connection.connect()
        connection.sock.settimeout(READ_TIMEOUT)
        return connection

    def _drop_idle(self) -> None:
        with self._lock:
            dropped, self._idle = self._idle, []
        for connection in dropped:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=CONNECT_TIMEOUT, blocksize=PIECE)
        return http.client.HTTPSConnection(host, port, timeout=CONNECT_TIMEOUT, blocksize=PIECE, context=self._trusted)

    @cached_property
    def _trusted(self) -> ssl.SSLContext:
        return _trust(self._address.ca_file)

    def _give_back(self, connection: http.client.HTTPConnection, answer: Answer) -> None:
        """Keeps a connection whose answer was read to its end."""
        if answer.isclosed() and not answer.will_close:
            with self._lock:
                if len(self._idle) < MAX_IDLE:
                    self._idle.append(connection)
                    return
        answer.close()
        connection.close()


def locate(address: StoreAddress) -> tuple[SplitResult, bool]:
    """The server's URL, and whether the bucket stands in the path rather than in the host's name.

    On AWS the bucket is in the host's name, unless it has a dot, which no certificate is for.
    """
    domain = "amazonaws.com.cn" if address.region.startswith("cn-") else "amazonaws.com"
    url = urlsplit(address.endpoint or f"https://s3.{address.region}.{domain}")
    auto = bool(address.endpoint) or "." in address.bucket
    in_path = {"Auto": auto, "Path": True, "VirtualHost": False}[address.addressing]
    return (url if in_path else url._replace(netloc=f"{address.bucket}.{url.netloc}")), in_path


def read_whole(answer: Answer, limit: int | None = None) -> bytes:
    """An answer's body, of which no more than `limit` bytes are read.

    Raises:
        OSError: It broke off.
    """
    return b"".join(read_pieces(answer, limit))


def read_pieces(answer: Answer, limit: int | None = None) -> Iterator[bytes]:
    """An answer's body, piece by piece. The standard library takes one that was cut off for whole.

    Raises:
        OSError: It broke off.
    """
    announced = answer.length
    left = announced if limit is None or announced is None else min(announced, limit)
    if left is None:
        left = limit
    while left is None or left > 0:
        piece = answer.read(PIECE if left is None else min(PIECE, left))
        if not piece:
            if announced is not None:
                raise ConnectionError(f"the answer was cut off, {left} bytes before its end")
            return
        left = None if left is None else left - len(piece)
        yield piece
    if announced == 0 or not answer.length:
        answer.read()  # so that the connection can be used again


def _trust(ca_file: str) -> ssl.SSLContext:
    """Whose certificates are believed: the system's authorities, and those of a file."""
    context = ssl.create_default_context()
    if ca_file:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:
            raise StoreSettingsError(
                f"the authorities in {ca_file} can't be used: {error}; correct checkpoints.store.caBundle"
            ) from error
    return context
