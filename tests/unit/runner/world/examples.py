"""How many whole experiments Hypothesis draws: they take most of the time that unit tests do."""

from __future__ import annotations

import os

ALL = "PODTUNE_ALL_EXAMPLES"
"""Set: draw all; `make test-long` does."""


def draw(count: int) -> int:
    """How many examples of so many are drawn: a third, unless all are asked for."""
    return count if os.environ.get(ALL) else max(10, count // 3)
