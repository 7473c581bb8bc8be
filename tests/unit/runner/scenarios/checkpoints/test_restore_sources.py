"""Trials that start from another trial's checkpoint because a user says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from podtune.api.names import ExperimentState, TrialReason, TrialState
from podtune.api.resources.trial import Checkpoint
from podtune.runner.actions import ActionResult, ActionStatus, CreatePod, FindCheckpoint, WriteTrialStatus
from podtune.simulation.faults import Fault, ScheduledFault
from podtune.simulation.training_state import start_training
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, spec

THERE = Checkpoint(step=4, uri="s3://b/p/other-uid/other-3/a/4", digest="sha256:0004", metric="0.5")


NEWER = THERE.model_copy(update={"step": 8, "uri": "s3://b/p/other-uid/other-3/a/8"})


def start(
    restore_from: dict[str, Any], program: Program | None = None, first: dict[str, Any] | None = None, **fields: Any
) -> Simulation:
    """Of two trials the second starts from what it is told, and the first too where it is told of something."""
    defaults: dict[str, Any] = {
        "parameters": [{"name": "lr", "float": {"min": 0.0001, "max": 0.1}}],
        "search": {
            "algorithm": "random",
            "maxTrials": 2,
            "seed": 7,
            "initial": [
                {"parameters": {"lr": 0.01}} | ({"restoreFrom": first} if first else {}),
                {"parameters": {"lr": 0.02}, "restoreFrom": restore_from},
            ],
        },
        "maxConcurrentTrials": 2,
        "checkpoints": {"store": STORE, "keep": {"count": 2}},
    }
    return Simulation(spec(**defaults | fields), program or Program(steps=12, checkpoint_every=2))


def put_there(simulation: Simulation, checkpoint: Checkpoint = THERE) -> None:
    """The other experiment has the checkpoint, and it is in the bucket."""
    simulation.bucket.store("other-3", checkpoint.uri, replace(start_training({}), iteration=checkpoint.step))
    simulation.elsewhere = ActionResult(ActionStatus.DONE, checkpoint=checkpoint)


def actions_of(simulation: Simulation, index: int = 1) -> list[str]:
    return [entry.action for entry in simulation.status(index).ledger]


def test_a_trial_starts_from_another_ones_checkpoint_once_that_is_there() -> None:
    simulation = start({"trial": "e-0"})
    simulation.run(until=lambda: simulation.status_exists(1) and bool(simulation.status(1).reason))
    assert simulation.status(1).reason == TrialReason.WAITING_FOR_CHECKPOINT
    assert simulation.status(1).message == "waiting for a checkpoint of e-0 to start from"
    simulation.run(until=lambda: "e-1-1" in simulation.pods)
    restored = simulation.pods["e-1-1"].restored
    assert restored.step > 0
    assert "/e-0/" in restored.uri
    origin = simulation.status(1).restore_source
    assert (origin.uri, origin.step) == (restored.uri, restored.step)
    simulation.run()
    assert simulation.status(1).iteration == 12
    assert simulation.created_pods()[-1].spec.parameters["lr"] == "0.02", "the weights, not the configuration"
    assert actions_of(simulation)[0] == "RESTORE"
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE


def test_a_certain_step_is_waited_for() -> None:
    simulation = start({"trial": "e-0", "step": 6}).run()
    assert simulation.pods["e-1-1"].restored.step == 6


def test_what_is_needed_is_not_deleted_meanwhile() -> None:
    """The donor keeps one checkpoint, and goes on; the pod that is to start from an older one can't be made yet."""
    checkpoints = {"store": STORE, "keep": {"count": 1}}
    simulation = start({"trial": "e-0"}, Program(steps=30, checkpoint_every=1), checkpoints=checkpoints)
    simulation.fail(CreatePod, "quota", when=lambda action: action.trial == "e-1")
    simulation.run(20.0)
    origin = simulation.status(1).restore_source
    newest = simulation.status(0).checkpoint
    assert newest.step > origin.step + 3
    simulation.restart()
    simulation.refuse = lambda action: None
    simulation.run()
    assert simulation.pods["e-1-1"].restored.uri == origin.uri


def test_it_is_recorded_before_the_pod_is_made() -> None:
    simulation = start({"trial": "other-3", "experiment": "other"})
    put_there(simulation)
    simulation.fail(WriteTrialStatus, when=lambda action: action.status.restore_source)
    simulation.run(30.0)
    assert "e-1-1" not in simulation.pods
    simulation.refuse = lambda action: None
    simulation.run()
    assert simulation.pods["e-1-1"].restored.uri == THERE.uri
    assert simulation.status(1).iteration == 12


def test_another_experiments_checkpoint_is_asked_for_until_it_is_there() -> None:
    simulation = start({"trial": "other-3", "experiment": "other"}).run(100.0)
    assert simulation.status(1).message == "waiting for a checkpoint to start from: there is no such trial yet"
    asked = len(simulation.actions(FindCheckpoint))
    assert 3 <= asked < 15, "with a growing backoff"
    put_there(simulation)
    simulation.restart()
    simulation.run()
    assert simulation.pods["e-1-1"].restored.uri == THERE.uri


@pytest.mark.parametrize("elsewhere", [False, True])
def test_one_that_will_never_be_there_ends_the_trial(elsewhere: bool) -> None:
    wanted = {"trial": "other-3", "experiment": "other"} if elsewhere else {"trial": "e-0", "step": 5}
    simulation = start(wanted)
    simulation.elsewhere = ActionResult(ActionStatus.REFUSED, "other-3 ended without a checkpoint")
    simulation.run()
    status = simulation.status(1)
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.CHECKPOINT_UNAVAILABLE)
    found = "other-3 ended without a checkpoint" if elsewhere else "e-0 no longer has a checkpoint of iteration 5"
    assert status.message.startswith(f"spec.restoreFrom: {found}")
    assert status.message.endswith("; name another checkpoint, or set ifUnavailable: StartAfresh")
    assert "e-1-1" not in simulation.pods
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE


def test_or_has_it_start_afresh_where_that_is_asked_for() -> None:
    simulation = start({"trial": "e-0", "step": 5, "ifUnavailable": "StartAfresh"}).run()
    assert simulation.pods["e-1-1"].restored.step == 0
    assert simulation.status(1).state is TrialState.TERMINATED


@pytest.mark.parametrize(("policy", "state"), [("Fail", TrialState.ERROR), ("StartAfresh", TrialState.TERMINATED)])
def test_one_that_is_damaged(policy: str, state: TrialState) -> None:
    simulation = start({"trial": "other-3", "experiment": "other", "ifUnavailable": policy})
    put_there(simulation)
    simulation.bucket.damaged.add(THERE.uri)
    simulation.run()
    status = simulation.status(1)
    assert status.state is state
    if state is TrialState.ERROR:
        assert status.reason == TrialReason.CHECKPOINT_UNAVAILABLE
        assert "restoring the checkpoint failed" in status.message
    else:
        assert simulation.pods["e-1-2"].restored.step == 0


@pytest.mark.parametrize("restarted", [False, True])
def test_in_the_place_of_one_that_is_gone_another_is_looked_for(restarted: bool) -> None:
    """Its own experiment has deleted it since it was found, and keeps a newer one by now."""
    simulation = start({"trial": "other-3", "experiment": "other"})
    simulation.elsewhere = ActionResult(ActionStatus.DONE, checkpoint=THERE)
    simulation.run(until=lambda: simulation.status_exists(1) and bool(simulation.status(1).failed_restore_sources))
    assert simulation.status(1).message.endswith("will be retried from another checkpoint, if there is one")
    put_there(simulation, NEWER)
    if restarted:
        simulation.restart()
    simulation.run()
    status = simulation.status(1)
    assert simulation.pods["e-1-2"].restored.uri == NEWER.uri
    assert (status.state, status.iteration) == (TrialState.TERMINATED, 12)
    assert (status.failures, status.infrastructure_failures) == (0, 1)
    assert simulation.created_pods()[-1].spec.parameters["lr"] == "0.02", "the weights, not the configuration"
    assert [entry.action for entry in status.ledger][:3] == ["RESTORE", "RETRY", "RESTORE"]


def test_one_that_can_not_be_had_at_present_is_no_lost_one() -> None:
    program = Program(steps=12, checkpoint_every=2, faults={1: (ScheduledFault(Fault.STORE_AWAY),)})
    simulation = start({"trial": "other-3", "experiment": "other"}, program)
    put_there(simulation)
    simulation.run()
    assert simulation.pods["e-1-2"].restored.uri == THERE.uri
    assert simulation.status(1).failed_restore_sources == []


def test_a_damaged_one_gives_way_to_the_one_before() -> None:
    simulation = start({"trial": "e-0"}, Program(steps=12, checkpoint_every=2), maxConcurrentTrials=1)
    simulation.run(until=lambda: simulation.status_exists(0) and simulation.status(0).state is TrialState.TERMINATED)
    before, newest = simulation.status(0).checkpoints
    simulation.bucket.damaged.add(newest.uri)
    simulation.run()
    assert simulation.pods["e-1-2"].restored.uri == before.uri
    assert simulation.status(1).state is TrialState.TERMINATED


def test_trials_that_would_wait_for_each_other_end() -> None:
    simulation = start({"trial": "e-0"}, first={"trial": "e-1"}).run()
    statuses = [simulation.status(index) for index in (0, 1)]
    assert {status.state for status in statuses} == {TrialState.ERROR}
    assert {status.reason for status in statuses} == {TrialReason.CHECKPOINT_UNAVAILABLE}
    assert any("so neither would ever start" in status.message for status in statuses)
    assert simulation.api.experiment.status.state is ExperimentState.FAILED


def test_one_of_them_may_start_afresh_and_the_others_follow() -> None:
    policy = {"ifUnavailable": "StartAfresh"}
    simulation = start({"trial": "e-0"} | policy, first={"trial": "e-1"} | policy).run()
    restored = sorted(pod.restored.step for pod in simulation.pods.values())
    assert restored[0] == 0
    assert restored[1] > 0
    assert {simulation.status(index).state for index in (0, 1)} == {TrialState.TERMINATED}


def test_a_retry_starts_from_the_trials_own_checkpoint() -> None:
    program = Program(steps=12, checkpoint_every=2, faults={1: (ScheduledFault(Fault.EVICTED, 9),)})
    simulation = start({"trial": "other-3", "experiment": "other"}, program)
    put_there(simulation)
    simulation.run()
    assert simulation.pods["e-1-2"].restored.step == 8
    assert "/e-1/" in simulation.pods["e-1-2"].restored.uri
    assert simulation.status(1).iteration == 12


def test_a_trial_can_not_start_from_itself() -> None:
    simulation = start({"trial": "e-1"}).run()
    assert "there is no other trial e-1" in simulation.status(1).message


@pytest.mark.parametrize("moment", [1.0, 4.0, 7.0, 11.0])
def test_a_machine_made_anew_agrees(moment: float) -> None:
    simulation = start({"trial": "e-0"}).run(moment)
    assert_made_anew_agrees(simulation, may_repeat=())
