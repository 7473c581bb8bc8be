"""Makes the requests to the collector, and says what came of each. It follows no redirect and asks no proxy."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import aiohttp

from podtune import __version__
from podtune.tracing.collector import AUTHORITIES_FILE, HEADERS_FILE, Collector, UnusableHeaders, parse_headers
from podtune.tracing.otlp import encode_request, read_rejection

REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=10.0, sock_connect=5.0)
MAX_EXPORT_ANSWER = 4096
LONGEST_EXPORT_WAIT = 300
"""Seconds that a collector may have us wait by Retry-After."""
_TRY_AGAIN = (429, 502, 503, 504)
"""Of all answers, OTLP has clients try again after these alone."""


class ExportOutcome(StrEnum):
    """What came of spans."""

    EXPORTED = "exported"
    REFUSED = "refused"
    """The collector does not want them, and would not if they came again."""
    FAILED = "failed"
    """They are to be sent again."""


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What came of a request, and why.

    Attributes:
        rejected: How many of its spans the collector did not take, though it took the request.
        wait: Seconds that the collector asks us to wait.
        problem: What went wrong; empty where nothing did.
    """

    outcome: ExportOutcome
    rejected: int = 0
    wait: float = 0.0
    problem: str = ""


class SpanSender:
    """Posts spans to the collector."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._resource = {**collector.attributes, "service.name": "podtune", "service.version": __version__}
        self._session: aiohttp.ClientSession | None = None
        self._context: tuple[str, ssl.SSLContext] | None = None

    async def close(self) -> None:
        """Closes its connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(self, spans: Sequence[bytes]) -> ExportResult:
        """Makes one request with spans that were encoded."""
        try:
            headers, authority = await asyncio.to_thread(_read_secrets, self._collector)
            return await self._post(encode_request(spans, self._resource, __version__), headers, authority)
        except UnusableHeaders as error:
            return ExportResult(ExportOutcome.FAILED, problem=f"tracing.secret can't be used: {error}")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return ExportResult(ExportOutcome.FAILED, problem=str(error) or "no answer in time")

    async def _post(self, body: bytes, headers: dict[str, str], authority: str) -> ExportResult:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=REQUEST_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False
            )
        own = {"Content-Type": "application/x-protobuf", "User-Agent": f"podtune/{__version__}"}
        request = self._session.post(
            self._collector.url,
            data=body,
            headers=headers | own,
            allow_redirects=False,
            ssl=self._find_context(authority),
        )
        async with request as response:
            answer = await response.content.read(MAX_EXPORT_ANSWER)
            return _read_result(response.status, response.headers.get("Retry-After", ""), answer)

    def _find_context(self, authority: str) -> ssl.SSLContext | bool:
        """Which authorities are trusted: those of ca.crt alone, or the system's."""
        if not authority:
            return True
        if self._context is None or self._context[0] != authority:
            self._context = (authority, ssl.create_default_context(cadata=authority))
        return self._context[1]


def _read_secrets(collector: Collector) -> tuple[dict[str, str], str]:
    """Headers and authorities, read for each request: new ones are used at once."""
    texts = {}
    for name in (HEADERS_FILE, AUTHORITIES_FILE):
        file = collector.secrets / name if collector.secrets is not None else None
        texts[name] = file.read_text(encoding="utf-8").strip() if file is not None and file.is_file() else ""
    return parse_headers(texts[HEADERS_FILE]), texts[AUTHORITIES_FILE]


def _read_result(status: int, retry_after: str, answer: bytes) -> ExportResult:
    if 200 <= status < 300:
        rejected, why = read_rejection(answer)
        return ExportResult(ExportOutcome.EXPORTED, rejected=rejected, problem=why if rejected else "")
    problem = f"it answered {status}"
    if status in _TRY_AGAIN:
        wait = min(LONGEST_EXPORT_WAIT, int(retry_after)) if retry_after.isdecimal() else 0
        return ExportResult(ExportOutcome.FAILED, wait=wait, problem=problem)
    return ExportResult(ExportOutcome.REFUSED, problem=problem)
