"""The phase of a trial, as a table of what its status says and which pods its attempt has."""

from __future__ import annotations

import pytest

from podtune.api.names import DecisionAction, TrialReason, TrialState
from podtune.api.resources.trial import Decision, TrialStatus
from podtune.runner.attempts.pods import AttemptPods
from podtune.runner.records import Pod
from podtune.runner.trial.phase import TrialPhase, find_phase

NONE = AttemptPods(1)
STARTING = AttemptPods(1, (Pod("e-0-1", "uid", "e-0", 1),))
TRAINING = AttemptPods(1, (Pod("e-0-1", "uid", "e-0", 1, training=True),))
HALF_A_GANG = AttemptPods(2, (Pod("e-0-1-0", "uid", "e-0", 1, gated=True),))
PENDING, RUNNING, PAUSED = TrialState.PENDING, TrialState.RUNNING, TrialState.PAUSED
BY_SCHEDULER, BY_USER = TrialReason.PAUSED_BY_SCHEDULER, TrialReason.PAUSED_BY_USER


def to(action: DecisionAction, reason: TrialReason = TrialReason.STOPPED_BY_SCHEDULER) -> Decision:
    return Decision(action=action, reason=reason, attempt=1)


@pytest.mark.parametrize(
    ("state", "reason", "decision", "pods", "expected"),
    [
        (None, "", None, NONE, TrialPhase.NEW),
        (None, "", None, STARTING, TrialPhase.STARTING),
        (PENDING, TrialReason.QUEUED, None, NONE, TrialPhase.QUEUED),
        (PENDING, TrialReason.QUEUED, None, HALF_A_GANG, TrialPhase.QUEUED),
        (PENDING, TrialReason.INVALID_OVERRIDES, None, NONE, TrialPhase.QUEUED),
        (PENDING, TrialReason.BACKING_OFF, None, NONE, TrialPhase.BACKING_OFF),
        (PENDING, TrialReason.STARTING, None, STARTING, TrialPhase.STARTING),
        (PENDING, TrialReason.STARTING, None, TRAINING, TrialPhase.RUNNING),
        (RUNNING, TrialReason.TRAINING, None, TRAINING, TrialPhase.RUNNING),
        (RUNNING, TrialReason.TRAINING, None, NONE, TrialPhase.RUNNING),
        (RUNNING, TrialReason.DRAINING, to(DecisionAction.STOP), TRAINING, TrialPhase.STOPPING),
        (RUNNING, TrialReason.DRAINING, to(DecisionAction.STOP), NONE, TrialPhase.STOPPING),
        (RUNNING, TrialReason.DRAINING, to(DecisionAction.FAIL), TRAINING, TrialPhase.STOPPING),
        (RUNNING, TrialReason.DRAINING, to(DecisionAction.PAUSE, BY_SCHEDULER), TRAINING, TrialPhase.PAUSING),
        (RUNNING, TrialReason.DRAINING, to(DecisionAction.PAUSE, BY_USER), TRAINING, TrialPhase.ENDING_ATTEMPT),
        (
            RUNNING,
            TrialReason.DRAINING,
            to(DecisionAction.PAUSE, TrialReason.SUSPENDED),
            TRAINING,
            TrialPhase.ENDING_ATTEMPT,
        ),
        (RUNNING, TrialReason.DRAINING, to(DecisionAction.RETRY), TRAINING, TrialPhase.ENDING_ATTEMPT),
        (RUNNING, TrialReason.DRAINING, to(DecisionAction.END), TRAINING, TrialPhase.ENDING_ATTEMPT),
        (PENDING, TrialReason.DRAINING, to(DecisionAction.REQUEUE), STARTING, TrialPhase.ENDING_ATTEMPT),
        (PAUSED, BY_SCHEDULER, to(DecisionAction.PAUSE, BY_SCHEDULER), NONE, TrialPhase.PAUSED_BY_SCHEDULER),
        (PAUSED, BY_SCHEDULER, None, NONE, TrialPhase.PAUSED_BY_SCHEDULER),
        (PAUSED, BY_USER, to(DecisionAction.PAUSE, BY_USER), NONE, TrialPhase.PAUSED_BY_USER),
        (PAUSED, TrialReason.SUSPENDED, to(DecisionAction.PAUSE, BY_USER), TRAINING, TrialPhase.PAUSED_BY_USER),
        (TrialState.TERMINATED, TrialReason.COMPLETED, None, NONE, TrialPhase.FINISHED),
        (
            TrialState.TERMINATED,
            TrialReason.STOPPED_BY_SCHEDULER,
            to(DecisionAction.STOP),
            TRAINING,
            TrialPhase.FINISHED,
        ),
        (TrialState.ERROR, TrialReason.MAX_FAILURES_EXCEEDED, None, NONE, TrialPhase.FINISHED),
    ],
)
def test_a_trial_is_in_exactly_one_phase(
    state: TrialState | None, reason: str, decision: Decision | None, pods: AttemptPods, expected: TrialPhase
) -> None:
    assert find_phase(TrialStatus(state=state, reason=reason, decision=decision), pods) is expected
