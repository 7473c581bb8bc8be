"""Numbers and times in a few characters."""

from __future__ import annotations

from datetime import UTC, datetime

from podtune.api.resources.experiment import BestTrial


def format_number(text: str) -> str:
    """A number with the five digits that matter in a table; anything else as it is."""
    try:
        number = float(text)
    except ValueError:
        return text
    return text if number.is_integer() else f"{number:.5g}"


def format_age(since: str, now: datetime) -> str:
    """How long ago something was, as kubectl writes it: 45s, 12m, 5h, 3d."""
    if not since:
        return ""
    elapsed = max(0, int((now - datetime.fromisoformat(since).astimezone(UTC)).total_seconds()))
    if elapsed < 120:
        return f"{elapsed}s"
    for length, unit, limit in ((60, "m", 120), (3600, "h", 48)):
        if elapsed < length * limit:
            return f"{elapsed // length}{unit}"
    return f"{elapsed // 86400}d"


def format_duration(length: float) -> str:
    """A length of time given in seconds, with at most two units: 45s, 12m30s, 5h03m, 3d."""
    whole = round(length)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return _format_pair(whole, 60, "m", "s")
    minutes = round(length / 60)
    if minutes < 48 * 60:
        return _format_pair(minutes, 60, "h", "m")
    return _format_pair(round(length / 3600), 24, "d", "h")


def format_best_value(best: BestTrial) -> str:
    """The best value, and how much it differs between repeats."""
    return f"{best.value} ± {best.spread}" if best.repeats else best.value


def format_best_holder(best: BestTrial) -> str:
    """Whose value it is."""
    return f"{best.trial} and {best.repeats - 1} more repeats" if best.repeats else best.trial


def _format_pair(count: int, size: int, large: str, small: str) -> str:
    whole, rest = divmod(count, size)
    return f"{whole}{large}" + (f"{rest:02}{small}" if rest else "")
