"""What the decisions of a ledger mean: which of them end an attempt, bring other weights, or tell of a failure."""

from __future__ import annotations

from podtune.api.names import DecisionKind
from podtune.api.resources.trial import LedgerEntry

ENDS_ATTEMPT = frozenset(
    {
        DecisionKind.PAUSE,
        DecisionKind.STOP,
        DecisionKind.FAIL,
        DecisionKind.EXPLOIT,
        DecisionKind.RETRY,
        DecisionKind.RESTART,
        DecisionKind.EVALUATE,
        DecisionKind.RECREATE,
    }
)
"""The attempt that they are taken on is over; of several on one attempt, the first has ended it."""
JUMPS = frozenset({DecisionKind.EXPLOIT, DecisionKind.UNDO, DecisionKind.RESTORE})
"""The trial goes on at another iteration, with another one's weights, and counts its training time from there."""
FAILURE_CLASSES = frozenset({"user", "final", "unusable", "infrastructure", "disruption", "ignored"})
"""By these the operator counts failures: a decision on one has its count among the numbers."""
DISRUPTION = "disruption"


def find_failure_class(entry: LedgerEntry) -> str:
    """The class of the failure that a decision was taken on; empty where there was none, or its class is not told.

    A retry that somebody asked for has no numbers, and those of other decisions may be called like a class.
    """
    if entry.action not in (DecisionKind.RETRY, DecisionKind.FAIL):
        return ""
    return next((name for name in entry.inputs if name in FAILURE_CLASSES), "")


def is_failure(entry: LedgerEntry) -> bool:
    """Whether a trial has failed, or an attempt of it. One that was taken away has not."""
    return entry.action == DecisionKind.FAIL or find_failure_class(entry) not in ("", DISRUPTION)
