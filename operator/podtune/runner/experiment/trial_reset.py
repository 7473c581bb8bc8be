"""Trials that had ended before their experiment resumed, and that run once more.

The objects say which they are: a trial records the run generation in which it ended; the experiment records its current
one and the policies for trials of earlier ones. Each trial is reopened by one write. When all are written, the
experiment's machine is rebuilt, so that scheduler and searcher never learn about the former ends.
"""

from __future__ import annotations

from podtune.api.names import DecisionAction, DecisionKind, DesiredState, TrialReason, TrialState
from podtune.api.resources.failures import FailureCounts
from podtune.api.resources.resume import ResumePolicy, Resumption
from podtune.api.resources.trial import TrialStatus
from podtune.runner.trial.machine import TrialMachine

FORGIVEN = FailureCounts().model_dump()


class TrialReset:
    """The trials that are still to be opened."""

    def __init__(self, resumption: Resumption | None) -> None:
        """Knows of none yet: see `restore`.

        Args:
            resumption: How the experiment last resumed; None if it never did.
        """
        self._resumption = resumption
        self._pending: set[str] = set()

    def restore(self, trial: TrialMachine) -> None:
        """Takes in what a trial has recorded."""
        if self._resumption is not None and opens(trial, self._resumption):
            self._pending.add(trial.name)

    @property
    def is_pending(self) -> bool:
        """Whether some are not reopened yet, or not durably: until then the experiment stands still."""
        return bool(self._pending)

    def open(self, trial: TrialMachine, now: float) -> None:
        """Opens a trial, if it is one of them: as far as its status is concerned."""
        if self._resumption is None or trial.name not in self._pending or not trial.is_finished:
            return
        policy = find_resume_policy(trial.status, self._resumption)
        opened = _restart if policy is ResumePolicy.RESTART else _resume
        trial.status = opened(trial.status).model_copy(update={"run_generation": self._resumption.run_generation})
        trial.log_decision(
            DecisionKind.RESUME, trial.status.message, {"runGeneration": self._resumption.run_generation}, now=now
        )
        trial.touch(now)

    def on_status_saved(self, trial: TrialMachine) -> bool:
        """The API server has a trial's status; whether that was the last one that was waited for."""
        if trial.name in self._pending and self._resumption is not None:
            if trial.saved.run_generation >= self._resumption.run_generation:
                self._pending.discard(trial.name)
            return not self._pending
        return False

    def forget(self, name: str) -> None:
        """A trial was deleted."""
        self._pending.discard(name)


def find_resume_policy(status: TrialStatus, resumption: Resumption) -> ResumePolicy:
    """What happens to a trial that has ended."""
    if status.state is TrialState.ERROR:
        return ResumePolicy(resumption.errored)
    is_unfinished = status.reason == TrialReason.STOPPED_BY_EXPERIMENT
    return ResumePolicy(resumption.unfinished if is_unfinished else resumption.finished)


def opens(trial: TrialMachine, resumption: Resumption) -> bool:
    """Whether a trial runs once more when its experiment resumes."""
    status = trial.saved
    if (
        status.state is None
        or not status.state.is_finished
        or status.run_generation >= resumption.run_generation
        or trial.deleting
    ):
        return False
    wants = trial.spec.desired_state is not DesiredState.STOPPED
    return wants and find_resume_policy(status, resumption) is not ResumePolicy.SKIP


def _resume(status: TrialStatus) -> TrialStatus:
    """The status of a trial that continues; one that the scheduler had paused is paused again.

    A scheduler that was told of the trial's failure considers it ended for good, so the trial is registered again.
    """
    changes: dict[str, object] = {
        "decision": None,
        "completion_time": None,
        "observation_seq": None,
        "retry_time": None,
        "unheard": [],  # that it had ended well is true no more
    }
    message = "continues, because the experiment does"
    changes |= {"state": TrialState.PENDING, "reason": TrialReason.QUEUED, "message": message}
    if status.evaluation is not None:  # its training is over, for the scheduler, too
        changes["evaluation"] = status.evaluation.model_copy(update={**FORGIVEN, "result": {}})
        return status.model_copy(update=changes)
    if status.state is TrialState.ERROR:
        changes |= {"scheduler": {}, "rung_observations": [], **FORGIVEN}
    elif _was_paused_by_scheduler(status):
        changes |= {"state": TrialState.PAUSED, "reason": TrialReason.PAUSED_BY_SCHEDULER}
        changes |= {"retry_time": status.completion_time}
    return status.model_copy(update=changes)


def _restart(status: TrialStatus) -> TrialStatus:
    """The status of a trial that starts over: empty except for the number of attempts, their usage and the ledger."""
    return TrialStatus(
        observed_generation=status.observed_generation,
        state=TrialState.PENDING,
        reason=TrialReason.QUEUED,
        message="starts from scratch, because the experiment continues",
        attempt=status.attempt,
        pod=status.pod,
        last_attempt=status.last_attempt,
        usage=status.usage,
        ledger=status.ledger,
        conditions=status.conditions,
        transitions=status.transitions,
    )


def _was_paused_by_scheduler(status: TrialStatus) -> bool:
    """Whether a trial that was stopped with its experiment was paused then, by the scheduler."""
    stopped = status.decision is not None and status.decision.action is DecisionAction.STOP
    last = status.last_attempt
    return not stopped and last is not None and last.reason == TrialReason.PAUSED_BY_SCHEDULER
