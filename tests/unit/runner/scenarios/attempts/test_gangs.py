"""A trial of several pods: they begin, are placed and end together, and count as one attempt."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.api.names import DesiredState, ExperimentState, TrialReason, TrialState
from podtune.protocol.messages import Report
from podtune.runner.actions import ActionResult, ActionStatus, CreatePod, DeletePod, OpenGates
from podtune.runner.attempts import grace_periods
from podtune.runner.attempts.classification import FailureClass
from podtune.runner.experiment_machine import Unaccepted
from podtune.runner.settings import RunnerSettings
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, Weather, spec
from tests.unit.runner.world.weather import Faults, any_weather, seeds

PODS = {"spec": {"containers": [{"name": "trial", "image": "example"}]}}
BACKOFF = {"initial": "1s", "max": "4s"}
STEPS = 5


def gangs(replicas: int = 4, trials: int = 1, **fields: Any) -> Any:
    template = {**PODS, "replicas": replicas, "placementTimeout": "60s"}
    defaults: dict[str, Any] = {
        "trialTemplate": template,
        "search": {"algorithm": "random", "maxTrials": trials, "seed": 7},
        "checkpoints": {"store": STORE},
        "failures": {"backoff": BACKOFF, "maxFailures": 3, "maxDisruptions": 8},
    }
    return spec(**{**defaults, **fields})


def names(simulation: Simulation) -> list[str]:
    return sorted(simulation.api.pods)


def test_the_pods_of_a_gang_run_once_all_are_there() -> None:
    simulation = Simulation(gangs(), Program(steps=STEPS))
    simulation.run(until=lambda: bool(simulation.actions(OpenGates)))
    assert names(simulation) == ["e-0-1-0", "e-0-1-1", "e-0-1-2", "e-0-1-3"]
    assert not any(pod.training for pod in simulation.api.pods.values())
    simulation.run()
    status = simulation.status()
    assert (status.state, status.attempt, status.iteration) == (TrialState.TERMINATED, 1, STEPS)
    assert status.pod.name == "e-0-1-0"
    assert simulation.api.writes["create-pod"] == 4


def test_a_gang_runs_only_with_all_its_pods() -> None:
    """Rank 2 can't be made, for want of quota say: the others stay behind their gate and take nothing."""
    simulation = Simulation(gangs(), Program(steps=STEPS))

    def no_room(action: object) -> ActionResult | None:
        if not isinstance(action, CreatePod):
            return None
        for rank in range(2):
            if action.format_name(rank) not in simulation.api.pods:
                simulation._create_rank(action, rank)
        return ActionResult(ActionStatus.FAILED, "exceeded quota")

    simulation.refuse = no_room
    simulation.run(20.0)
    assert [pod.gated for pod in simulation.api.pods.values()] == [True, True]
    assert simulation.actions(OpenGates) == []
    assert "exceeded quota" in simulation.status().message
    simulation.refuse = lambda action: None
    simulation.run()
    assert simulation.status().state is TrialState.TERMINATED
    assert simulation.api.writes["create-pod"] == 4


def test_an_attempt_of_one_pod_has_no_gate_and_its_old_name() -> None:
    simulation = Simulation(gangs(replicas=1), Program(steps=STEPS)).run()
    assert [action.name for action in simulation.created_pods()] == ["e-0-1"]
    assert simulation.actions(OpenGates) == []


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("kind", [Fault.OOM, Fault.CRASH, Fault.DISK])
def test_a_rank_that_fails_is_one_failure(kind: Fault, rank: int) -> None:
    program = Program(steps=STEPS, checkpoint_every=1, faults={0: (ScheduledFault(kind, 3, rank=rank),)})
    simulation = Simulation(gangs(), program).run()
    status = simulation.status()
    assert (status.state, status.attempt) == (TrialState.TERMINATED, 2)
    assert (status.failures, status.disruptions) == (1, 0)
    assert simulation.pods["e-0-2-0"].restored.step > 0, "it began afresh"
    assert simulation.api.attempts["e-0"] == [FailureClass.USER, FailureClass.COMPLETE]


@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("kind", [Fault.EVICTED, Fault.TRAPPED, Fault.DELETED, Fault.VANISHED])
def test_a_rank_that_is_taken_away_spends_no_failure(kind: Fault, rank: int) -> None:
    program = Program(steps=STEPS, checkpoint_every=1, faults={0: (ScheduledFault(kind, 3, rank=rank),)})
    simulation = Simulation(gangs(), program).run()
    status = simulation.status()
    assert (status.state, status.attempt) == (TrialState.TERMINATED, 2)
    assert (status.failures, status.disruptions) == (0, 1)


def test_the_others_are_deleted_once_it_is_recorded_which_rank_has_ended() -> None:
    program = Program(steps=100, faults={0: (ScheduledFault(Fault.OOM, 3, rank=2),)})
    simulation = Simulation(gangs(), program)
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().decision is not None)
    decision = simulation.status().decision
    assert (decision.action, decision.reason, decision.ranks) == ("END", TrialReason.RANK_ENDED, [2])
    simulation.run(until=lambda: simulation.status().last_attempt is not None)
    ended = simulation.status().last_attempt
    assert (ended.reason, ended.attempt) == ("OOMKilled", 1)
    assert simulation.status().decision is None


def test_a_preempted_rank_explains_the_failure_of_another() -> None:
    """Rank 1 fails at once when rank 3 is preempted, and is seen to have ended before."""
    simulation = Simulation(gangs(), Program(steps=100)).run(5.0)
    api = simulation.api
    api.update_pod("e-0-1-3", disruption="PreemptionByScheduler: preempted", deleting=True)
    simulation.pods["e-0-1-1"]._struck(ScheduledFault(Fault.CRASH))
    simulation.after(2.0, lambda: simulation.pods["e-0-1-3"]._terminate(143))
    simulation.run(until=lambda: simulation.status().last_attempt is not None)
    assert (simulation.status().failures, simulation.status().disruptions) == (0, 1)


def test_a_preemption_that_shows_after_another_rank_has_failed_still_explains_it() -> None:
    simulation = Simulation(gangs(), Program(steps=100)).run(5.0)
    simulation.pods["e-0-1-1"]._struck(ScheduledFault(Fault.CRASH))
    simulation.run(until=lambda: simulation.status().decision is not None)
    simulation.api.update_pod("e-0-1-3", disruption="PreemptionByScheduler: preempted")
    simulation.run(until=lambda: simulation.status().last_attempt is not None)
    assert (simulation.status().failures, simulation.status().disruptions) == (0, 1)


def test_pods_that_an_operator_lost_sight_of_end_the_attempt() -> None:
    simulation = Simulation(gangs(), Program(steps=20, checkpoint_every=1))
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().state is TrialState.RUNNING)
    simulation.restart()
    simulation.api.remove_pod("e-0-1-2")
    simulation.run()
    status = simulation.status()
    assert (status.state, status.failures, status.disruptions) == (TrialState.TERMINATED, 0, 1)


def test_a_gang_that_is_placed_in_part_gives_its_places_back_and_counts_nothing() -> None:
    simulation = Simulation(gangs(), Program(steps=100), places=3)
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().last_attempt is not None)
    status = simulation.status()
    assert "only 3 of 4 pods found a node" in status.message
    assert (status.failures, status.disruptions, status.state) == (0, 0, TrialState.PENDING)
    assert status.reason == TrialReason.NOT_PLACED
    simulation.run(until=lambda: simulation.api.pods == {})
    simulation.places = 4
    simulation.run()
    assert simulation.status().state is TrialState.TERMINATED


def test_ranks_of_a_gang_that_was_placed_in_part_get_no_time_to_store_a_checkpoint() -> None:
    """They can have none, though nothing was heard of the agents."""
    simulation = Simulation(gangs(), Program(steps=100, silent=True), places=3)
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().last_attempt is not None)
    assert simulation.status().reason == TrialReason.NOT_PLACED
    assert {action.grace for action in simulation.actions(DeletePod)} == {grace_periods.DEFAULT}


def test_one_gang_of_an_experiment_is_placed_at_a_time() -> None:
    simulation = Simulation(gangs(3, trials=4, maxConcurrentTrials=4), Program(steps=STEPS), places=5).run(2.0)
    waiting = simulation.actions(CreatePod)
    assert len({action.trial for action in waiting}) == 2, "a third gang takes places that the second waits for"
    simulation.run(6.0)
    assert "waiting until all pods of e-1 are on a node" in {simulation.status(i).message for i in (2, 3)}
    assert simulation.run().api.experiment.status.state is ExperimentState.COMPLETE
    assert all(action.attempt == 1 for action in simulation.created_pods()), "places were given back needlessly"


def test_gangs_that_kueue_admits_need_no_turn() -> None:
    template = {**PODS, "replicas": 3, "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "team"}}}
    experiment = gangs(trials=4, maxConcurrentTrials=4, trialTemplate=template)
    simulation = Simulation(experiment, Program(steps=STEPS), places=5).run(2.0)
    assert len({action.trial for action in simulation.actions(CreatePod)}) == 4


def test_a_rank_that_hangs_after_rank_0_has_ended_is_ended_by_the_run_deadline() -> None:
    failures = {"backoff": BACKOFF, "maxFailures": 0, "runDeadline": "5m"}
    program = Program(steps=STEPS, faults={0: (ScheduledFault(Fault.HUNG, 2, rank=1),)})
    simulation = Simulation(gangs(2, failures=failures), program).run()
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.RUN_DEADLINE_EXCEEDED)


@pytest.mark.parametrize("wish", [DesiredState.STOPPED, DesiredState.PAUSED])
def test_a_wish_takes_all_pods_away(wish: DesiredState) -> None:
    simulation = Simulation(gangs(), Program(steps=100, checkpoint_every=1)).run(5.0)
    simulation.api.edit_trial("e-0", desired_state=wish)
    simulation.run(30.0)
    state = TrialState.TERMINATED if wish is DesiredState.STOPPED else TrialState.PAUSED
    assert simulation.status().state is state
    assert all(pod.phase.is_finished for pod in simulation.api.pods.values())
    assert simulation.status().failures == simulation.status().disruptions == 0


def test_a_gang_holds_one_place_and_all_its_gpus_count() -> None:
    program = Program(steps=STEPS, gpus=2.0)
    simulation = Simulation(gangs(4, trials=2, maxConcurrentTrials=1), program).run()
    usage = simulation.status().usage
    assert usage.gpu_seconds >= 4 * 2 * STEPS
    assert usage.pod_seconds >= 4 * STEPS
    assert usage.training_seconds < 2 * STEPS, "the program's time counts once"
    assert simulation.api.max_alive == 4


def test_results_of_a_rank_above_0_are_refused() -> None:
    simulation = Simulation(gangs(), Program(steps=100)).run(5.0)
    assert simulation.machine is not None
    report = Report(simulation.pods["e-0-1-1"].uid)
    assert simulation.machine.report("e-0", "e-0-1-1", report, simulation.now) is Unaccepted.FOLLOWS


# Whatever the weather

FAILURE_CLASSES = {
    Fault.CRASH: FailureClass.USER,
    Fault.OOM: FailureClass.USER,
    Fault.EVICTED: FailureClass.DISRUPTION,
    Fault.TRAPPED: FailureClass.DISRUPTION,
    Fault.DELETED: FailureClass.DISRUPTION,
    Fault.VANISHED: FailureClass.DISRUPTION,
    Fault.NOT_ADMITTED: FailureClass.INFRASTRUCTURE,
}
weathers = any_weather(lives=12.0, restarts=3)
any_fault = st.builds(
    ScheduledFault, st.sampled_from(list(FAILURE_CLASSES)), st.integers(0, STEPS - 1), rank=st.integers(0, 2)
)
faults = st.dictionaries(st.integers(0, 2), st.lists(any_fault, max_size=2).map(tuple), max_size=3)
bounded = settings(max_examples=draw(20), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
PATIENT = RunnerSettings(log_tries=100)


def start(weather: Weather, faults: Faults, seed: int, places: float = 6) -> Simulation:
    program = Program(steps=STEPS, checkpoint_every=1, faults=faults)
    return Simulation(gangs(3, trials=3), program, weather, seed=seed, settings=PATIENT, places=places)


@bounded
@given(weathers, faults, seeds, st.sampled_from([3, 4, 6]))
def test_every_gang_ends_whatever_happens_to_its_ranks(
    weather: Weather, faults: Faults, seed: int, places: int
) -> None:
    """The simulation sees to it that no two attempts of a trial run, and that nothing is deleted unrecorded."""
    simulation = start(weather, faults, seed, places).run()
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
    for index in range(3):
        status = simulation.status(index)
        assert (status.state, status.iteration) == (TrialState.TERMINATED, STEPS)
    assert simulation.run(1000.0).api.pods == {}


@bounded
@given(weathers, faults, seeds)
def test_each_end_of_a_gang_is_counted_once(weather: Weather, faults: Faults, seed: int) -> None:
    """Places suffice, and an operator looks: so every attempt is one that its fault has ended."""
    weather = Weather(**{**vars(weather), "restarts": ()})
    simulation = start(weather, faults, seed, places=9).run()
    for index in range(3):
        planned = faults.get(index, ())
        expected = [FAILURE_CLASSES[fault.kind] for fault in planned]
        *counted, last = simulation.api.attempts[f"e-{index}"]
        assert (counted, last) == (expected[: len(counted)], FailureClass.COMPLETE)
        if len(counted) < len(planned):  # another rank's fault comes too late: rank 0 has come to its own end
            assert planned[len(counted)].rank > 0
            assert f"e-{index}-{len(counted) + 1}-0" in simulation.completed


@bounded
@given(weathers, faults, seeds, st.floats(0.0, 25.0), st.sampled_from([4, 6]))
def test_a_machine_made_anew_agrees_on_gangs(
    weather: Weather, faults: Faults, seed: int, moment: float, places: int
) -> None:
    simulation = start(weather, faults, seed, places).run(moment)
    assert_made_anew_agrees(simulation)
