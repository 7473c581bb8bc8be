"""What an experiment waits for, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from podtune.api.names import ExperimentState, TrialReason, TrialState
from podtune.cli.views.troubles import AWAITS_CORRECTION
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow

_WORDS = {
    TrialReason.TRAINING: "{trials} to train",
    TrialReason.EVALUATING: "{trials} to be evaluated",
    TrialReason.DRAINING: "{trials} to store a checkpoint",
    TrialReason.STARTING: "{trials} to start",
    TrialReason.RESTORING: "{trials} to restore a checkpoint",
    TrialReason.UNSCHEDULABLE: "a node for {trials}",
    TrialReason.BACKING_OFF: "another attempt of {trials}",
    TrialReason.DISRUPTED: "another attempt of {trials}",
    TrialReason.WAITING_FOR_CHECKPOINT: "another trial’s checkpoint for {trials}",
    TrialReason.QUEUED: "room for {trials} in the queue",
    TrialReason.PAUSED_BY_SCHEDULER: "the scheduler’s word on {trials}",
    TrialReason.PAUSED_BY_USER: "somebody to resume {trials}",
}
"""By why a trial has not ended, the first to be told first."""
_CORRECTION = "a correction of {trials}"
_UNKNOWN = "{trials} to go on"
_TOLD = frozenset({TrialReason.UNSCHEDULABLE})
"""Their messages say what is missing."""


def describe_waiting(experiment: ExperimentRows) -> str:
    """What must happen before it goes on; empty where it has ended, or where its own message says it."""
    if experiment.view.state != ExperimentState.RUNNING:
        return ""
    groups: dict[str, list[TrialRow]] = {words: [] for words in (_CORRECTION, *_WORDS.values(), _UNKNOWN)}
    for row in experiment.unfinished:
        groups[_choose_words(row)].append(row)
    parts = [_fill(words, rows) for words, rows in groups.items() if rows]
    if not parts:
        return "It waits for the search to propose the next trials."
    return f"It waits for {_join(parts)}."


def _choose_words(row: TrialRow) -> str:
    reason = row.view.status.reason
    if reason in AWAITS_CORRECTION - {TrialReason.BACKING_OFF, TrialReason.PULLING_IMAGE}:
        return _CORRECTION
    if row.view.state == TrialState.PENDING and not reason:
        return _WORDS[TrialReason.QUEUED]
    known = next((words for known, words in _WORDS.items() if known == reason), None)
    return known or (_WORDS[TrialReason.STARTING] if reason == TrialReason.PULLING_IMAGE else _UNKNOWN)


def _fill(words: str, rows: Sequence[TrialRow]) -> str:
    name = rows[0].name if len(rows) == 1 else f"{len(rows):,} trials"
    told = rows[0].view.status.message if rows[0].view.status.reason in _TOLD else ""
    return words.format(trials=name) + (f" ({told})" if told else "")


def _join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
