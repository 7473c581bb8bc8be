"""Which of a trial's checkpoints are recorded, and which are kept."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from podtune.api.names import TrialReason
from podtune.api.resources.checkpoints import Keep
from podtune.api.resources.trial import MAX_PINNED, Checkpoint, TrialStatus
from podtune.api.tuning.objective import Objective

STOPPED_REASONS = frozenset({TrialReason.STOPPED_BY_SCHEDULER, TrialReason.NOT_PROMOTED, TrialReason.STOPPED_BY_USER})
"""Why trials end before their time that will never go on: `checkpoints.keep.stopped` is about them."""


def lies_below(uri: str, prefix: str) -> bool:
    """Whether a URI is below a prefix that ends with a slash, on servers too that fold `..`; below none is nothing."""
    if not prefix or not uri.startswith(prefix):
        return False
    return not any(part in ("", ".", "..") for part in uri.removeprefix(prefix).split("/"))


def accept(
    status: TrialStatus, checkpoint: Checkpoint, keep: Keep, objective: Objective, pinned: Collection[int] = ()
) -> TrialStatus:
    """Records a committed checkpoint, and drops those that need not be kept any longer.

    The newest is always kept: a retry starts from it. Order is that of commits, so after a fallback to an older
    checkpoint the newest may have a lower step than one before it.

    Args:
        status: The status so far.
        checkpoint: The checkpoint.
        keep: What the manifest wants kept.
        objective: What the best ones are the best by.
        pinned: Iterations: the newest one up to each is kept as well, since another trial may clone it.
    """
    if any(known.uri == checkpoint.uri for known in status.checkpoints):
        return status
    kept = keep_some([*status.checkpoints, checkpoint], keep, objective, pinned)
    return status.model_copy(update={"checkpoints": kept, "checkpoint": checkpoint})


def keep_some(
    checkpoints: Sequence[Checkpoint], keep: Keep, objective: Objective, pinned: Collection[int] = ()
) -> list[Checkpoint]:
    """Those to keep, oldest first."""
    newest = len(checkpoints) - 1
    order_of_worth = _sort_by_worth(checkpoints, keep, objective)
    chosen = {*order_of_worth[: keep.count], newest} | _list_pinned(checkpoints, pinned)
    return [checkpoint for i, checkpoint in enumerate(checkpoints) if i in chosen]


def keep_of_stopped(
    checkpoints: Sequence[Checkpoint],
    keep: Keep,
    objective: Objective,
    *,
    is_among_best: bool,
) -> list[Checkpoint]:
    """Those to keep of a trial that was stopped and will never go on, oldest first.

    Args:
        checkpoints: All that it has.
        keep: What the manifest wants kept.
        objective: What the best ones are the best by.
        is_among_best: Whether it keeps its best one in any case.
    """
    limit = keep.count if keep.stopped is None else min(keep.stopped, keep.count)
    chosen = _sort_by_worth(checkpoints, keep, objective)[:limit]
    best = find_best_checkpoint(checkpoints, objective) if is_among_best else None
    return [checkpoint for i, checkpoint in enumerate(checkpoints) if i in chosen or checkpoint is best]


def _sort_by_worth(checkpoints: Sequence[Checkpoint], keep: Keep, objective: Objective) -> list[int]:
    """Positions, that of the one to keep first at the front."""
    order = range(len(checkpoints))
    if keep.by == "best":
        return sorted(order, key=lambda i: (_compute_score(checkpoints[i], objective), i), reverse=True)
    return list(reversed(order))


def _list_pinned(checkpoints: Sequence[Checkpoint], steps: Collection[int]) -> set[int]:
    """Positions of those that others may clone: they were taken with the parameters that the trial has now."""
    if not checkpoints:
        return set()
    own = [i for i, known in enumerate(checkpoints) if known.configuration == checkpoints[-1].configuration]
    found = {next((i for i in reversed(own) if checkpoints[i].step <= step), -1) for step in steps}
    return set(sorted(found - {-1})[-MAX_PINNED:])


def find_best_checkpoint(checkpoints: Sequence[Checkpoint], objective: Objective) -> Checkpoint | None:
    """The checkpoint with the best value of the objective, the newest among equals; None where there is none."""
    if not checkpoints:
        return None
    return max(enumerate(checkpoints), key=lambda pair: (_compute_score(pair[1], objective), pair[0]))[1]


def _compute_score(checkpoint: Checkpoint, objective: Objective) -> float:
    """Higher is better; a checkpoint without a finite value is the worst."""
    value = float(checkpoint.metric) if checkpoint.metric else math.nan
    if not math.isfinite(value):
        return -math.inf
    return value if objective.mode == "max" else -value
