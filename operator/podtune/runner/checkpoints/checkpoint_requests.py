"""A person's request for a checkpoint without a pause (`spec.checkpointRequest`).

A running trial takes a request up by noting its id, its attempt and how many results there were. The first checkpoint
that was taken with the last of these or with a later one answers the request, and so does the first one of a later
attempt. The answer is written together with the checkpoint, so a request is answered once, and a restarted operator
waits for the same checkpoint.
"""

from __future__ import annotations

from podtune.api.resources.trial import Checkpoint, RequestedCheckpoint
from podtune.protocol.messages import Report
from podtune.runner.scheduling import clones
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.phase import TrialPhase


def take_up(trial: TrialMachine, now: float) -> None:
    """Takes a new request up, once the trial runs; if its last iteration is stored already, that answers it."""
    asked, known = trial.spec.checkpoint_request, trial.status.checkpoint_request
    if asked is None or (known is not None and known.id == asked.id):
        return
    if not trial.context.store_prefix or trial.phase is not TrialPhase.RUNNING or clones.is_superseded(trial.status):
        return
    if trial.current.wanted_step is not None:
        return  # the scheduler has asked for one: the program hears of one request at a time
    stored = next(iter(clones.list_own_checkpoints(trial.status)), None)
    is_newest = stored is not None and trial.status.clone is None and stored.step >= trial.status.iteration
    request = RequestedCheckpoint(
        id=asked.id, attempt=trial.attempt, seq=trial.current.acked_seq, checkpoint=stored if is_newest else None
    )
    trial.set(checkpoint_request=request)
    trial.touch(now)


def answer(trial: TrialMachine, checkpoint: Checkpoint, seq: int) -> bool:
    """Notes a stored checkpoint if it answers the request; whether it does.

    Args:
        trial: The trial.
        checkpoint: Its newest checkpoint.
        seq: That of the result that it was taken with.
    """
    request = trial.status.checkpoint_request
    if request is None or request.checkpoint is not None or not _would_answer(trial, request, seq):
        return False
    trial.set(checkpoint_request=request.model_copy(update={"checkpoint": checkpoint}))
    return True


def asks_program(trial: TrialMachine, report: Report) -> bool:
    """Whether the program is to report a checkpoint: not if one is on its way that will answer the request."""
    request = trial.status.checkpoint_request
    if request is None or request.checkpoint is not None or request != trial.saved.checkpoint_request:
        return False
    unstored = trial.expectations.find_unstored(trial.current.uid)
    on_their_way = [commit.seq for commit in report.checkpoints]
    if unstored is not None and unstored.waits:
        on_their_way.append(unstored.seq)
    return not any(_would_answer(trial, request, seq) for seq in on_their_way)


def _would_answer(trial: TrialMachine, request: RequestedCheckpoint, seq: int) -> bool:
    return trial.attempt > request.attempt or seq >= request.seq
