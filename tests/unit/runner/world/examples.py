"""How many examples quick tests draw: whole experiments, cut runs and texts take most of the time of unit tests."""

from __future__ import annotations

import os

ALL = "PODTUNE_ALL_EXAMPLES"
"""Set: run all; `make test-long` does."""


def are_all_run() -> bool:
    """Whether all are asked for."""
    return bool(os.environ.get(ALL))


def draw(count: int) -> int:
    """How many of so many are run: a quarter, but at least ten, unless all are asked for."""
    return count if are_all_run() else max(10, count // 4)
