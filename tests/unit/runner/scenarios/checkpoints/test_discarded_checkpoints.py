"""Trials that are stopped and keep no checkpoint: nothing is waited for, nothing is lost, and nothing is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podtune.api.names import TrialReason, TrialState
from podtune.protocol.storage_job import StoragePurpose
from podtune.runner.actions import CreateStoragePod, DeletePod
from podtune.runner.checkpoints.retention import STOPPED_REASONS
from podtune.runner.settings import RunnerSettings
from tests.unit.runner.scenarios.checkpoints.test_slow_uploads import SHORT, few, keep_seen, programs
from tests.unit.runner.scenarios.test_properties import ASHA, PATIENT, moves, run, start, weathers
from tests.unit.runner.world import user_moves
from tests.unit.runner.world.checkpoint_invariants import assert_no_silent_loss
from tests.unit.runner.world.made_anew import MAY_REPEAT, assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, Weather, spec
from tests.unit.runner.world.weather import seeds

KEEP: dict[str, Any] = {"stopped": 0}
PODS = {"spec": {"containers": [{"name": "trial", "image": "example"}]}}
TWO: dict[str, Any] = {
    "search": {"algorithm": "random", "maxTrials": 2, "seed": 7},
    "maxConcurrentTrials": 1,
    "checkpoints": {"store": STORE, "keep": KEEP},
}
OFTEN_PRUNED = replace(PATIENT, prune_period=2.0)
best_counts = st.integers(1, 3)


def keep_best(count: int) -> dict[str, Any]:
    return {**SHORT, "keep": {"count": 2, "stopped": 0, "ofExperiment": {"best": count}}}


def stop_worse_trial(keep: Mapping[str, Any] = KEEP, **fields: Any) -> Simulation:
    """The second of two trials is stopped when it has reported two checkpoints, of which none is better."""
    checkpoints = {"store": STORE, "keep": keep}
    simulation = Simulation(
        spec(**{**TWO, "checkpoints": checkpoints, **fields}), Program(steps=60, checkpoint_every=1, upload=2.5)
    )
    run_until_trained(simulation, 1, iteration=2)
    simulation.api.edit_trial("e-1", desired_state="Stopped")
    return simulation


def run_until_trained(simulation: Simulation, index: int, iteration: int) -> None:
    name = f"e-{index}"
    simulation.run(until=lambda: name in simulation.api.trials and simulation.status(index).iteration >= iteration)


def run_until_ended(simulation: Simulation, index: int) -> None:
    simulation.run(until=lambda: simulation.status(index).state is TrialState.TERMINATED)


def assert_only_what_is_recorded_is_left(simulation: Simulation) -> None:
    recorded = {kept.uri for trial in simulation.api.trials.values() for kept in trial.status.checkpoints}
    assert set(simulation.bucket) == recorded


def test_a_stop_waits_for_no_checkpoint_and_calls_none_lost() -> None:
    simulation = stop_worse_trial()
    simulation.run(until=lambda: simulation.status(1).decision is not None)
    decided = simulation.now
    simulation.run(until=lambda: len(simulation.actions(DeletePod)) == 1)
    assert simulation.now - decided < 1
    run_until_ended(simulation, 1)
    status = simulation.status(1)
    assert (status.reason, status.decision.discards) == (TrialReason.STOPPED_BY_USER, True)
    assert (status.checkpoints, status.checkpoint, status.lost_checkpoint) == ([], None, None)
    assert not [uri for uri in simulation.bucket if "/e-1/" in uri], "its own agent has deleted them"
    simulation.run()
    assert_only_what_is_recorded_is_left(simulation)
    assert simulation.api.experiment.status.lost_checkpoints == 0


def test_a_stop_waits_for_no_agent_that_can_not_be_told() -> None:
    simulation = stop_worse_trial()
    simulation.unreachable = True
    simulation.run(until=lambda: simulation.status(1).decision is not None)
    decided = simulation.now
    simulation.run(until=lambda: len(simulation.actions(DeletePod)) == 1)
    assert simulation.now - decided < 1


def test_what_the_scheduler_stops_is_not_waited_for_either() -> None:
    worse_and_worse = Program(steps=9, checkpoint_every=1, upload=2.5, metric=lambda trial, step: step - 20.0 * trial)
    simulation = start(Weather(), worse_and_worse, seed=1, scheduler=ASHA, checkpoints=keep_best(1))
    simulation.run()
    statuses = [trial.status for trial in simulation.api.trials.values()]
    discarded = [status.decision.discards for status in statuses if status.reason == TrialReason.STOPPED_BY_SCHEDULER]
    assert discarded
    assert discarded.count(False) <= 1, "the best so far"


def test_a_stop_gives_no_pod_of_a_gang_time_for_checkpoints() -> None:
    """Ranks above 0 do not talk to the operator, so nobody tells them: the kubelet ends them with their program."""
    simulation = stop_worse_trial(trialTemplate={**PODS, "replicas": 3})
    run_until_ended(simulation, 1)
    deleted = {action.name: action.grace for action in simulation.actions(DeletePod) if action.trial == "e-1"}
    assert deleted == {f"e-1-1-{rank}": 30 for rank in range(3)}
    assert simulation.status(1).lost_checkpoint is None


def test_a_stop_waits_where_checkpoints_are_kept() -> None:
    simulation = stop_worse_trial(keep={"stopped": 1})
    simulation.run()
    status = simulation.status(1)
    assert not status.decision.discards
    assert [kept.step for kept in status.checkpoints] == [status.decision.step]
    assert_only_what_is_recorded_is_left(simulation)


def test_one_that_is_better_than_the_best_stores_its_last_checkpoint_and_displaces_it() -> None:
    simulation = Simulation(spec(**TWO), Program(steps=60, checkpoint_every=1, upload=0.5))
    for index in (0, 1):
        run_until_trained(simulation, index, iteration=2 + index)
        simulation.api.edit_trial(f"e-{index}", desired_state="Stopped")
        run_until_ended(simulation, index)
        assert len(simulation.status(index).checkpoints) == 1
    simulation.run()
    assert simulation.status(0).checkpoints == []
    assert simulation.api.experiment.status.best.checkpoint == simulation.status(1).checkpoint.uri
    assert_only_what_is_recorded_is_left(simulation)


def test_what_was_displaced_leaves_the_bucket_while_other_trials_run() -> None:
    three = {**TWO, "search": {"algorithm": "random", "maxTrials": 3, "seed": 7}}
    settings = RunnerSettings(prune_period=60.0)
    simulation = Simulation(spec(**three), Program(steps=200, checkpoint_every=1, upload=0.5), settings=settings)
    started = simulation.now
    for index in (0, 1):
        run_until_trained(simulation, index, iteration=2 + index)
        simulation.api.edit_trial(f"e-{index}", desired_state="Stopped")
        run_until_ended(simulation, index)
    simulation.run(until=lambda: simulation.status(0).checkpoints == [])
    assert [uri for uri in simulation.bucket if "/e-0/" in uri], "its agent was gone before"
    simulation.run(until=lambda: not [uri for uri in simulation.bucket if "/e-0/" in uri])
    assert simulation.status(2).state is TrialState.RUNNING
    assert simulation.now - started >= simulation.settings.prune_period
    simulation.run(until=lambda: not simulation.storage.pods)
    made = [action.purpose for action in simulation.storage.made]
    assert made == [StoragePurpose.PRUNE_STOPPED], "nothing was left since"
    assert [trial.trial for trial in simulation.storage.made[0].trials] == ["e-0", "e-1"]
    simulation.run()
    assert [action.purpose for action in simulation.storage.made] == [*made, StoragePurpose.PRUNE]


@few
@given(weathers, programs, seeds, best_counts, st.sampled_from([PATIENT, OFTEN_PRUNED]))
def test_of_stopped_trials_no_more_is_left_than_the_best_checkpoints(
    weather: Weather, program: Program, seed: int, best: int, settings: RunnerSettings
) -> None:
    simulation = start(weather, program, seed, settings, scheduler=ASHA, checkpoints=keep_best(best)).run()
    ended = [trial.status for trial in simulation.api.trials.values()]
    stopped = [status for status in ended if status.reason in STOPPED_REASONS]
    assert sum(len(status.checkpoints) for status in stopped) <= best
    for status in stopped:
        if status.decision is not None and status.decision.discards and status.lost_checkpoint is not None:
            assert status.lost_checkpoint.attempt < status.decision.attempt, "an earlier attempt has failed"
    assert_only_what_is_recorded_is_left(simulation)


@few
@given(weathers, programs, seeds, best_counts)
def test_exactly_what_else_is_lost_is_told(weather: Weather, program: Program, seed: int, best: int) -> None:
    """While an operator looks, and where a pod's end is to be seen at all."""
    weather, program = replace(weather, restarts=()), replace(program, faults=keep_seen(program.faults))
    assert_no_silent_loss(run(weather, program, seed, scheduler=ASHA, checkpoints=keep_best(best)))


@few
@given(weathers, programs, moves, seeds, best_counts)
def test_every_trial_ends_whatever_users_do(
    weather: Weather, program: Program, moves: list[tuple[float, str, int]], seed: int, best: int
) -> None:
    """The simulation watches over what agents and storage pods delete: nothing that is recorded or cloned."""
    simulation = start(weather, program, seed, OFTEN_PRUNED, scheduler=ASHA, checkpoints=keep_best(best))
    user_moves.assert_all_end(simulation, moves, trials=5)


@few
@given(weathers, programs, st.floats(0.0, 120.0), seeds, best_counts)
def test_a_machine_made_anew_agrees(weather: Weather, program: Program, moment: float, seed: int, best: int) -> None:
    simulation = start(weather, program, seed, OFTEN_PRUNED, scheduler=ASHA, checkpoints=keep_best(best)).run(moment)
    assert_made_anew_agrees(simulation, may_repeat=(*MAY_REPEAT, CreateStoragePod))
