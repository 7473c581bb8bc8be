"""Suggests what a user may have meant by an unknown name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Such as `did you mean imagePullPolicy?`; empty where nothing that is known is close."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
    return f"did you mean {by_lower[close[0]]}?" if close else ""
