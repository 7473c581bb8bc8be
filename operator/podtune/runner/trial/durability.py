"""Compares a trial's status in the API server with the status that it should have."""

from __future__ import annotations

from podtune.api.resources.trial import TrialStatus
from podtune.runner.scheduling import clones
from podtune.runner.trial import ledger


def is_durable(saved: TrialStatus, status: TrialStatus) -> bool:
    """Whether the API server has all that the status should say of attempts, decisions, exploits and the end."""
    return (
        saved.last_attempt == status.last_attempt
        and saved.decision == status.decision
        and saved.retried_attempt == status.retried_attempt
        and saved.parameters == status.parameters
        and saved.run_generation == status.run_generation
        and saved.revision == status.revision
        and saved.limits == status.limits
        and saved.restore_source == status.restore_source
        and saved.former == status.former
        and clones.is_same(saved.clone, status.clone)
        and (saved.evaluation is None) == (status.evaluation is None)
        and saved.exploit == status.exploit
        and (status.state is None or not status.state.is_finished or _is_end_durable(saved, status))
    )


def _is_end_durable(saved: TrialStatus, status: TrialStatus) -> bool:
    """Whether the API server has the trial's end, and which checkpoints are kept of it."""
    return saved.state == status.state and saved.checkpoints == status.checkpoints


def is_start_durable(saved: TrialStatus, status: TrialStatus) -> bool:
    """Whether the API server has the reason for which the scheduler has picked the trial to run next."""
    return ledger.find_latest_start(saved) == ledger.find_latest_start(status)


def lacks_only_results(saved: TrialStatus, status: TrialStatus) -> bool:
    """Whether the API server lacks nothing of the status but results, which nothing rests on."""
    return (
        is_durable(saved, status)
        and saved.state == status.state
        and saved.scheduler == status.scheduler
        and saved.rung_observations == status.rung_observations
        and saved.checkpoints == status.checkpoints
        and saved.checkpoint_request == status.checkpoint_request
    )
