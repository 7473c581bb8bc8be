"""A trial that goes on from another one's checkpoint, with another configuration (an exploit).

What it clones stands in its status, whole, from the decision on: donor, checkpoint, and what to go back to. That stays
there until the trial has a checkpoint of its own that was taken after it, so whatever attempt fails meanwhile, the next
one starts from the same weights. For as long the donor's checkpoint is pinned: it is not deleted. Where the checkpoint
is not stored yet, the exploit stands in the status as one that waits (see `exploits`).

Weights and parameters belong together: with a clone only the donor's checkpoint is restored, or nothing is, and then
the exploit is undone; of its own checkpoints a trial restores only those that were taken with the parameters it has.
"""

from __future__ import annotations

from podtune.api.resources.trial import MAX_FAILED_RESTORE_SOURCES, Checkpoint, Clone, TrialSpec, TrialStatus
from podtune.runner.trial.parameters import Parameters, compute_fingerprint, find_changed


def to_restore(status: TrialStatus) -> tuple[Checkpoint, ...]:
    """What the next attempt may start from, the one to try first at the front."""
    if status.clone is not None:
        return (status.clone.checkpoint,)
    return list_own_checkpoints(status)


def list_own_checkpoints(status: TrialStatus) -> tuple[Checkpoint, ...]:
    """The trial's own checkpoints that were taken with the parameters it has now, the newest first."""
    tag = compute_fingerprint(status.parameters)
    return tuple(checkpoint for checkpoint in reversed(status.checkpoints) if checkpoint.configuration == tag)


def awaits_restore_source(spec: TrialSpec, status: TrialStatus) -> bool:
    """Whether the checkpoint that a user has the trial start from is still to be found."""
    is_finished = status.state is not None and status.state.is_finished
    return spec.restore_from is not None and status.restore_source is None and not is_finished


def restores_from_source(status: TrialStatus) -> bool:
    """Whether what the next attempt starts from is what a user has it start from."""
    clone, source = status.clone, status.restore_source
    return clone is not None and source is not None and clone.checkpoint.uri == source.uri


def drop_restore_source(status: TrialStatus, clone: Clone) -> TrialStatus:
    """The status of a trial that could not restore what a user has it start from: another one is to be found."""
    lost = [*status.failed_restore_sources, clone.checkpoint.uri][-MAX_FAILED_RESTORE_SOURCES:]
    return undo(status, clone).model_copy(update={"restore_source": None, "failed_restore_sources": lost})


def replace_with_clone(
    status: TrialStatus, spec: TrialSpec, donor: str, checkpoint: Checkpoint, parameters: Parameters
) -> TrialStatus:
    """The status of a trial that is to go on from a donor's checkpoint with other parameters.

    Where an earlier clone has no checkpoint of its own yet, what was before that one is what is gone back to.
    """
    before = status.parameters if status.clone is None else status.clone.previous_parameters
    clone = Clone(donor=donor, checkpoint=checkpoint, previous_parameters=before)
    return status.model_copy(update={"clone": clone, "exploit": None, "parameters": find_changed(spec, parameters)})


def is_superseded(status: TrialStatus) -> bool:
    """Whether a clone has superseded what the current attempt reports: that is of before the exploit."""
    return status.clone is not None and status.clone.attempt == 0


def record_restore(status: TrialStatus, uri: str, attempt: int) -> TrialStatus:
    """The status after an attempt has told what it restored.

    With a clone the trial takes over its donor's time: iterations go on from the checkpoint's, and its progress begins
    anew, so that none of what it reports from then on is taken for a stretch that was run before.
    """
    clone = status.clone
    if clone is None or clone.attempt or clone.checkpoint.uri != uri:
        return status
    restored = clone.model_copy(update={"attempt": attempt})
    return status.model_copy(update={"clone": restored, "iteration": clone.checkpoint.step, "progress": ""})


def is_same(one: Clone | None, other: Clone | None) -> bool:
    """Whether two statuses have the trial go on from the same."""
    if one is None or other is None:
        return one is other
    return one.checkpoint == other.checkpoint


def undo(status: TrialStatus, clone: Clone) -> TrialStatus:
    """The status without its clone, with the parameters that the trial's own checkpoints were taken with.

    What a user has changed since is not among them, and is taken in once more.
    """
    return status.model_copy(update={"clone": None, "parameters": clone.previous_parameters, "overrides": {}})
