"""What is lost with an attempt: a checkpoint that its program had reported and that is not stored at its end.

It is said where people look: in the Trial's message and conditions, as an Event, and, counted, in the Experiment.
"""

from __future__ import annotations

from podtune.api.conditions import MAX_MESSAGE, clip
from podtune.api.names import DecisionAction
from podtune.api.resources.trial import LostCheckpoint, TrialStatus
from podtune.protocol.messages import FinalCommit, Unstored
from podtune.runner.scheduling import clones
from podtune.runner.trial.machine import TrialMachine

MAX_LOSS = 256
MAX_CAUSE = 128
OURS = frozenset({DecisionAction.STOP, DecisionAction.PAUSE, DecisionAction.FAIL, DecisionAction.RETRY})


def note_loss(trial: TrialMachine, final: FinalCommit | None) -> None:
    """Has the status say what the attempt that ends has lost, by its agent's last word, or else its last report."""
    unstored = final.unstored if final is not None else trial.expectations.unstored_of(trial.attempt_uid)
    if unstored is None or not trial.home or not _is_missed(trial, unstored):
        return
    before = trial.status.lost_checkpoint
    stored = trial.status.checkpoint
    rest = f"the newest stored one is of iteration {stored.step}" if stored is not None else "none is stored"
    cause = f": {clip(trial.store_problem.message, MAX_CAUSE)}" if trial.store_problem is not None else ""
    trial.set(
        lost_checkpoint=LostCheckpoint(
            attempt=trial.attempt,
            step=unstored.step,
            attempts=1 + (before.attempts if before is not None else 0),
            message=clip(f"the checkpoint of iteration {unstored.step} is lost, {rest}{cause}", MAX_LOSS),
        )
    )


def loss_of_last_attempt(status: TrialStatus) -> str:
    """What the last attempt has lost, in a sentence; empty where it has lost nothing."""
    lost, last = status.lost_checkpoint, status.last_attempt
    return lost.message if lost is not None and last is not None and lost.attempt == last.attempt else ""


def with_loss(status: TrialStatus, message: str) -> str:
    """A message about the end of the last attempt, with what is lost."""
    loss = loss_of_last_attempt(status)
    if not loss:
        return clip(message)
    return f"{clip(message, MAX_MESSAGE - len(loss) - 2)}; {loss}" if message else loss


def _is_missed(trial: TrialMachine, unstored: Unstored) -> bool:
    """Whether the trial, or whoever wants its weights, would have gone on from what is not stored.

    After a decision that is what had been reported by then; of a pause also the checkpoint that it has asked for.
    An agent that was killed may have stored and reported it after its last word.
    """
    decision = trial.status.decision
    if clones.is_superseded(trial.status) or _is_stored(trial, unstored.step):
        return False
    if decision is None or decision.action not in OURS or unstored.since <= decision.seq:
        return True
    return decision.action == DecisionAction.PAUSE and not _is_stored(trial, decision.step)


def _is_stored(trial: TrialMachine, step: int) -> bool:
    """Whether a checkpoint of this iteration, or of a later one, of the current attempt is on record."""
    return any(c.uri.startswith(trial.home) and c.step >= step for c in trial.status.checkpoints)
