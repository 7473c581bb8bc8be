"""Hands spans to the collector: some at a time, again until they are taken, and never in the way of anything else.

Spans wait in memory, as they are sent, in a queue that has an end: of more, the oldest are dropped, and counted. What
the next operator must know is kept in a ConfigMap: everything that ended before a certain time was handed over.
It sends what has ended since then again, which has the same ids.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

import structlog
from prometheus_client import Counter, Gauge

from podtune.cluster.record_store import KeptRecord, RecordStore
from podtune.kube.errors import ApiError
from podtune.runner.backoff import Backoff
from podtune.runner.timestamps import format_rfc3339
from podtune.tracing.otlp import encode_span
from podtune.tracing.sender import ExportOutcome, ExportResult, SpanSender
from podtune.tracing.spans import TraceSpan

log = structlog.get_logger(__name__)

TRACE_SPANS = Counter(
    "podtune_trace_spans",
    "Spans of traces by outcome: exported; refused by the collector; dropped, since too many came while it was away.",
    ["outcome"],
)
TRACE_SPANS_PENDING = Gauge("podtune_trace_spans_pending", "Spans that the collector has still to take.")

EXPORT_BACKOFF = Backoff(1.0, 60.0)
MAX_WAITING_SPANS = 10_000
"""Spans that wait at most: some 10 MB."""
MAX_SENT = 200
"""Spans of one request, at most."""
COLLECT_SECONDS = 1.0
"""How long spans are gathered for a request."""
MARK_SECONDS = 30.0
"""How often it is kept how far spans were handed over, at most."""
MARGIN_SECONDS = 120.0
"""How long after its end a span is known, at most: a status is written, and seen, later than it was decided."""
_UNTIL = "exportedUntil"


class SpanExporter:
    """The spans on their way to the collector."""

    def __init__(self, sender: SpanSender, store: RecordStore, now: Callable[[], float]) -> None:
        """Makes an exporter.

        Args:
            sender: Makes the requests.
            store: Keeps how far spans were handed over.
            now: The present time, in seconds since the epoch.
        """
        self._sender = sender
        self._store = store
        self._now = now
        self._waiting: deque[tuple[float, bytes]] = deque()
        """Each with its end."""
        self._sent: list[tuple[float, bytes]] = []
        """Those that are on their way."""
        self._news = asyncio.Event()
        self._is_marked = True
        self._unlogged_drops = 0
        self.since = format_rfc3339(now())
        """What ended before is not to be exported any more (RFC 3339)."""
        for outcome in (ExportOutcome.EXPORTED, ExportOutcome.REFUSED, "dropped"):
            TRACE_SPANS.labels(outcome)  # from 0 on, or the first one would not count as an increase

    async def load(self) -> None:
        """Reads how far spans were handed over; where nothing ever was, those from now on are to be.

        Raises:
            ApiError: The API server could not be asked.
        """
        record = await self._store.load()
        until = record.texts.get(_UNTIL, "") if record is not None else ""
        self.since = until or format_rfc3339(self._now())
        self._is_marked = bool(until)
        if not until:
            await self._mark()

    def add(self, spans: Iterable[TraceSpan]) -> None:
        """Takes in spans that have ended."""
        for span in spans:
            self._waiting.append((span.end, encode_span(span)))
            self._news.set()
        surplus = len(self._waiting) - MAX_WAITING_SPANS
        for _ in range(surplus):
            self._waiting.popleft()
        if surplus > 0:
            TRACE_SPANS.labels("dropped").inc(surplus)
            self._unlogged_drops += surplus
        self._show()

    async def run(self) -> None:
        """Exports until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._export())
            group.create_task(self._mark_often())

    async def close(self) -> None:
        """Makes one attempt to hand over what waits, and keeps how far it came."""
        try:
            while self._take() and self._settle(await self._sender.send([span for _, span in self._sent])):
                pass
            if not self._is_marked:
                await self._mark()
        finally:
            await self._sender.close()

    async def _export(self) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(COLLECT_SECONDS)
            self._news.clear()
            failures = 0
            while self._take():
                result = await self._sender.send([span for _, span in self._sent])
                if self._settle(result):
                    failures = 0
                    continue
                failures += 1
                if failures == 1:
                    log.warning("traces not exported", message=result.problem)
                await asyncio.sleep(max(EXPORT_BACKOFF.compute_delay(failures, "traces"), result.wait))

    def _take(self) -> bool:
        """Has some spans be those that are sent next, unless some are on their way; whether there are any."""
        while self._waiting and len(self._sent) < MAX_SENT:
            self._sent.append(self._waiting.popleft())
        return bool(self._sent)

    def _settle(self, result: ExportResult) -> bool:
        """Draws the consequences of a request; whether its spans are done with."""
        if result.outcome is ExportOutcome.FAILED:
            return False
        refused = len(self._sent) if result.outcome is ExportOutcome.REFUSED else min(result.rejected, len(self._sent))
        TRACE_SPANS.labels(ExportOutcome.EXPORTED).inc(len(self._sent) - refused)
        if refused:
            TRACE_SPANS.labels(ExportOutcome.REFUSED).inc(refused)
            log.warning("spans refused by the collector", spans=refused, message=result.problem)
        self._sent = []
        self._is_marked = False
        self._show()
        return True

    def _show(self) -> None:
        TRACE_SPANS_PENDING.set(len(self._waiting) + len(self._sent))

    async def _mark_often(self) -> None:
        while True:
            if not self._is_marked:
                await self._mark()
            if self._unlogged_drops:
                log.warning("spans dropped: the collector was away for too long", spans=self._unlogged_drops)
                self._unlogged_drops = 0
            await asyncio.sleep(MARK_SECONDS)

    async def _mark(self) -> None:
        """Keeps how far spans were handed over."""
        ends = [end for end, _ in (*self._sent, *self._waiting)]
        until = max(self.since, format_rfc3339(min([self._now() - MARGIN_SECONDS, *ends])))
        try:
            await self._store.save(KeptRecord({_UNTIL: until}))
            self._is_marked = True
        except ApiError as error:
            log.warning("progress of traces not kept", message=str(error))
