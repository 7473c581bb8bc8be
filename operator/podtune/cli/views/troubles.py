"""What somebody should look at: conditions that do not hold, and trials that wait for a correction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podtune.api.conditions import Condition, find_bad_conditions
from podtune.api.names import TrialReason
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import TrialStatus
from podtune.cli.client.resources import ExperimentView, TrialView

AWAITS_CORRECTION = frozenset(
    {
        TrialReason.INVALID_OVERRIDES,
        TrialReason.INVALID_RESOURCES,
        TrialReason.CANNOT_START,
        TrialReason.PULLING_IMAGE,
        TrialReason.CHECKPOINT_UNAVAILABLE,
        TrialReason.NODE_AVOIDANCE_EXPIRED,
        TrialReason.BACKING_OFF,
        TrialReason.POD_REJECTED,
    }
)
"""Why a trial that has not ended does not run, where that is no mere wait for its turn."""


def find_experiment_troubles(view: ExperimentView) -> list[str]:
    """What is wrong with the experiment as a whole, but for what its message tells."""
    return _find_untold(view.status)


def explain_trial(trial: TrialView) -> str:
    """The trial's message, and what is wrong besides."""
    return "; ".join(part for part in (trial.status.message, *_find_untold(trial.status)) if part)


def find_trial_trouble(trial: TrialView) -> str:
    """What is wrong with a trial, in a sentence; empty where nothing is, or where its end has told it."""
    status = trial.status
    waits = f"{status.reason}: {status.message}" if status.reason in AWAITS_CORRECTION else ""
    return "; ".join(part for part in (waits, *_find_untold(trial.status)) if part)


def find_troubled_trials(trials: Iterable[TrialView]) -> Sequence[tuple[TrialView, str]]:
    """The trials that something is wrong with, by index, and what."""
    found = ((trial, find_trial_trouble(trial)) for trial in trials)
    return sorted(((trial, words) for trial, words in found if words), key=lambda pair: pair[0].index)


def _find_untold(status: ExperimentStatus | TrialStatus) -> list[str]:
    """The bad conditions that the message says nothing of, a sentence each."""
    return [
        _describe_condition(c)
        for c in find_bad_conditions(status.conditions)
        if not c.message or c.message not in status.message
    ]


def _describe_condition(condition: Condition) -> str:
    return f"{condition.type} is False ({condition.reason}){f': {condition.message}' if condition.message else ''}"
