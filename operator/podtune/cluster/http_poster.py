"""Posts to addresses that the installation names: those of receivers of webhooks, and of a collector of traces."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import aiohttp

POST_TIMEOUT = aiohttp.ClientTimeout(total=10.0, sock_connect=5.0)
MAX_POST_ANSWER = 4096
"""Bytes of an answer that are read, so that its connection can be used again."""


class PostFailed(Exception):
    """A request came to nothing; the text says why, and repeats nothing that was sent, or that an answer repeats."""


@dataclass(frozen=True, slots=True)
class PostAnswer:
    """What an address has answered.

    Attributes:
        status: Its code.
        retry_after: The header of that name; empty where there is none.
        content: The first bytes.
    """

    status: int
    retry_after: str
    content: bytes


class HttpPoster:
    """Makes requests to one address. It follows no redirect, asks no proxy, and keeps no cookies."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: aiohttp.ClientSession | None = None
        self._context: tuple[str, ssl.SSLContext] | None = None

    async def close(self) -> None:
        """Closes its connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, body: bytes, headers: Mapping[str, str], authority: str) -> PostAnswer:
        """Makes one request.

        Args:
            body: What is sent.
            headers: All that are not made of the rest.
            authority: Certificates of the authorities that are trusted; empty for the system's.

        Raises:
            PostFailed: There was no answer, or none that can be read, or a header can't be sent.
            OSError: The address could not be reached.
            TimeoutError: There was no answer in time.
            ValueError: The authorities can't be read.
        """
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=POST_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False
            )
        context = self._find_context(authority)
        request = self._session.post(self._url, data=body, headers=headers, allow_redirects=False, ssl=context)
        try:
            async with request as response:
                content = await response.content.read(MAX_POST_ANSWER)
                return PostAnswer(response.status, response.headers.get("Retry-After", ""), content)
        except OSError:
            raise  # of the connection alone
        except (aiohttp.ClientError, ValueError) as error:
            # No cause: aiohttp's own words quote the answer, and the answer may quote our headers.
            raise PostFailed(_describe_failure(error)) from None

    def _find_context(self, authority: str) -> ssl.SSLContext | bool:
        if not authority:
            return True
        if self._context is None or self._context[0] != authority:
            self._context = (authority, ssl.create_default_context(cadata=authority))
        return self._context[1]


def _describe_failure(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectionError():
            return "it closed the connection before its answer was complete"
        case aiohttp.ClientError():
            return "its answer is not HTTP; check that the address and the port are its own"
        case _:
            return "its Secret has a control character, which no header may have; write each value on one line"


def split_address(url: str, example: str) -> SplitResult:
    """The parts of an address that can be posted to.

    Args:
        url: The address.
        example: One that is as it should be, for the message.

    Raises:
        ValueError: It is none.
    """
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        parts, has_port = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not parts.hostname or not has_port:
        shown = repr(url) if "@" not in url else "this"  # there may be a password before the @
        raise ValueError(f"{shown} is not an address; write it like {example}")
    return parts


def read_secret_files(directory: Path | None, names: Iterable[str]) -> dict[str, str]:
    """Reads files of a mounted Secret as text; one that is missing, or a Secret that is none, is empty."""
    files = {name: directory / name for name in names} if directory is not None else dict.fromkeys(names)
    return {
        name: file.read_text(encoding="utf-8").strip() if file is not None and file.is_file() else ""
        for name, file in files.items()
    }
