"""A checkpoint that was reported and is lost all the same is said where people look."""

from __future__ import annotations

import math

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, TrialReason, TrialState
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import CheckpointCommit, FinalCommit, Report, Result, Unstored
from podtune.runner.records import ContainerEnd, PodPhase
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, spec

TWO = {"search": {"algorithm": "random", "maxTrials": 2, "seed": 7}, "checkpoints": {"store": STORE}}
NO_TIME = "there is no time left; raise checkpoints.drain"
LOST = f"the checkpoint of iteration 4 is lost; no checkpoint is stored: {NO_TIME}"


def events(simulation: Simulation) -> list[tuple[str, str]]:
    return [(event.trial, event.message) for event in simulation.events if event.reason == "CheckpointLost"]


def test_a_checkpoint_that_is_lost_at_a_good_end_is_said_by_trial_event_and_experiment() -> None:
    simulation = Simulation(spec(**TWO), Program(checkpoint_every=2, upload=math.inf)).run()
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.TERMINATED, TrialReason.COMPLETED)
    assert status.message.endswith(f"; {LOST}")
    condition = find_condition(status.conditions, ConditionType.CHECKPOINTS_STORED)
    assert (condition.status, condition.reason, condition.message) == ("False", "CheckpointLost", LOST)
    assert sorted(events(simulation)) == [("e-0", LOST), ("e-1", LOST)]
    whole = simulation.api.experiment.status
    assert whole.lost_checkpoints == 2
    condition = find_condition(whole.conditions, ConditionType.CHECKPOINTS_STORED)
    assert (condition.status, condition.reason) == ("False", "CheckpointsLost")
    assert condition.message == f"2 attempts ended before the newest checkpoint was stored; e-0: {LOST}"


def test_nothing_is_said_where_nothing_is_lost() -> None:
    simulation = Simulation(spec(**TWO), Program(checkpoint_every=2)).run()
    assert simulation.status().lost_checkpoint is None
    assert events(simulation) == []
    whole = simulation.api.experiment.status
    assert (whole.lost_checkpoints, find_condition(whole.conditions, ConditionType.CHECKPOINTS_STORED)) == (0, None)


def test_a_pod_that_vanishes_has_lost_what_its_agent_was_storing_by_its_last_report() -> None:
    program = Program(steps=8, checkpoint_every=2, upload=2.5, faults={0: (ScheduledFault(Fault.VANISHED, 5),)})
    simulation = Simulation(spec(**TWO), program).run()
    message = "the checkpoint of iteration 4 is lost; the newest stored one is from iteration 2"
    assert events(simulation) == [("e-0", message)]
    assert simulation.status().lost_checkpoint is not None
    assert simulation.pods["e-0-2"].restored.step == 2


def test_a_pause_says_that_it_has_no_checkpoint_of_what_it_asked_for() -> None:
    fields = {**TWO, "checkpoints": {"store": STORE, "sync": {"timeout": "90s"}}}
    simulation = Simulation(spec(**fields), Program(steps=10**6, upload=math.inf)).run(5.5)
    simulation.api.edit_trial("e-0", desired_state="Paused")
    simulation.run(until=lambda: simulation.status().state is TrialState.PAUSED)
    assert simulation.status().message == (
        "spec.desiredState is Paused; it will start from scratch (no checkpoint); "
        "the checkpoint of iteration 6 is lost; no checkpoint is stored: there is no time left; raise checkpoints.drain"
    )


def test_what_is_reported_after_a_stop_is_no_loss() -> None:
    program = Program(steps=10**6, checkpoint_every=2, upload=40.0)
    simulation = Simulation(spec(**TWO, stop={"metrics": {"training_iteration": 3}}), program).run()
    assert simulation.pods["e-0-1"].agent.uploads.is_lost(float("inf")), "that of iteration 4, or of a later one"
    assert simulation.status().checkpoint is not None
    assert simulation.status().lost_checkpoint is None


def test_the_count_outlives_the_operator() -> None:
    simulation = Simulation(spec(**TWO, maxConcurrentTrials=1), Program(checkpoint_every=2, upload=math.inf))
    simulation.run(until=lambda: simulation.api.experiment.status.lost_checkpoints == 1)
    simulation.restart()
    simulation.run()
    assert simulation.api.experiment.status.lost_checkpoints == 2


def test_what_an_agent_has_reported_as_stored_is_not_lost_by_its_last_word_from_before() -> None:
    """It was killed before it could write that down, too."""
    simulation = Simulation(spec(**TWO), Program(steps=10**6, silent=True))
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().state is TrialState.RUNNING)
    pod = simulation.pods["e-0-1"]
    reported = Result(1, 0.0, {"training_iteration": 4, "accuracy": 0.5}, 4, checkpoint=True)
    last_word = FinalCommit(
        pod.uid, seq=1, acked_seq=0, last=reported, unstored=Unstored(1, 1, 4, waits=True), done=True
    )
    stored = CheckpointCommit(CheckpointRef(f"{simulation.prefix}e-0/{pod.uid}/4", "sha256:0004", 4), 1, 0.5)
    simulation.machine.report(
        "e-0", "e-0-1", Report(pod.uid, results=(reported,), checkpoints=(stored,)), simulation.now
    )
    ends = (ContainerEnd("trial", 0),)
    simulation.api.update_pod("e-0-1", phase=PodPhase.SUCCEEDED, ends=ends, agent_message=last_word.to_json())
    simulation.run(until=lambda: simulation.status().state is TrialState.TERMINATED)
    assert simulation.status().checkpoint is not None
    assert simulation.status().lost_checkpoint is None
    assert events(simulation) == []
