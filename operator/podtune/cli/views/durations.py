"""Lengths of time on the command line."""

from __future__ import annotations

import typer

from podtune.api.base import seconds


def parse_duration(text: str, option: str) -> float:
    """Reads a length of time such as 90s, 10m or 1h30m that was given for an option, in seconds."""
    try:
        return seconds(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from error


def show_duration(length: float) -> str:
    """Writes a length of time given in seconds, with at most two units: 45s, 12m30s, 5h03m, 3d."""
    whole = round(length)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return _pair(whole, 60, "m", "s")
    minutes = round(length / 60)
    if minutes < 48 * 60:
        return _pair(minutes, 60, "h", "m")
    return _pair(round(length / 3600), 24, "d", "h")


def _pair(count: int, size: int, large: str, small: str) -> str:
    whole, rest = divmod(count, size)
    return f"{whole}{large}" + (f"{rest:02}{small}" if rest else "")
