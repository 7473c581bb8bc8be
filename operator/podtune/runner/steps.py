"""Work on all trials in small steps, between which the caller may do something else.

Such work is a generator that yields after each trial. Its owner decides how many steps it does at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

BuildSteps = Iterator[None]


def do_all(steps: BuildSteps) -> None:
    """Does all steps at once."""
    for _ in steps:
        pass
