"""The API server, seen through a keyhole: dicts in, dicts out.

The official client finds the server and keeps the credentials fresh; the requests are made here, with bytes that orjson
reads, because its generated models cost more time than everything else that the operator does.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, Protocol

import aiohttp
import orjson
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config

from podtune.cluster.errors import ApiError, ApiRefusal, Unreachable

Manifest = dict[str, Any]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"

MAX_TRIES = 4
MAX_CONNECTIONS = 64
PAGE = 500


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
    ) -> Manifest:
        """Makes a request and returns the answer's JSON.

        Transient errors are retried a few times, with jitter, as long as the server asks for.

        Raises:
            ApiRefusal: The server answered with an error.
            Unreachable: It did not answer; whether the request was carried out is not known.
        """

    async def text(self, path: str, *, params: Mapping[str, str] | None = None) -> str:
        """Reads a text, such as a log.

        Raises:
            ApiError: As with `request`.
        """

    def stream(self, path: str, *, params: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
        """Reads a text that grows, chunk by chunk, until its end.

        Raises:
            ApiError: As with `request`.
        """


class KubernetesClient:
    """The one real `ClusterClient`."""

    def __init__(self, configuration: Any, rng: random.Random) -> None:
        """Makes a client; use `connect` to find the server.

        Args:
            configuration: The official client's configuration: server and credentials.
            rng: Draws the jitter.
        """
        self._configuration = configuration
        self._rng = rng
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    async def connect(cls, rng: random.Random) -> KubernetesClient:
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
        return cls(configuration, rng)

    async def close(self) -> None:
        """Closes all connections."""
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: Method,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        content_type: str = JSON,
    ) -> Manifest:
        """See `ClusterClient.request`."""
        data = orjson.dumps(body) if body is not None else None
        for tries in range(1, MAX_TRIES + 1):
            try:
                answer = await self._once(method, path, params, data, content_type)
            except ApiError as error:
                if tries == MAX_TRIES or (isinstance(error, ApiRefusal) and not error.is_transient):
                    raise
                asked = error.retry_after if isinstance(error, ApiRefusal) else None
                await asyncio.sleep((asked or 0.1 * 2**tries) * (1 + self._rng.random()))
            else:
                decoded: Manifest = orjson.loads(answer)
                return decoded
        raise AssertionError("unreachable: the last try returns or raises")

    async def text(self, path: str, *, params: Mapping[str, str] | None = None) -> str:
        """See `ClusterClient.text`."""
        return (await self._once("GET", path, params, None, JSON)).decode(errors="replace")

    async def stream(self, path: str, *, params: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
        """See `ClusterClient.stream`."""
        session = await self._open()
        try:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=None)
            url = f"{self._configuration.host}{path}"
            async with session.get(url, params=params, headers=await self._headers(JSON), timeout=timeout) as response:
                if response.status >= 400:
                    raise _refusal(response, await response.read())
                async for chunk in response.content.iter_any():
                    yield chunk
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"GET {path}: {error or type(error).__name__}") from error

    async def _once(
        self, method: Method, path: str, params: Mapping[str, str] | None, data: bytes | None, content_type: str
    ) -> bytes:
        session = await self._open()
        url = f"{self._configuration.host}{path}"
        try:
            async with session.request(
                method, url, params=params, data=data, headers=await self._headers(content_type)
            ) as response:
                answer = await response.read()
                if response.status >= 400:
                    raise _refusal(response, answer)
                return answer
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"{method} {path}: {error or type(error).__name__}") from error

    async def _headers(self, content_type: str) -> dict[str, str]:
        headers = {"Content-Type": content_type, "Accept": JSON, "User-Agent": "podtune-operator"}
        for setting in (await self._configuration.auth_settings()).values():
            if setting["in"] == "header":
                headers[setting["key"]] = setting["value"]
        return headers

    async def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS, ssl=_ssl_context(self._configuration)),
                timeout=aiohttp.ClientTimeout(total=30, sock_connect=10),
                trust_env=False,
            )
        return self._session


async def list_pages(
    client: ClusterClient, path: str, params: Mapping[str, str] | None = None
) -> AsyncIterator[Manifest]:
    """Lists a collection, page by page; each answer is a list object with `items`."""
    token = ""
    while True:
        query = {"limit": str(PAGE), **(params or {}), **({"continue": token} if token else {})}
        page = await client.request("GET", path, params=query)
        yield page
        token = page.get("metadata", {}).get("continue", "")
        if not token:
            return


def _ssl_context(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if getattr(configuration, "disable_strict_ssl_verification", False):
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _refusal(response: aiohttp.ClientResponse, answer: bytes) -> ApiRefusal:
    reason, message = response.reason or "", answer.decode(errors="replace")[:1024]
    try:
        status = orjson.loads(answer)
    except orjson.JSONDecodeError:
        status = None  # a proxy's page, not the API server's Status
    if isinstance(status, dict):
        reason, message = str(status.get("reason") or reason), str(status.get("message") or message)
    retry_after = response.headers.get("Retry-After", "")
    return ApiRefusal(response.status, reason, message, float(retry_after) if retry_after.isdigit() else None)
