"""Delivers to one receiver: one request at a time, again with the same events until it is taken.

Each receiver has tasks of its own, so a slow one holds up nobody but itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from prometheus_client import Counter, Gauge

from podtune.cluster.record_store import MAX_RECORD_BYTES, KeptRecord, RecordStore
from podtune.kube.errors import ApiError
from podtune.runner.backoff import Backoff
from podtune.webhooks.events import Subject
from podtune.webhooks.kept_events import decode_kept_events, encode_kept_events
from podtune.webhooks.notices import Notices, WebhookReason
from podtune.webhooks.outbox import Batch, ReceiverOutbox
from podtune.webhooks.positions import Positions
from podtune.webhooks.receivers import Receiver
from podtune.webhooks.sender import DeliveryOutcome, SendResult, WebhookSender

log = structlog.get_logger(__name__)

WEBHOOK_EVENTS = Counter(
    "podtune_webhook_events",
    "Events by receiver and outcome: delivered; refused by the receiver; missed, since too many came while it was "
    "away, or operators ended meanwhile; given_up, in objects, after retrySeconds without success.",
    ["receiver", "outcome"],
)
WEBHOOK_REQUESTS = Counter(
    "podtune_webhook_requests", "Requests to a receiver, by what it answered; none: it did not.", ["receiver", "answer"]
)
WEBHOOK_PENDING = Gauge(
    "podtune_webhook_pending", "Experiments and Trials that a receiver has still to be told of.", ["receiver"]
)

BACKOFF = Backoff(0.5, 60.0)
GATHER_SECONDS = 0.5
"""How long news are gathered for a request with several events."""
SAVE_SECONDS = 10.0
"""How often positions are kept, at most: so much is told again after a crash."""
HELD_SAVE_SECONDS = 30.0
"""How often what is held is kept while it grows, at most: it may be some hundred kB."""

_READ = "read the present state from the API server"
_RESTART = "restart the operator if it is to hear again"


class Delivery:
    """Tells one receiver of what happens."""

    def __init__(
        self,
        receiver: Receiver,
        sender: WebhookSender,
        store: RecordStore,
        notices: Notices,
        monotonic: Callable[[], float],
    ) -> None:
        self._receiver = receiver
        self._sender = sender
        self._store = store
        self._notices = notices
        self._monotonic = monotonic
        self._outbox = ReceiverOutbox(receiver, Positions(None))
        self._news = asyncio.Event()
        self._limit = receiver.batch_size
        self._pending = WEBHOOK_PENDING.labels(receiver.name)
        self._kept = b""
        self._kept_at = monotonic()
        for outcome in (DeliveryOutcome.DELIVERED, DeliveryOutcome.REFUSED, "missed", "given_up"):
            WEBHOOK_EVENTS.labels(receiver.name, outcome)  # from 0 on, or the first one would not count as an increase
        self._counted_left_out = 0
        self._unlogged_missed = 0

    async def load(self) -> None:
        """Reads how far the receiver had heard.

        Raises:
            ApiError: The API server could not be asked.
        """
        record = await self._store.load()
        positions = Positions(record.texts if record is not None else None)
        self._kept = record.held if record is not None else b""
        self._outbox = ReceiverOutbox(self._receiver, positions, decode_kept_events(self._kept))

    async def begin(self) -> None:
        """Everything that there is has been observed: a new receiver hears of what comes from now on."""
        self._outbox.end_loading()
        if len(self._outbox):
            self._news.set()
        self._pending.set(len(self._outbox))
        self._count_left_out()
        await self._save()

    def observe(self, subject: Subject, *, told_elsewhere: bool) -> None:
        """An object was seen.

        Args:
            subject: The object.
            told_elsewhere: Whether it was moved here, and what it brings along happened before.
        """
        if told_elsewhere:
            self._outbox.skip(subject)
        elif self._outbox.observe(subject):
            self._news.set()
            self._pending.set(len(self._outbox))
            self._count_left_out()

    def forget(self, subject: Subject) -> None:
        """An object was deleted."""
        given_up = self._outbox.forget(subject)
        if given_up:
            self._count("given_up", given_up)
        self._pending.set(len(self._outbox))

    async def run(self) -> None:
        """Delivers until it is cancelled, or the receiver wants nothing more."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._deliver())
            group.create_task(self._save_often())
            group.create_task(self._notices.run())

    async def close(self) -> None:
        """Keeps the positions, and closes connections."""
        outbox = self._outbox
        if outbox.positions.has_changed or outbox.is_held_anew or outbox.is_held_told:
            await self._save(at_end=True)
        await self._sender.close()

    async def _save_often(self) -> None:
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            if self._unlogged_missed:
                log.warning("events missed by a webhook", receiver=self._receiver.name, events=self._unlogged_missed)
                self._unlogged_missed = 0
            if self._outbox.positions.has_changed or self._is_held_due():
                await self._save()

    def _is_held_due(self) -> bool:
        """Whether what is held is to be kept: at once where some of it was told, so that positions go with it."""
        outbox, since = self._outbox, self._monotonic() - self._kept_at
        return outbox.is_held_told or (outbox.is_held_anew and since >= HELD_SAVE_SECONDS)

    async def _save(self, *, at_end: bool = False) -> None:
        """Keeps how far the receiver has heard, and what is held for it."""
        outbox, is_kept = self._outbox, False
        positions = outbox.positions.encode()
        held = outbox.list_held() if at_end or self._is_held_due() else None
        try:
            if held is not None:
                room = MAX_RECORD_BYTES - sum(len(uid) + len(text) for uid, text in positions.items())
                self._kept = await asyncio.to_thread(encode_kept_events, held, room)
                self._kept_at = self._monotonic()
            await self._store.save(KeptRecord(positions, self._kept))
            is_kept = True
        except ApiError as error:
            log.warning("positions of a webhook not kept", receiver=self._receiver.name, message=str(error))
        finally:
            if not is_kept:  # it may have been cancelled, too
                outbox.positions.mark_unkept()
                outbox.mark_unkept()

    async def _deliver(self) -> None:
        while True:
            await self._news.wait()
            if self._receiver.batch_size > 1:
                await asyncio.sleep(GATHER_SECONDS)
            try:
                if not await self._deliver_due():
                    return
            except Exception:
                log.exception("webhook not delivered", receiver=self._receiver.name)
                await asyncio.sleep(BACKOFF.maximum)

    async def _deliver_due(self) -> bool:
        """Delivers all that is due; whether the receiver wants more."""
        while len(self._outbox):
            batch = self._outbox.take(self._limit)
            if batch.events:
                result = await self._send(batch)
                if result.outcome is DeliveryOutcome.RETIRED:
                    log.warning("webhook ended: the receiver is gone for good", receiver=self._receiver.name)
                    self._notices.add(WebhookReason.ENDED, f"it answered 410, so it is sent nothing more; {_RESTART}")
                    return False
                self._settle(batch, result)
            else:
                self._outbox.confirm(batch)
            self._pending.set(len(self._outbox))
            await asyncio.sleep(0)
        self._news.clear()
        return True

    async def _send(self, batch: Batch) -> SendResult:
        """Sends a batch, again if it fails, until it has failed for too long."""
        failures, since = 0, self._monotonic()
        while True:
            result = await self._sender.send(batch.events)
            WEBHOOK_REQUESTS.labels(self._receiver.name, result.answer).inc()
            if result.outcome is not DeliveryOutcome.FAILED:
                return result
            failures += 1
            left = since + self._receiver.retry_seconds - self._monotonic()
            if left <= 0:
                return result
            if failures == 1:
                log.warning("webhook fails", receiver=self._receiver.name, message=result.problem)
            wait = max(BACKOFF.compute_delay(failures, self._receiver.name), result.wait)
            await asyncio.sleep(min(wait, left))

    def _settle(self, batch: Batch, result: SendResult) -> None:
        """Draws the consequences of what came of a batch."""
        count = len(batch.events)
        if result.outcome is DeliveryOutcome.REFUSED and count > 1:
            self._limit = count // 2  # to find out which of them is refused
            return
        if result.outcome is DeliveryOutcome.FAILED:
            given_up = self._outbox.give_up()
            self._count("given_up", given_up)
            log.error("webhook given up", receiver=self._receiver.name, objects=given_up, message=result.problem)
            self._notices.add(WebhookReason.GIVEN_UP, f"it was away for longer than retrySeconds; {_READ}")
            return
        self._outbox.confirm(batch)
        self._limit = min(self._receiver.batch_size, 2 * self._limit)
        self._count(result.outcome, count)
        if batch.missed:
            self._miss(batch.missed)
        if result.outcome is DeliveryOutcome.REFUSED:
            event = batch.events[0]
            log.warning("event refused", receiver=self._receiver.name, event_id=event["id"], message=result.problem)

    def _count_left_out(self) -> None:
        """Counts events that had to go while the receiver is away."""
        number = self._outbox.left_out - self._counted_left_out
        if number:
            self._counted_left_out += number
            self._miss(number)

    def _miss(self, number: int) -> None:
        """The receiver will never hear of events."""
        self._count("missed", number)
        self._unlogged_missed += number
        self._notices.add(WebhookReason.MISSED, f"too much happened while it was away; {_READ}")

    def _count(self, outcome: str, number: int) -> None:
        WEBHOOK_EVENTS.labels(self._receiver.name, outcome).inc(number)
