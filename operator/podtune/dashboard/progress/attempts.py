"""A trial's attempts, each with how it ended, as far as its status still has that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podtune.dashboard.decisions import ENDS_ATTEMPT
from podtune.dashboard.trial_rows import ShownState, TrialRow

MOST_ATTEMPTS = 50


@dataclass(frozen=True, slots=True)
class AttemptLine:
    """One attempt.

    Attributes:
        outcome: How it ended in a word, such as RETRY; empty while it goes on, and where that is not on record.
        message: The same in a sentence; empty where it is not on record.
        step: The iteration at its end; None where that is not on record.
        time: When it ended; empty where that is not on record.
        is_current: Whether it goes on.
    """

    number: int
    outcome: str = ""
    message: str = ""
    step: int | None = None
    time: str = ""
    exit_code: int | None = None
    is_current: bool = False


def list_attempts(row: TrialRow) -> Sequence[AttemptLine]:
    """The latest attempts, the newest first."""
    status = row.view.status
    ends: dict[int, AttemptLine] = {}
    for entry in status.ledger:
        if entry.action in ENDS_ATTEMPT and entry.attempt not in ends:
            ends[entry.attempt] = AttemptLine(entry.attempt, entry.action, entry.message, entry.step, entry.time)
    last = status.last_attempt
    if last is not None:
        known = ends.get(last.attempt)
        message = last.message or (known.message if known is not None else "")
        step, time = (known.step, known.time) if known is not None else (None, "")
        ends[last.attempt] = AttemptLine(last.attempt, last.reason, message, step, time, last.exit_code)
    goes_on = row.progress is ShownState.RUNNING or (row.progress is ShownState.PENDING and row.view.pod)
    if goes_on and status.attempt not in ends:
        ends[status.attempt] = AttemptLine(
            status.attempt, status.reason, status.message, status.iteration, is_current=True
        )
    first = max(1, status.attempt - MOST_ATTEMPTS + 1)
    return [ends.get(number, AttemptLine(number)) for number in range(status.attempt, first - 1, -1)]
