"""What is promised of checkpoints that are on their way when an attempt ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podtune.api.base import parse_duration
from podtune.api.names import DecisionAction, TrialReason
from podtune.api.resources.trial import TrialStatus
from podtune.runner.checkpoints.upload_waits import waits_for_checkpoint
from podtune.runner.scheduling import clones
from podtune.runner.timestamps import parse_rfc3339

if TYPE_CHECKING:
    from tests.unit.runner.world.simulated_pod import SimulatedPod
    from tests.unit.runner.world.simulation import Simulation


def assert_stored_first(simulation: Simulation, pod: SimulatedPod, status: TrialStatus) -> None:
    """A pod is deleted for a stop or a pause once the newest checkpoint is stored that was reported before.

    Unless that has taken longer than it may, or its agent has not been heard since the operator was started.
    """
    decision, spec = status.decision, simulation.api.experiment.spec
    assert spec is not None
    is_of_use = decision is not None and not decision.discards and decision.reason != TrialReason.STORE_UNUSABLE
    if decision is None or not is_of_use or not waits_for_checkpoint(decision) or clones.is_superseded(status):
        return
    limit = (parse_rfc3339(decision.time) or 0.0) + parse_duration(spec.checkpoints.sync.timeout)
    if simulation.now >= limit or not simulation.hears(pod.attempt):
        return
    assert not pod.agent.uploads.lacks(decision.seq), f"{pod.name} is deleted before its checkpoint is stored"


def assert_no_silent_loss(simulation: Simulation) -> None:
    """Exactly those attempts have lost a checkpoint, by their trials, that have.

    Of one that was stopped or paused, what it has reported since is no loss; nor is anything of one that was stopped
    and keeps no checkpoint.
    """
    lost: dict[str, int] = {}
    for pod in simulation.pods.values():
        if pod.agent.uploads.is_lost(_find_last_that_counts(simulation, pod)):
            lost[pod.trial] = lost.get(pod.trial, 0) + 1
    for name, trial in simulation.api.trials.items():
        told = trial.status.lost_checkpoint
        assert (told.attempts if told is not None else 0) == lost.get(name, 0), f"{name}: {told}"


def _find_last_that_counts(simulation: Simulation, pod: SimulatedPod) -> float:
    """The `seq` of the last result of a pod whose checkpoint is missed if it is not stored."""
    trial = simulation.api.trials.get(pod.trial)
    decision = trial.status.decision if trial is not None else None
    if decision is None or decision.action is not DecisionAction.STOP or pod.name != f"{pod.trial}-{decision.attempt}":
        return float("inf")
    return 0 if decision.discards else decision.seq
