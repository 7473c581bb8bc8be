"""The API server as the harness itself uses it, past all faults."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
import ssl
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import yaml

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
WAITS = (0.2, 1.0, 5.0)
"""Seconds until a request that was not answered is made again."""

DONE_BEFORE = {("POST", HTTPStatus.CONFLICT), ("DELETE", HTTPStatus.NOT_FOUND)}
"""What a request is answered that was carried out when it was made before."""


class ApiFailure(Exception):
    """The API server refused.

    Attributes:
        status: The HTTP status.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """Requests as the cluster's administrator."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        user = config["users"][0]["user"]
        self.server: str = cluster["server"]
        self.tls = _tls(cluster, user)
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Begins."""
        connector = aiohttp.TCPConnector(limit=64, ssl=self.tls)
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=30))

    async def close(self) -> None:
        """Closes all connections."""
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Object:
        """Makes a request; once more, a few times, where the server does not answer: this is past all faults.

        Raises:
            ApiFailure: It was refused.
        """
        is_again = False
        for wait in WAITS:
            try:
                return await self._request_once(method, path, body, content_type, params)
            except (aiohttp.ClientConnectionError, TimeoutError):
                is_again = True
            except ApiFailure as failure:
                if is_again and (method, failure.status) in DONE_BEFORE:
                    return {}  # it had been done, and only the answer was lost
                raise
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))
        return await self._request_once(method, path, body, content_type, params)

    async def _request_once(
        self, method: str, path: str, body: Object | None, content_type: str, params: Mapping[str, str] | None
    ) -> Object:
        assert self._session is not None  # open
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        async with self._session.request(
            method, self.server + path, data=data, headers=headers, params=params
        ) as response:
            text = await response.text()
            if response.status >= 400:
                raise ApiFailure(response.status, text[:500])
            found: Object = json.loads(text)
            return found

    async def watch(self, path: str) -> AsyncIterator[Object]:
        """All that is there, and all that happens to it, for ever; after a gap, all that is there comes once more."""
        version = "0"
        while True:
            try:
                async with contextlib.aclosing(self._watch_from(path, version)) as events:
                    async for event in events:
                        version = "0" if event["type"] == "ERROR" else event["object"]["metadata"]["resourceVersion"]
                        if event["type"] not in ("ERROR", "BOOKMARK"):
                            yield event
            except (ApiFailure, aiohttp.ClientError, OSError, TimeoutError):
                version = "0"
            await asyncio.sleep(0.1)

    async def _watch_from(self, path: str, version: str) -> AsyncGenerator[Object]:
        assert self._session is not None  # open
        params = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "3600"}
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(self.server + path, params=params, timeout=timeout) as response:
            if response.status != HTTPStatus.OK:
                raise ApiFailure(response.status, await response.text())
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)


def _tls(cluster: Mapping[str, str], user: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = Path(directory) / "crt", Path(directory) / "key"
        certificate.write_bytes(base64.b64decode(user["client-certificate-data"]))
        key.write_bytes(base64.b64decode(user["client-key-data"]))
        context.load_cert_chain(certificate, key)
    return context
