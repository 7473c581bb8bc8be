"""The answers to what agents post."""

from __future__ import annotations

from enum import Enum

from podtune.protocol.messages import Reply, Report
from podtune.runner.checkpoints import checkpoint_requests, upload_waits
from podtune.runner.scheduling import clones
from podtune.runner.trial import ledger
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.reports import is_ahead
from podtune.runner.trial.revisions import has_foreign_pods


class Unaccepted(Enum):
    """Why a report is not taken in."""

    FENCED = "fenced"
    """It is of an attempt that is over, or of one that never was."""
    TOO_EARLY = "too early"
    """Its pod has not been seen yet: ask again."""
    MISPLACED = "misplaced"
    """A checkpoint in it does not lie below the trial's prefix in the bucket, or there is no bucket."""
    FOLLOWS = "follows"
    """It is of a pod of a gang that does not lead it: results come from rank 0."""


def fence(trial: TrialMachine, pod_name: str, attempt_uid: str) -> Unaccepted | None:
    """Why a report of this pod and attempt is not taken in; None where it is: it is the trial's current one."""
    number, _, rank = pod_name.removeprefix(f"{trial.name}-").partition("-")
    if trial.replicas > 1 and rank.isdecimal() and int(rank) > 0:
        return Unaccepted.FOLLOWS
    if trial.is_finished or not number.isdecimal() or int(number) < trial.attempt:
        return Unaccepted.FENCED
    if int(number) > trial.attempt or trial.pod is None:
        return Unaccepted.TOO_EARLY
    is_over = trial.pod.uid != attempt_uid or trial.pod.is_over
    return Unaccepted.FENCED if is_over or has_foreign_pods(trial) else None


def build_reply(trial: TrialMachine, report: Report, *, is_flushed: bool, pinned: tuple[str, ...] = ()) -> Reply:
    """The answer to a report that was taken in.

    Args:
        trial: The trial.
        report: The report.
        is_flushed: Whether all that the trial's decision rests on is durable; before that the agent hears nothing of
            it.
        pinned: URIs of the trial's checkpoints that other trials need.
    """
    saved = {checkpoint.uri for checkpoint in trial.saved.checkpoints}
    recorded = {checkpoint.uri for checkpoint in trial.status.checkpoints}
    settled = tuple(
        uri
        for commit in report.checkpoints
        if (uri := commit.checkpoint.uri) in saved or not (uri in recorded or is_ahead(trial, commit))
    )
    is_recorded = trial.saved.pod is not None and trial.saved.pod.uid == trial.current.uid
    decision = trial.saved.decision if is_flushed else None
    return Reply(
        acked_seq=trial.current.acked_seq,
        durable_seq=trial.saved.durable_seq if is_recorded else 0,
        acked_checkpoints=settled,
        decision="CONTINUE"
        if decision is None
        else ("PAUSE" if decision.wants_checkpoint and not trial.is_evaluated else "STOP"),
        should_checkpoint=_wants_checkpoint(trial, report),
        kept=(*pinned, *(checkpoint.uri for checkpoint in trial.saved.checkpoints)),
        ledger=ledger.list_entries_after(trial.saved, report.ledger),
        discards=trial.is_evaluated or (decision is not None and decision.stores_no_more),
    )


def _wants_checkpoint(trial: TrialMachine, report: Report) -> bool:
    """Whether the trial is to go on later, from what it has learnt, or is worth cloning, or a person asks for it."""
    if trial.is_evaluated:
        return False
    decision = trial.status.decision
    goes_on = decision is not None and decision.wants_checkpoint and not clones.is_superseded(trial.status)
    if goes_on and upload_waits.stores_answer(trial):
        return False
    is_wanted = trial.current.wanted_step is not None or checkpoint_requests.asks_program(trial, report)
    return goes_on or (decision is None and is_wanted)
