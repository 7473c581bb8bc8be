"""Which of a trial's checkpoints are recorded, and which are kept."""

from __future__ import annotations

import math
from collections.abc import Sequence

from podtune.api.checkpoints import Keep
from podtune.api.objective import Objective
from podtune.api.trial import Checkpoint, TrialStatus


def accept(status: TrialStatus, checkpoint: Checkpoint, keep: Keep, objective: Objective) -> TrialStatus:
    """Records a committed checkpoint, and lets go of those that are not to be kept any longer.

    The newest is always kept: a retry starts from it. Order is that of commits, so after a fallback to an older
    checkpoint the newest may have a lower step than one before it.
    """
    if any(known.uri == checkpoint.uri for known in status.checkpoints):
        return status
    kept = keep_some([*status.checkpoints, checkpoint], keep, objective)
    return status.model_copy(update={"checkpoints": kept, "checkpoint": checkpoint})


def keep_some(checkpoints: Sequence[Checkpoint], keep: Keep, objective: Objective) -> list[Checkpoint]:
    """Those to keep, oldest first."""
    if keep.by == "latest":
        return list(checkpoints[-keep.count :])
    newest = len(checkpoints) - 1
    ranked = sorted(range(len(checkpoints)), key=lambda i: (_score(checkpoints[i], objective), i), reverse=True)
    chosen = set(ranked[: keep.count]) | {newest}
    return [checkpoint for i, checkpoint in enumerate(checkpoints) if i in chosen]


def best(checkpoints: Sequence[Checkpoint], objective: Objective) -> Checkpoint | None:
    """The checkpoint with the best value of the objective, the newest among equals; None where there is none."""
    if not checkpoints:
        return None
    return max(enumerate(checkpoints), key=lambda pair: (_score(pair[1], objective), pair[0]))[1]


def _score(checkpoint: Checkpoint, objective: Objective) -> float:
    """Higher is better; a checkpoint without a finite value is the worst."""
    value = float(checkpoint.metric) if checkpoint.metric else math.nan
    if not math.isfinite(value):
        return -math.inf
    return value if objective.mode == "max" else -value
