"""How much is asked of the API server, and what is left there in the end."""

from __future__ import annotations

import cProfile
import pstats
from collections import Counter

import pytest

from podtune.api.names import TrialReason, TrialState
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import AttemptEnd, PodRef, TrialSpec, TrialStatus
from podtune.runner.actions import (
    ActionResult,
    ActionStatus,
    DeleteFinishedPods,
    DeletePod,
    EmitEvent,
    WriteTrialStatus,
)
from podtune.runner.experiment.planner import CHANGED_AT_A_TIME
from podtune.runner.experiment.status_write_throttle import StatusWriteThrottle
from podtune.runner.experiment_machine import ExperimentMachine
from podtune.runner.records import Experiment, Pod, PodPhase, Trial, Waiting
from podtune.runner.settings import RunnerSettings
from podtune.runner.steps import do_all
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import Simulation, Weather, spec

ONE = {"search": {"algorithm": "random", "maxTrials": 1, "seed": 7}}
MANY = {"search": {"algorithm": "random", "maxTrials": 100, "seed": 7}, "maxConcurrentTrials": 20}
LENIENT = {"objective": {"metric": "accuracy", "mode": "max", "missing": "lenient"}}
"""Pods without an agent report nothing, and come to a good end all the same."""
BACKOFF = {"initial": "1s", "max": "1s"}


def states(simulation: Simulation, index: int = 0) -> list[tuple[TrialState | None, str]]:
    return [(action.status.state, action.status.reason) for action in simulation.writes_of(f"e-{index}")]


def test_a_trial_that_nothing_happens_to_needs_two_statuses_and_a_share_of_a_bulk_deletion() -> None:
    simulation = Simulation(spec(**MANY, **LENIENT), Program(steps=1, silent=True)).run().run(100.0)
    writes = simulation.api.writes
    assert set(simulation.api.status_writes.values()) == {2}
    assert (writes["create-trial"], writes["create-pod"], writes["trial-status"]) == (100, 100, 200)
    assert writes["delete-pods"] <= 5
    assert "delete-pod" not in writes
    assert simulation.api.pods == {}
    assert states(simulation) == [
        (TrialState.RUNNING, TrialReason.TRAINING),
        (TrialState.TERMINATED, TrialReason.COMPLETED),
    ]


def test_a_pod_that_is_seen_only_when_it_has_ended_needs_one_status() -> None:
    program = Program(steps=1, seconds=0.1, silent=True)
    simulation = Simulation(spec(**ONE, **LENIENT), program, Weather(watch_delay=0.0))
    simulation.run(until=lambda: "e-0-1" in simulation.pods)
    simulation.frozen = True
    simulation.run(1.0)
    simulation.api.update_pod("e-0-1", phase=PodPhase.SUCCEEDED, training=True, started=simulation.now)
    simulation.run()
    assert states(simulation) == [(TrialState.TERMINATED, TrialReason.COMPLETED)]
    assert simulation.status().start_time is not None
    assert simulation.status().message == "ended by itself, but accuracy was never reported; metrics seen: none"


def test_a_pod_that_waits_is_explained_after_a_while() -> None:
    simulation = Simulation(spec(**ONE), Program(silent=True))
    simulation.run(until=lambda: "e-0-1" in simulation.pods)
    simulation.frozen = True
    waiting = Waiting("Unschedulable", "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")
    simulation.api.update_pod("e-0-1", waiting=waiting)
    simulation.run(1.0)
    assert states(simulation) == []
    simulation.run(10.0)
    assert states(simulation) == [(TrialState.PENDING, TrialReason.UNSCHEDULABLE)]
    assert simulation.status().message == "Unschedulable: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    for nodes in range(3, 20):
        simulation.api.update_pod("e-0-1", waiting=Waiting("Unschedulable", f"0/{nodes} nodes are available"))
        simulation.run(2.0)
    assert len(states(simulation)) == 2, "other words for the same reason can wait"


def test_results_are_written_once_in_the_debounce_time() -> None:
    simulation = Simulation(spec(**ONE), Program(steps=300, seconds=0.1)).run()
    assert simulation.api.status_writes["e-0"] <= 2 + 30 / simulation.settings.result_debounce + 1


def test_a_result_that_meets_the_write_of_its_trials_begin_waits_like_those_after_it() -> None:
    settings = RunnerSettings(running_debounce=2.0, result_debounce=60.0)
    simulation = Simulation(spec(**ONE), Program(steps=99, seconds=0.1), Weather(latency=1.0), settings=settings).run()
    assert [state for state, _ in states(simulation)] == [TrialState.RUNNING, TrialState.TERMINATED]


def test_results_of_a_pod_that_is_not_yet_seen_to_run_wait_a_little() -> None:
    settings = RunnerSettings(running_debounce=2.0, result_debounce=60.0)
    simulation = Simulation(spec(**ONE), Program(steps=99, seconds=0.1), Weather(watch_delay=1.9), settings=settings)
    simulation.run()
    assert [state for state, _ in states(simulation)] == [TrialState.RUNNING, TrialState.TERMINATED]


def test_results_of_a_crowd_are_written_less_often() -> None:
    at_once = {"search": {"algorithm": "random", "maxTrials": 20, "seed": 7}, "maxConcurrentTrials": 20}
    simulation = Simulation(
        spec(**at_once), Program(steps=300, seconds=0.1), settings=RunnerSettings(throttle_above_trials=5)
    ).run()
    assert max(simulation.api.status_writes.values()) <= 2 + 30 / (4 * simulation.settings.result_debounce) + 2
    assert {trial.status.iteration for trial in simulation.api.trials.values()} == {300}


def test_among_many_experiments_each_writes_its_own_status_less_often() -> None:
    throttle = StatusWriteThrottle()
    for number in range(299):
        throttle.update(f"other-{number}", 1)
    search = {"search": {"algorithm": "random", "maxTrials": 30, "seed": 7}, "maxConcurrentTrials": 1}
    alone, crowded = (
        Simulation(spec(**search), Program(steps=2), throttle=others).run() for others in (None, throttle)
    )
    ends = {one.api.experiment.status.completion_time for one in (alone, crowded)}
    assert len(ends) == 1, "its end is no news that could wait"
    assert crowded.api.writes["experiment-status"] < alone.api.writes["experiment-status"] / 3
    assert crowded.api.experiment.status.trials.terminated == 30


def test_nothing_waits_for_a_status_that_holds_results_alone() -> None:
    simulation = Simulation(spec(**ONE), Program(steps=300, seconds=0.1)).run()
    begin, *middle, end = simulation.writes_of("e-0")
    assert not begin.routine
    assert middle
    assert all(write.routine for write in middle)
    assert not end.routine


@pytest.mark.parametrize("status", [ActionStatus.FAILED, ActionStatus.REFUSED])
def test_a_status_that_can_not_be_written_is_tried_with_a_growing_backoff(status: ActionStatus) -> None:
    simulation = Simulation(spec(**ONE), Program(steps=10**6))
    simulation.fail(WriteTrialStatus, "no", status=status)
    simulation.run(600.0)
    assert 5 <= len(simulation.actions(WriteTrialStatus)) <= 30


# Pods that have ended


def names(simulation: Simulation) -> set[str]:
    return set(simulation.api.pods)


TIDY = RunnerSettings(finished_pods=0)


def crashed_once(retention: str) -> Simulation:
    program = Program(steps=8, faults={0: (ScheduledFault(Fault.CRASH, 3), ScheduledFault(Fault.CRASH, 5))})
    fields = {"podRetention": retention, "failures": {"backoff": BACKOFF}}
    simulation = Simulation(spec(**{**fields, "maxConcurrentTrials": 1}), program, settings=TIDY)
    return simulation.run(until=lambda: simulation.status_exists() and simulation.status().iteration > 6)


def test_finished_pods_can_be_looked_at_for_a_while() -> None:
    simulation = Simulation(spec(maxConcurrentTrials=1), Program(steps=100, seconds=3.0))
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().state is TrialState.TERMINATED)
    simulation.run(590.0)
    assert "e-0-1" in names(simulation)
    simulation.run(20.0)
    assert "e-0-1" not in names(simulation)


def test_when_there_are_too_many_the_first_to_end_go_first() -> None:
    settings = RunnerSettings(finished_pods=2)
    simulation = Simulation(spec(maxConcurrentTrials=1), settings=settings)
    simulation.run(until=lambda: simulation.status_exists(3))
    simulation.run(2.0)
    assert names(simulation) & {"e-0-1", "e-1-1", "e-2-1"} <= {"e-1-1", "e-2-1"}


def test_the_last_failed_pod_of_a_trial_is_kept() -> None:
    assert names(crashed_once("Failed")) == {"e-0-2", "e-0-3"}


def test_no_pod_is_kept() -> None:
    assert names(crashed_once("None")) == {"e-0-3"}


HOUR = 3600.0


def test_all_pods_are_kept_until_an_hour_after_the_experiments_end() -> None:
    simulation = crashed_once("All")
    simulation.run(until=lambda: simulation.is_over)
    simulation.run(HOUR - 60.0)
    assert names(simulation) >= {"e-0-1", "e-0-2", "e-0-3", "e-3-1"}
    simulation.run(90.0)
    assert names(simulation) == set()


def test_the_failed_pod_of_a_trial_that_came_to_a_good_end_goes() -> None:
    simulation = crashed_once("Failed")
    simulation.run(until=lambda: simulation.status().state is TrialState.TERMINATED)
    simulation.run(8.0)
    assert not names(simulation) & {"e-0-1", "e-0-2", "e-0-3"}


def failed(trials: int = 1, settings: RunnerSettings | None = None, **fields: object) -> Simulation:
    """The first so many trials of an experiment fail."""
    program = Program(steps=8, faults={index: (ScheduledFault(Fault.CRASH, 3),) for index in range(trials)})
    chosen = {"failures": {"maxFailures": 0}, "maxConcurrentTrials": 1, **fields}
    return Simulation(spec(**chosen), program, settings=settings or RunnerSettings())


@pytest.mark.parametrize("restarts", [True, False])
def test_the_pod_of_a_trial_in_error_outlives_the_experiment_for_its_time(*, restarts: bool) -> None:
    simulation = failed(podRetentionTime="10m")
    simulation.run(until=lambda: simulation.is_over)
    simulation.run(540.0)
    assert names(simulation) == {"e-0-1"}
    if restarts:
        simulation.restart()
        simulation.run(30.0)
        assert names(simulation) == {"e-0-1"}, "the time counts from the end on record"
    simulation.run(90.0)
    assert names(simulation) == set()


def test_no_pod_outlives_an_experiment_whose_user_wants_none() -> None:
    simulation = failed(podRetentionTime="0s")
    simulation.run(until=lambda: simulation.status_exists(3) and simulation.status(3).iteration > 3)
    assert "e-0-1" in names(simulation)
    simulation.run(until=lambda: simulation.is_over)
    simulation.run(30.0)
    assert names(simulation) == set()


def test_the_time_can_be_changed_after_the_end() -> None:
    simulation = failed()
    simulation.run(until=lambda: simulation.is_over)
    simulation.edit_spec(pod_retention_time="1m")
    simulation.run(90.0)
    assert names(simulation) == set()


def test_of_too_many_failed_trials_the_pods_of_the_last_outlive_the_experiment() -> None:
    simulation = failed(3, RunnerSettings(retained_pods=2))
    simulation.run(until=lambda: simulation.is_over)
    simulation.run(30.0)
    assert names(simulation) == {"e-1-1", "e-2-1"}
    simulation.restart()
    simulation.run(30.0)
    assert names(simulation) == {"e-1-1", "e-2-1"}


def test_a_bulk_deletion_that_fails_is_tried_again() -> None:
    simulation = Simulation(spec())
    broken = True
    simulation.fail(DeleteFinishedPods, when=lambda action: broken)
    simulation.run(60.0)
    assert len(names(simulation)) == 4
    broken = False
    simulation.run(100.0)
    assert names(simulation) == set()


def test_nothing_is_asked_for_once_all_is_done() -> None:
    simulation = failed().run()
    simulation.run(100.0)
    asked = len(simulation.log)
    simulation.run(100_000.0)
    assert len(simulation.log) == asked
    simulation.restart()
    simulation.run(1000.0)
    assert len(simulation.log) == asked


def test_pods_left_over_by_a_dead_operator_are_cleaned_up() -> None:
    simulation = Simulation(spec())
    simulation.refuse = lambda action: (
        ActionResult(ActionStatus.FAILED, "busy") if isinstance(action, DeleteFinishedPods | DeletePod) else None
    )
    simulation.run(until=lambda: simulation.is_over)
    simulation.restart()
    simulation.refuse = lambda action: None
    simulation.run(30.0)
    assert names(simulation) == set()


def test_events_are_emitted_for_what_went_wrong_and_not_tried_again() -> None:
    simulation = Simulation(
        spec(**ONE, failures={"backoff": BACKOFF}), Program(faults={0: (ScheduledFault(Fault.CRASH, 1),)})
    )
    simulation.fail(EmitEvent)
    simulation.run()
    events = simulation.actions(EmitEvent)
    assert [(event.trial, event.reason, event.warning) for event in events] == [("e-0", "Error", True)]


# The cost of a decision


def finished(count: int) -> ExperimentMachine:
    """A machine of so many finished trials and one that runs."""
    made = spec(search={"algorithm": "random", "maxTrials": count + 1, "seed": 7}, maxConcurrentTrials=1)
    done = TrialStatus(
        state=TrialState.TERMINATED,
        reason="Completed",
        observation_seq=0,
        best={"accuracy": "0.5"},
        last_attempt=AttemptEnd(attempt=1, uid="uid", failure_class="complete", reason="Completed"),
        pod=PodRef(name="gone", uid="uid"),
    )
    trials = [
        Trial(f"e-{i}", f"uid-{i}", 1, 1, spec_of(i), done.model_copy(update={"observation_seq": i}))
        for i in range(count)
    ]
    trials.append(Trial(f"e-{count}", f"uid-{count}", 1, 1, spec_of(count), TrialStatus()))
    experiment = Experiment("ns", "e", "e-uid", 1, 1, made, ExperimentStatus())
    machine = ExperimentMachine(experiment, RunnerSettings())
    do_all(machine.restore(trials, []))
    for _ in range(1 + len(trials) // CHANGED_AT_A_TIME):
        for action in machine.decide(0.0).actions:
            machine.on_action_result(action, ActionResult(ActionStatus.DONE), 0.0)
    machine.observe_pod(Pod(f"e-{count}-1", "p", f"e-{count}", 1, PodPhase.RUNNING, 2, training=True))
    machine.decide(1.0)
    return machine


def spec_of(index: int) -> TrialSpec:
    return TrialSpec(experiment="e", index=index, parameters={"learning_rate": "0.1"})


def calls_of_a_decision(count: int) -> Counter[str]:
    """How often each function is called for one event of one trial."""
    machine = finished(count)
    profile = cProfile.Profile()
    profile.enable()
    machine.observe_pod(Pod(f"e-{count}-1", "p", f"e-{count}", 1, PodPhase.RUNNING, 3, training=True, node="n2"))
    machine.decide(2.0)
    profile.disable()
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return Counter({f"{file}:{name}": calls for (file, _, name), (calls, *_) in stats.items()})


def test_the_cost_of_an_event_does_not_grow_with_the_number_of_trials() -> None:
    few, many = calls_of_a_decision(100), calls_of_a_decision(2000)
    assert sum(many.values()) == pytest.approx(sum(few.values()), rel=0.02), many - few
