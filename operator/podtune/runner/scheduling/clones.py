"""A trial that continues from another trial's checkpoint with another configuration (an exploit).

The decision is recorded whole in the trial's status: donor, checkpoint, and what to return to. The record stays until
the trial has a later checkpoint of its own. So if an attempt fails in between, the next one starts from the same
weights. Until then the donor's checkpoint is pinned and not deleted. If the checkpoint is not stored yet, the exploit
is recorded as waiting (see `exploits`).

Weights and parameters belong together. With a clone, only the donor's checkpoint may be restored; if it can't be, the
exploit is undone. Of its own checkpoints, a trial restores only those taken with its current parameters.
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


def find_own_checkpoint(status: TrialStatus, step: int) -> Checkpoint | None:
    """The checkpoint of an iteration that the trial can go back to: its newest one with its present parameters."""
    return next((known for known in _list_returns(status) if known.step == step), None)


def explain_lack(status: TrialStatus, step: int) -> str:
    """Says why the trial can't go back to an iteration (spec.retry.step), and where else it can; empty where it can."""
    if find_own_checkpoint(status, step) is not None:
        return ""
    lack = f"can't go back to iteration {step} (spec.retry.step)"
    if status.evaluation is not None:
        return f"{lack}: training has ended, and the trial is evaluated"
    if status.clone is not None:
        return f"{lack}: it continues from a checkpoint of trial {status.clone.donor} and has none of its own yet"
    steps = ", ".join(map(str, sorted({known.step for known in _list_returns(status)})))
    if not steps:
        return f"{lack}: no checkpoint with its present parameters is kept"
    return f"{lack}: with its present parameters, the checkpoints of these iterations are kept: {steps}"


def _list_returns(status: TrialStatus) -> tuple[Checkpoint, ...]:
    """What the trial can go back to; nothing while it continues from a donor's checkpoint, or is evaluated."""
    return () if status.clone is not None or status.evaluation is not None else list_own_checkpoints(status)


def awaits_restore_source(spec: TrialSpec, status: TrialStatus) -> bool:
    """Whether the checkpoint that a user has the trial start from is still to be found."""
    is_finished = status.state is not None and status.state.is_finished
    return spec.restore_from is not None and status.restore_source is None and not is_finished


def restores_from_source(status: TrialStatus) -> bool:
    """Whether the next attempt starts from the checkpoint that a user chose."""
    clone, source = status.clone, status.restore_source
    return clone is not None and source is not None and clone.checkpoint.uri == source.uri


def drop_restore_source(status: TrialStatus, clone: Clone) -> TrialStatus:
    """The status of a trial that could not restore the checkpoint that a user chose: another one must be found."""
    lost = [*status.failed_restore_sources, clone.checkpoint.uri][-MAX_FAILED_RESTORE_SOURCES:]
    return undo(status, clone).model_copy(update={"restore_source": None, "failed_restore_sources": lost})


def replace_with_clone(
    status: TrialStatus, spec: TrialSpec, donor: str, checkpoint: Checkpoint, parameters: Parameters
) -> TrialStatus:
    """The status of a trial that is to continue from a donor's checkpoint with other parameters.

    If an earlier clone has no checkpoint of its own yet, the parameters to return to are those from before it.
    """
    before = status.parameters if status.clone is None else status.clone.previous_parameters
    clone = Clone(donor=donor, checkpoint=checkpoint, previous_parameters=before)
    return status.model_copy(update={"clone": clone, "exploit": None, "parameters": find_changed(spec, parameters)})


def is_superseded(status: TrialStatus) -> bool:
    """Whether a clone has superseded what the current attempt reports: that is of before the exploit."""
    return status.clone is not None and status.clone.attempt == 0


def record_restore(status: TrialStatus, uri: str, attempt: int) -> TrialStatus:
    """The status after an attempt has reported what it restored.

    A clone takes over its donor's time: iterations continue from the checkpoint's. Progress is reset, so that no later
    result is mistaken for one that was reported before.
    """
    clone = status.clone
    if clone is None or clone.attempt or clone.checkpoint.uri != uri:
        return status
    restored = clone.model_copy(update={"attempt": attempt})
    return status.model_copy(update={"clone": restored, "iteration": clone.checkpoint.step, "progress": ""})


def is_same(one: Clone | None, other: Clone | None) -> bool:
    """Whether two statuses let the trial continue from the same checkpoint."""
    if one is None or other is None:
        return one is other
    return one.checkpoint == other.checkpoint


def undo(status: TrialStatus, clone: Clone) -> TrialStatus:
    """The status without the clone, with the parameters that the trial's own checkpoints were taken with.

    They don't include later changes by a user, which are applied again.
    """
    return status.model_copy(update={"clone": None, "parameters": clone.previous_parameters, "overrides": {}})
