"""The metrics of webhooks; they are served only where there is a receiver."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

WEBHOOK_EVENTS = Counter(
    "podtune_webhook_events",
    "Events by receiver and outcome: delivered; refused by the receiver; missed, since too many came while it was "
    "away; given_up, in objects, after retrySeconds without success.",
    ["receiver", "outcome"],
)
WEBHOOK_REQUESTS = Counter(
    "podtune_webhook_requests", "Requests to a receiver, by what it answered; none: it did not.", ["receiver", "answer"]
)
WEBHOOK_PENDING = Gauge(
    "podtune_webhook_pending", "Experiments and Trials that a receiver has still to be told of.", ["receiver"]
)
