"""The checkpoints of a deleted Trial that the agent of the recreated one has found in the bucket.

The trial's first attempt looks for one if none was on record. Its first report says what it started from: before any
result, and again after a restart of the operator. From then on that checkpoint is the trial's own. Until it is on
record, the next attempt looks again.
"""

from __future__ import annotations

import math

from podtune.api.names import DecisionKind
from podtune.api.resources.trial import Checkpoint, RestoreSource
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import Restored
from podtune.runner.trial import parameters
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.results import show
from podtune.trial.layout import ITERATION


def take(trial: TrialMachine, restored: Restored, *, is_own: bool, now: float) -> None:
    """Takes in what a trial's agent has found."""
    if is_own and restored.checkpoint is not None:
        message = _go_on(trial, restored.checkpoint, restored.metric)
        inputs = {"checkpoint": restored.step}
    else:
        trial.set(former=RestoreSource())
        what = "continues from spec.restoreFrom" if restored.uri else "starts from scratch"
        message = f"{what}: the bucket has no checkpoint of its configuration"
        message += f" ({restored.message})" if restored.message else ""
        inputs = {}
    trial.news = message
    trial.log_decision(DecisionKind.RECREATE, message, inputs, now=now)
    trial.touch(now)


def _go_on(trial: TrialMachine, ref: CheckpointRef, value: float | None) -> str:
    """Makes the checkpoint the trial's own; what was reported with it is not reported again."""
    objective = trial.context.spec.objective.metric
    shown = "" if value is None else show(value)
    found = Checkpoint(
        step=ref.step,
        uri=ref.uri,
        digest=ref.digest,
        metric=shown,
        configuration=parameters.compute_fingerprint(trial.status.parameters),
    )
    origin = RestoreSource(uri=found.uri, step=found.step)
    trial.set(checkpoints=[found], checkpoint=found, iteration=found.step, former=origin, clone=None)
    if value is not None:
        result = {objective: shown, ITERATION: str(found.step)}
        trial.set(last_result=result)
        if math.isfinite(value):
            trial.set(best=result, best_value=shown)
    return f"continues from the checkpoint of iteration {found.step}, found in the bucket"
