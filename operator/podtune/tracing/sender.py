"""Makes the requests to the collector, and says what came of each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from podtune import __version__
from podtune.cluster.http_poster import HttpPoster, PostAnswer, PostFailed, read_secret_files
from podtune.tracing.collector import AUTHORITIES_FILE, HEADERS_FILE, Collector, UnusableHeaders, parse_headers
from podtune.tracing.otlp import encode_request, read_rejection

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
        self._poster = HttpPoster(collector.url)

    async def close(self) -> None:
        """Closes its connections."""
        await self._poster.close()

    async def send(self, spans: Sequence[bytes]) -> ExportResult:
        """Makes one request with spans that were encoded."""
        try:
            headers, authority = await asyncio.to_thread(_read_secrets, self._collector)
            own = {"Content-Type": "application/x-protobuf", "User-Agent": f"podtune/{__version__}"}
            body = encode_request(spans, self._resource, __version__)
            answer = await self._poster.post(body, headers | own, authority)
            return _read_result(answer, is_quotable=not headers)
        except UnusableHeaders as error:
            return ExportResult(ExportOutcome.FAILED, problem=f"tracing.secret can't be used: {error}")
        except (PostFailed, OSError, ValueError) as error:
            return ExportResult(ExportOutcome.FAILED, problem=str(error) or "no answer in time")


def _read_secrets(collector: Collector) -> tuple[dict[str, str], str]:
    """Headers and authorities, read for each request: new ones are used at once."""
    texts = read_secret_files(collector.secrets, (HEADERS_FILE, AUTHORITIES_FILE))
    return parse_headers(texts[HEADERS_FILE]), texts[AUTHORITIES_FILE]


def _read_result(answer: PostAnswer, *, is_quotable: bool) -> ExportResult:
    """What an answer says; its words only where they can't repeat a header of the Secret."""
    if 200 <= answer.status < 300:
        rejected, why = read_rejection(answer.content)
        told = why if is_quotable else "its own log says why; its words are left out, as they may repeat a header"
        return ExportResult(ExportOutcome.EXPORTED, rejected=rejected, problem=told if rejected else "")
    problem = f"it answered {answer.status}"
    if answer.status in _TRY_AGAIN:
        asked = answer.retry_after
        wait = min(LONGEST_EXPORT_WAIT, int(asked)) if asked.isdecimal() else 0
        return ExportResult(ExportOutcome.FAILED, wait=wait, problem=problem)
    return ExportResult(ExportOutcome.REFUSED, problem=problem)
