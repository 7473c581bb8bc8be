"""Timestamps as the Kubernetes API writes them; internally they are seconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime


def format_rfc3339(moment: float) -> str:
    """Writes a point in time, such as 2026-01-02T03:04:05Z."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_rfc3339_precise(moment: float) -> str:
    """The same to the millisecond."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_rfc3339(text: str | None) -> float | None:
    """Reads one back; None stays None.

    Raises:
        ValueError: The text is no point in time.
    """
    if not text:
        return None
    return datetime.fromisoformat(text).timestamp()
