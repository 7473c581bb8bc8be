"""Changes of a state put on record in the status, as part of a write that happens anyway.

A state that comes and goes between two writes is not recorded. What is recorded is told only once it is in the API
server, so an operator that is started again gives the same change the same number. A state that was there before
anything was recorded is no change.
"""

from __future__ import annotations

from podtune.api.names import ConditionType, TrialState
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import TrialStatus
from podtune.api.transitions import MAX_TRANSITIONS, Transition, TrialTransition

_EXPLAINING = (ConditionType.COMPLETE, ConditionType.FAILED, ConditionType.STALLED, ConditionType.SUSPENDED)
"""Conditions of an Experiment whose reasons are those of its state, while they hold."""


def record_of_trial(status: TrialStatus, saved: TrialStatus, now: str) -> TrialStatus:
    """The status of a Trial with its state on record: a new attempt that runs is a change, too.

    Args:
        status: The status that is about to be written.
        saved: The one that the API server has.
        now: The present time (RFC 3339).
    """
    last = status.transitions[-1] if status.transitions else None
    if status.state is None or _is_same(last or saved, status):
        return status
    change = TrialTransition(
        number=last.number + 1 if last is not None else 1,
        state=str(status.state),
        reason=status.reason,
        time=now,
        attempt=status.attempt,
    )
    return status.model_copy(update={"transitions": [*status.transitions, change][-MAX_TRANSITIONS:]})


def record_of_experiment(status: ExperimentStatus, saved: ExperimentStatus, now: str) -> ExperimentStatus:
    """The status of an Experiment with its state on record; the arguments are as for a Trial."""
    recorded = status.transitions or []
    last = recorded[-1] if recorded else None
    if status.state is None or (last or saved).state == status.state:
        return status
    holding = {condition.type: condition.reason for condition in status.conditions if condition.status == "True"}
    change = Transition(
        number=last.number + 1 if last is not None else 1,
        state=str(status.state),
        reason=next((holding[type_] for type_ in _EXPLAINING if type_ in holding), ""),
        time=now,
    )
    return status.model_copy(update={"transitions": [*recorded, change][-MAX_TRANSITIONS:]})


def _is_same(before: TrialTransition | TrialStatus, status: TrialStatus) -> bool:
    runs_again = status.state is TrialState.RUNNING and before.attempt != status.attempt
    return before.state == status.state and not runs_again
