"""HTTP to the API server: single requests, no retries."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import aiohttp
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config
from prometheus_client import Counter

from podtune.kube.answers import parse_refusal
from podtune.kube.errors import AnswerTimeout, AnswerTooLarge, ApiError, NotSent, Unanswered
from podtune.kube.paths import check_path

API_REQUESTS = Counter(
    "podtune_api_requests",
    "Requests to the API server but for streams, by method and HTTP status; none: there was no whole answer.",
    ["method", "code"],
)

MAX_CONNECTIONS = 64
"""Connections for requests; streams have theirs beside them, or a few that stand still would stop everything."""
REQUEST_SECONDS = 30.0
CONNECT_SECONDS = 10.0
STREAM_SILENCE = 900.0
"""Seconds without a byte after which a stream is taken for dead: its node may be gone without a word."""
MAX_ANSWER_BYTES = 32 << 20
"""Bytes of an answer that are read: what the operator may use is limited, and one object has at most some three MB."""

_BEFORE_SENDING = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
    kubernetes_config.ConfigException,
)
"""What is raised while there is no connection yet: nobody listens, TLS fails, a token can't be renewed."""


class Connection:
    """Connections to one API server, and the credentials for it, which the official client finds and keeps fresh."""

    def __init__(self, configuration: Any) -> None:
        """Takes the official client's configuration, server and credentials; use `find` to find the server."""
        self._configuration = configuration
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None

    @classmethod
    async def find(cls) -> Connection:
        """Finds the server: inside a pod by its service account, else by the kubeconfig.

        Raises:
            ApiError: Neither is there; the message says what was looked for.
        """
        configuration = kubernetes_client.Configuration()
        try:
            kubernetes_config.load_incluster_config(client_configuration=configuration)
        except kubernetes_config.ConfigException:
            try:
                await kubernetes_config.load_kube_config(client_configuration=configuration)
            except (kubernetes_config.ConfigException, OSError) as error:
                raise ApiError(f"neither a service account nor a usable kubeconfig was found: {error}") from error
        return cls(configuration)

    async def send(
        self, method: str, path: str, *, params: Mapping[str, str] | None, data: bytes | None, headers: dict[str, str]
    ) -> bytes:
        """Makes a request and returns the answer's body.

        Raises:
            ApiRefusal: The server answered with an error.
            AnswerTooLarge: Its answer is longer than we read.
            Unanswered: It did not answer.
            PathError: The path is none; nothing was sent.
        """
        url = self._build_url(path)
        if self._requests is None:
            timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS)
            self._requests = self._open_session(MAX_CONNECTIONS, timeout)
        code = "none"
        try:
            with keep_kind(f"{method} {path}"):
                async with self._requests.request(
                    method, url, params=params, data=data, headers=headers | await self._read_credentials()
                ) as response:
                    answer = await _read(response, f"{method} {path}")
            code = str(response.status)
        finally:
            API_REQUESTS.labels(method, code).inc()
        _raise_for_status(response, answer)
        return answer

    async def stream(self, path: str, *, params: Mapping[str, str] | None) -> AsyncGenerator[bytes]:
        """Reads an answer that grows, chunk by chunk, until its end; the first chunk is empty: the answer has begun.

        Raises:
            ApiRefusal: The server answered with an error.
            Unanswered: It did not answer, or the answer broke off.
            PathError: The path is none; nothing was sent.
        """
        url = self._build_url(path)
        if self._streams is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=STREAM_SILENCE)
            self._streams = self._open_session(0, timeout)
        with keep_kind(f"GET {path}"):
            async with self._streams.get(url, params=params, headers=await self._read_credentials()) as response:
                if response.status >= 400:
                    _raise_for_status(response, await _read(response, f"GET {path}"))
                yield b""
                async for chunk in response.content.iter_any():
                    yield chunk

    async def close(self) -> None:
        """Closes all connections."""
        for session in (self._requests, self._streams):
            if session is not None:
                await session.close()
        self._requests = self._streams = None

    def _build_url(self, path: str) -> str:
        return f"{self._configuration.host}{check_path(path)}"

    def _open_session(self, limit: int, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=limit, ssl=_build_ssl_context(self._configuration))
        return aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            headers={"User-Agent": "podtune-operator"},
            cookie_jar=aiohttp.DummyCookieJar(),  # an API server sets none, and to look for some takes time
        )

    async def _read_credentials(self) -> dict[str, str]:
        settings = (await self._configuration.auth_settings()).values()
        return {setting["key"]: setting["value"] for setting in settings if setting["in"] == "header"}


async def _read(response: aiohttp.ClientResponse, request: str) -> bytes:
    """The whole of an answer, unless it is too long; the rest of such a one is not waited for."""
    parts, size = [], 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise AnswerTooLarge(f"{request}: the answer has more than {MAX_ANSWER_BYTES >> 20} MiB")
        parts.append(part)
    return b"".join(parts)


def _build_ssl_context(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if getattr(configuration, "disable_strict_ssl_verification", False):
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _raise_for_status(response: aiohttp.ClientResponse, answer: bytes) -> None:
    if response.status >= 400:
        raise parse_refusal(response.status, answer, response.headers.get("Retry-After", ""))


@contextmanager
def keep_kind(request: str) -> Iterator[None]:
    """Raises what aiohttp and the operating system raise as one of ours, which says how far the request has come."""
    try:
        yield
    except _BEFORE_SENDING as error:
        raise NotSent(f"{request}: not sent: {str(error) or type(error).__name__}") from error
    except TimeoutError as error:
        raise AnswerTimeout(f"{request}: {str(error) or 'no answer in time'}") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unanswered(f"{request}: {str(error) or type(error).__name__}") from error
