"""A leader that another one has followed without its knowing: what that one has done is seen in any order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtune.api.names import TrialReason, TrialState
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import AttemptEnd, PodRef, TrialSpec, TrialStatus
from podtune.runner.actions import Action, CreatePod, DeletePod, WriteTrialStatus
from podtune.runner.experiment_machine import ExperimentMachine
from podtune.runner.records import Experiment, Pod, PodPhase, Trial
from podtune.runner.settings import RunnerSettings
from podtune.runner.steps import do_all
from tests.unit.runner.world.simulation import spec

SETTINGS = RunnerSettings()
FIRST = Pod("e-0-1", "first", "e-0", 1, PodPhase.RUNNING, 2, training=True)
SECOND = Pod("e-0-2", "second", "e-0", 2, PodPhase.RUNNING, 9, training=True)
RUNNING = TrialStatus(
    state=TrialState.RUNNING, reason=TrialReason.TRAINING, attempt=1, pod=PodRef(name="e-0-1", uid="first")
)
RETRIED = TrialStatus(
    state=TrialState.RUNNING,
    reason=TrialReason.TRAINING,
    attempt=2,
    disruptions=1,
    last_attempt=AttemptEnd(attempt=1, uid="first", failure_class="disruption", reason="EvictionByEvictionAPI"),
    pod=PodRef(name="e-0-2", uid="second"),
)
"""What the other leader has written: it has seen the first attempt's end and begun the second."""


@pytest.fixture
def machine() -> ExperimentMachine:
    made = spec(search={"algorithm": "random", "maxTrials": 1, "seed": 7})
    trial = Trial("e-0", "uid", 1, 1, TrialSpec(experiment="e", index=0, parameters={"learning_rate": "0.1"}), RUNNING)
    machine = ExperimentMachine(Experiment("ns", "e", "e-uid", 1, 1, made, ExperimentStatus()), SETTINGS)
    do_all(machine.restore([trial], [FIRST]))
    machine.decide(0.0)
    machine.observe_trial(replace(trial, version=8, status=RETRIED))
    return machine


def touches(actions: tuple[Action, ...]) -> list[Action]:
    """What would disturb the second attempt; the first one's pod may go."""
    disturbing = [action for action in actions if isinstance(action, CreatePod | DeletePod | WriteTrialStatus)]
    return [action for action in disturbing if not (isinstance(action, DeletePod) and action.uid == "first")]


def test_a_pod_that_a_status_names_and_that_is_not_seen_yet_is_waited_for(machine: ExperimentMachine) -> None:
    plan = machine.decide(1.0)
    assert touches(plan.actions) == []
    assert plan.wake <= 1.0 + SETTINGS.creation_timeout
    machine.observe_pod(SECOND)
    machine.observe_pod(replace(FIRST, gone=True, version=10))
    later = machine.decide(1.0 + 2 * SETTINGS.creation_timeout)
    assert touches(later.actions) == []


def test_it_is_taken_for_gone_if_it_does_not_show_up(machine: ExperimentMachine) -> None:
    machine.decide(1.0)
    machine.observe_pod(replace(FIRST, gone=True, version=10))
    plan = machine.decide(1.0 + SETTINGS.creation_timeout)
    (write,) = [action for action in plan.actions if isinstance(action, WriteTrialStatus)]
    assert write.status.disruptions == 2
    assert write.status.last_attempt.uid == "second"
