"""Work lost with an attempt: a checkpoint that the program reported but that was not stored when the attempt ended.

It is shown where people look: in the Trial's message and conditions, in an Event, and as a count in the Experiment.
"""

from __future__ import annotations

from podtune.api.conditions import MAX_MESSAGE, clip
from podtune.api.names import DecisionAction
from podtune.api.resources.trial import LostCheckpoint, TrialStatus
from podtune.protocol.messages import StoreProblem, Unstored
from podtune.runner.scheduling import clones

MAX_LOSS = 256
MAX_CAUSE = 128
OURS = frozenset({DecisionAction.STOP, DecisionAction.PAUSE, DecisionAction.FAIL, DecisionAction.RETRY})


def find_loss(
    status: TrialStatus, attempt: int, home: str, unstored: Unstored | None, problem: StoreProblem | None
) -> LostCheckpoint | None:
    """Finds what the attempt that ends has lost; None for nothing.

    Args:
        status: The trial's status, with all checkpoints that are known to be stored.
        attempt: The attempt's number.
        home: Where its checkpoints are; empty without a store.
        unstored: What was not stored by its agent's last word, or else its last report.
        problem: What was wrong with the store.
    """
    if unstored is None or not home or not _is_missed(status, home, unstored):
        return None
    before, stored = status.lost_checkpoint, status.checkpoint
    rest = f"the newest stored one is from iteration {stored.step}" if stored is not None else "no checkpoint is stored"
    cause = f": {clip(problem.message, MAX_CAUSE)}" if problem is not None else ""
    return LostCheckpoint(
        attempt=attempt,
        step=unstored.step,
        attempts=1 + (before.attempts if before is not None else 0),
        message=clip(f"the checkpoint of iteration {unstored.step} is lost; {rest}{cause}", MAX_LOSS),
    )


def describe_last_loss(status: TrialStatus) -> str:
    """Says what the last attempt has lost, in a sentence; empty where it has lost nothing."""
    lost, last = status.lost_checkpoint, status.last_attempt
    return lost.message if lost is not None and last is not None and lost.attempt == last.attempt else ""


def add_loss(status: TrialStatus, message: str) -> str:
    """Adds to a message about the end of the last attempt what that has lost."""
    loss = describe_last_loss(status)
    if not loss:
        return clip(message)
    return f"{clip(message, MAX_MESSAGE - len(loss) - 2)}; {loss}" if message else loss


def _is_missed(status: TrialStatus, home: str, unstored: Unstored) -> bool:
    """Whether the trial, or another one that needs its weights, would have continued from the missing checkpoint.

    After a decision that is what had been reported by then; of a pause or a requested retry also the checkpoint
    that it has asked for.
    An agent that was killed may have stored and reported it after its last word.
    """
    decision = status.decision
    if clones.is_superseded(status) or _is_stored(status, home, unstored.step):
        return False
    if decision is not None and decision.stores_no_more:
        return False
    is_ours = decision is not None and (decision.action in OURS or decision.wants_checkpoint)
    if decision is None or not is_ours or unstored.since <= decision.seq:
        return True
    return decision.wants_checkpoint and not _is_stored(status, home, decision.step)


def _is_stored(status: TrialStatus, home: str, step: int) -> bool:
    """Whether a checkpoint of this iteration, or of a later one, of the attempt is on record."""
    return any(c.uri.startswith(home) and c.step >= step for c in status.checkpoints)
