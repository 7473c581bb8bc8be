"""The phase of a trial, as a table of what its status says and which pods its attempt has."""

from __future__ import annotations

import pytest

from podtune.api.names import DecisionAction, TrialReason, TrialState
from podtune.api.resources.trial import Decision, TrialStatus
from podtune.runner.attempts.pods import AttemptPods
from podtune.runner.records import Pod
from podtune.runner.trial.phase import Phase, find_phase

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
        (None, "", None, NONE, Phase.NEW),
        (None, "", None, STARTING, Phase.STARTING),
        (PENDING, TrialReason.QUEUED, None, NONE, Phase.QUEUED),
        (PENDING, TrialReason.QUEUED, None, HALF_A_GANG, Phase.QUEUED),
        (PENDING, TrialReason.INVALID_OVERRIDES, None, NONE, Phase.QUEUED),
        (PENDING, TrialReason.BACKING_OFF, None, NONE, Phase.BACKING_OFF),
        (PENDING, TrialReason.STARTING, None, STARTING, Phase.STARTING),
        (PENDING, TrialReason.STARTING, None, TRAINING, Phase.RUNNING),
        (RUNNING, TrialReason.TRAINING, None, TRAINING, Phase.RUNNING),
        (RUNNING, TrialReason.TRAINING, None, NONE, Phase.RUNNING),
        (RUNNING, TrialReason.DRAINING, to(DecisionAction.STOP), TRAINING, Phase.STOPPING),
        (RUNNING, TrialReason.DRAINING, to(DecisionAction.STOP), NONE, Phase.STOPPING),
        (RUNNING, TrialReason.DRAINING, to(DecisionAction.FAIL), TRAINING, Phase.STOPPING),
        (RUNNING, TrialReason.DRAINING, to(DecisionAction.PAUSE, BY_SCHEDULER), TRAINING, Phase.PAUSING),
        (RUNNING, TrialReason.DRAINING, to(DecisionAction.PAUSE, BY_USER), TRAINING, Phase.ENDING_ATTEMPT),
        (
            RUNNING,
            TrialReason.DRAINING,
            to(DecisionAction.PAUSE, TrialReason.SUSPENDED),
            TRAINING,
            Phase.ENDING_ATTEMPT,
        ),
        (RUNNING, TrialReason.DRAINING, to(DecisionAction.RETRY), TRAINING, Phase.ENDING_ATTEMPT),
        (RUNNING, TrialReason.DRAINING, to(DecisionAction.END), TRAINING, Phase.ENDING_ATTEMPT),
        (PENDING, TrialReason.DRAINING, to(DecisionAction.REQUEUE), STARTING, Phase.ENDING_ATTEMPT),
        (PAUSED, BY_SCHEDULER, to(DecisionAction.PAUSE, BY_SCHEDULER), NONE, Phase.PAUSED_BY_SCHEDULER),
        (PAUSED, BY_SCHEDULER, None, NONE, Phase.PAUSED_BY_SCHEDULER),
        (PAUSED, BY_USER, to(DecisionAction.PAUSE, BY_USER), NONE, Phase.PAUSED_BY_USER),
        (PAUSED, TrialReason.SUSPENDED, to(DecisionAction.PAUSE, BY_USER), TRAINING, Phase.PAUSED_BY_USER),
        (TrialState.TERMINATED, TrialReason.COMPLETED, None, NONE, Phase.FINISHED),
        (
            TrialState.TERMINATED,
            TrialReason.STOPPED_BY_SCHEDULER,
            to(DecisionAction.STOP),
            TRAINING,
            Phase.FINISHED,
        ),
        (TrialState.ERROR, TrialReason.MAX_FAILURES_EXCEEDED, None, NONE, Phase.FINISHED),
    ],
)
def test_a_trial_is_in_exactly_one_phase(
    state: TrialState | None, reason: str, decision: Decision | None, pods: AttemptPods, expected: Phase
) -> None:
    assert find_phase(TrialStatus(state=state, reason=reason, decision=decision), pods) is expected
