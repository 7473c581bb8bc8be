"""Makes the requests to one receiver, and says what came of each."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from hashlib import blake2s
from pathlib import Path

import orjson

from podtune import __version__
from podtune.cluster.http_poster import HttpPoster, PostFailed, read_secret_files
from podtune.webhooks.events import CloudEvent
from podtune.webhooks.receivers import Receiver

SINGLE_TYPE = "application/cloudevents+json; charset=utf-8"
BATCH_TYPE = "application/cloudevents-batch+json; charset=utf-8"
LONGEST_RETRY_AFTER = 3600.0
"""Seconds that a receiver may have us wait by Retry-After."""
_REFUSALS = (400, 413, 422)
"""A receiver that answers so has understood the request, and will answer the same again."""
_GONE = 410
SECRET_PREFIX = "whsec_"
"""Signing keys begin so, and signatures are made, as Standard Webhooks has it."""


class UnusableKey(ValueError):
    """A signing key can't be read; the text says what to do."""


class DeliveryOutcome(StrEnum):
    """What came of a request."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    RETIRED = "retired"
    """The receiver wants to hear nothing more."""
    FAILED = "failed"
    """It is to be tried again."""


@dataclass(frozen=True, slots=True)
class SendResult:
    """What came of a request, and why.

    Attributes:
        answer: The status code, or none.
        wait: Seconds that the receiver asks us to wait.
        problem: What went wrong; empty where nothing did.
    """

    outcome: DeliveryOutcome
    answer: str
    wait: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Secrets:
    """What a receiver's Secret holds; it is read for each request, so a new one is used at once."""

    token: str = ""
    key: bytes = b""
    authority: str = ""


class WebhookSender:
    """Posts events to a receiver."""

    def __init__(self, receiver: Receiver, now: Callable[[], float]) -> None:
        self._receiver = receiver
        self._now = now
        self._poster = HttpPoster(receiver.url)

    async def close(self) -> None:
        """Closes its connections."""
        await self._poster.close()

    async def send(self, events: Sequence[CloudEvent]) -> SendResult:
        """Makes one request with all of these events."""
        try:
            secrets = await asyncio.to_thread(_read_secrets, self._receiver.secrets)
            return await self._post(events, secrets)
        except UnusableKey as error:
            return SendResult(DeliveryOutcome.FAILED, "none", problem=f"its Secret can't be used: {error}")
        except (PostFailed, OSError, ValueError) as error:
            return SendResult(DeliveryOutcome.FAILED, "none", problem=str(error) or "no answer in time")

    async def _post(self, events: Sequence[CloudEvent], secrets: _Secrets) -> SendResult:
        body = orjson.dumps(events[0] if self._receiver.batch_size == 1 else list(events))
        headers = self._build_headers(events, body, secrets)
        answer = await self._poster.post(body, headers, secrets.authority)
        return _read_answer(answer.status, answer.retry_after, self._now())

    def _build_headers(self, events: Sequence[CloudEvent], body: bytes, secrets: _Secrets) -> dict[str, str]:
        message_id, timestamp = make_message_id(events), int(self._now())
        headers = {
            "Content-Type": SINGLE_TYPE if self._receiver.batch_size == 1 else BATCH_TYPE,
            "User-Agent": f"podtune/{__version__}",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
        }
        if secrets.key:
            headers["webhook-signature"] = sign(secrets.key, message_id, timestamp, body)
        if secrets.token:
            headers["Authorization"] = f"Bearer {secrets.token}"
        return headers


def make_message_id(events: Sequence[CloudEvent]) -> str:
    """What names a request: the id of its event; of several, a digest of all their ids."""
    ids = [str(event["id"]) for event in events]
    return ids[0] if len(ids) == 1 else f"batch-{blake2s(' '.join(ids).encode(), digest_size=16).hexdigest()}"


def _read_secrets(directory: Path | None) -> _Secrets:
    found = read_secret_files(directory, ("token", "signingKey", "ca.crt"))
    key = decode_key(found["signingKey"]) if found["signingKey"] else b""
    return _Secrets(found["token"], key, found["ca.crt"])


def _read_answer(status: int, retry_after: str, now: float) -> SendResult:
    answer = str(status)
    if 200 <= status < 300:
        return SendResult(DeliveryOutcome.DELIVERED, answer)
    problem = f"it answered {status}"
    if status == _GONE:
        return SendResult(DeliveryOutcome.RETIRED, answer, problem=problem)
    if status in _REFUSALS:
        return SendResult(DeliveryOutcome.REFUSED, answer, problem=problem)
    return SendResult(DeliveryOutcome.FAILED, answer, parse_retry_after(retry_after, now), problem)


def parse_retry_after(text: str, now: float) -> float:
    """Seconds to wait, by a number or a date; 0 where it says nothing that can be read."""
    if text.isdecimal():
        return min(LONGEST_RETRY_AFTER, float(text))
    try:
        moment: datetime = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(LONGEST_RETRY_AFTER, max(0.0, moment.timestamp() - now))


def decode_key(text: str) -> bytes:
    """Reads a signing key, `whsec_` and base64.

    Raises:
        UnusableKey: It is none.
    """
    try:
        key = base64.b64decode(text.strip().removeprefix(SECRET_PREFIX), validate=True)
    except ValueError as error:
        raise UnusableKey(
            f"signingKey is not base64 ({error}); write whsec_ and, in base64, 24 to 64 random bytes"
        ) from error
    if not key:
        raise UnusableKey("signingKey is empty; write whsec_ and, in base64, 24 to 64 random bytes")
    return key


def sign(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """The value of the header `webhook-signature`."""
    signed = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(signed.digest()).decode()}"
