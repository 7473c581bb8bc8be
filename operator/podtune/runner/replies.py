"""The answers to what agents post."""

from __future__ import annotations

from enum import Enum

from podtune.protocol.messages import Reply, Report
from podtune.runner.trial_machine import TrialMachine


class Unaccepted(Enum):
    """Why a report is not taken in."""

    FENCED = "fenced"
    """It is of an attempt that is over, or of one that never was."""
    TOO_EARLY = "too early"
    """Its pod has not been seen yet: ask again."""


def fence(trial: TrialMachine, pod_name: str, attempt_uid: str) -> Unaccepted | None:
    """Why a report of this pod and attempt is not taken in; None where it is: it is the trial's current one."""
    number = pod_name.removeprefix(f"{trial.name}-")
    if trial.is_finished or not number.isdecimal() or int(number) < trial.attempt:
        return Unaccepted.FENCED
    if int(number) > trial.attempt or trial.pod is None:
        return Unaccepted.TOO_EARLY
    return Unaccepted.FENCED if trial.pod.uid != attempt_uid or trial.pod.is_over else None


def reply(trial: TrialMachine, report: Report, *, may_act: bool) -> Reply:
    """The answer to a report that was taken in.

    Args:
        trial: The trial.
        report: The report.
        may_act: Whether all that the trial's decision rests on is durable; before that the agent hears nothing of it.
    """
    saved = {checkpoint.uri for checkpoint in trial.saved.checkpoints}
    recorded = {checkpoint.uri for checkpoint in trial.status.checkpoints}
    settled = tuple(
        commit.uri
        for commit in report.checkpoints
        if commit.uri in saved or not (commit.uri in recorded or trial.is_ahead(commit))
    )
    is_recorded = trial.saved.pod is not None and trial.saved.pod.uid == trial.attempt_uid
    decision = trial.saved.decision if may_act else None
    return Reply(
        acked_seq=trial.acked_seq,
        durable_seq=trial.saved.durable_seq if is_recorded else 0,
        acked_checkpoints=settled,
        decision="CONTINUE" if decision is None else ("PAUSE" if decision.action == "PAUSE" else "STOP"),
        should_checkpoint=trial.status.decision is not None and trial.status.decision.action == "PAUSE",
        kept=tuple(checkpoint.uri for checkpoint in trial.saved.checkpoints),
    )
