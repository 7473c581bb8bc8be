"""Nodes that fail trials: where a trial is not tried again, and which nodes an experiment avoids."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.api.names import TrialState
from podtune.runner.actions import CreatePod
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.scenarios.test_properties import PATIENT, bounded, weathers
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import START, STORE, Simulation, Weather, spec
from tests.unit.runner.world.weather import seeds

SHORT = {"initial": "1s", "max": "2s"}
EXCLUDE = [{"exitCodes": [42], "action": "ExcludeNode"}]
NODES = ("n1", "n2", "n3", "n4")


def start(program: Program, *, trials: int = 8, concurrent: int = 4, **failures: object) -> Simulation:
    search = {"algorithm": "random", "maxTrials": trials, "seed": 7}
    given = {"backoff": SHORT, **failures}
    fields = {"search": search, "checkpoints": {"store": STORE}, "maxConcurrentTrials": concurrent}
    return Simulation(spec(**fields, failures=given), program)


def avoided(simulation: Simulation) -> list[str]:
    return [node.name for node in simulation.api.experiment.status.avoided_nodes]


def test_a_rule_sends_a_trial_to_another_node_and_no_other_trial() -> None:
    program = Program(nodes=("n1", "n2"), bad_nodes=frozenset({"n1"}), checkpoint_every=1)
    simulation = start(program, trials=4, rules=EXCLUDE).run()
    for index, attempts in ((0, 2), (1, 1), (2, 2), (3, 1)):
        status = simulation.status(index)
        assert (status.state, status.attempt, status.failures) == (TrialState.TERMINATED, attempts, 0)
        assert status.infrastructure_failures == attempts - 1
    assert {pod.avoid for pod in simulation.created_pods() if pod.attempt == 1} == {()}
    assert {pod.avoid for pod in simulation.created_pods() if pod.attempt == 2} == {("n1",)}


def test_a_node_that_has_failed_enough_trials_is_avoided_by_all() -> None:
    program = Program(nodes=NODES, bad_nodes=frozenset({"n1"}))
    simulation = start(program, trials=16, avoidNodeAfter=2, maxFailures=6).run()
    assert simulation.api.experiment.status.trials.terminated == 16
    late = [pod for pod in simulation.created_pods() if pod.spec.index >= 9]
    assert {pod.avoid for pod in late} == {("n1",)}
    events = [event for event in simulation.events if event.reason == "NodeAvoided"]
    assert [event.message.split(" and")[0] for event in events] == ["node n1 failed 2 trials"]


def test_failures_of_one_and_the_same_trial_do_not_make_a_node_bad() -> None:
    program = Program(nodes=NODES, faults={0: (ScheduledFault(Fault.CRASH, 1),) * 3})
    simulation = start(program, avoidNodeAfter=2).run()
    assert avoided(simulation) == []


def test_at_most_half_of_the_nodes_are_avoided() -> None:
    program = Program(nodes=NODES, bad_nodes=frozenset(NODES))
    simulation = start(program, trials=16, avoidNodeAfter=1, maxFailures=2).run()
    assert max(len(pod.avoid) for pod in simulation.created_pods()) == 2


def test_the_only_node_is_never_avoided() -> None:
    program = Program(bad_nodes=frozenset({"n1"}))
    simulation = start(program, avoidNodeAfter=1, maxFailures=1).run()
    assert {pod.avoid for pod in simulation.created_pods()} == {()}


def test_a_restarted_operator_avoids_the_same_nodes() -> None:
    program = Program(nodes=NODES, bad_nodes=frozenset({"n1"}), steps=40)
    simulation = start(program, trials=8, avoidNodeAfter=2, maxFailures=6)
    simulation.run(until=lambda: avoided(simulation) == ["n1"])
    simulation.restart()
    before = len(simulation.created_pods())
    simulation.run()
    assert {pod.avoid for pod in simulation.created_pods()[before:]} == {("n1",)}


def test_a_node_is_forgotten_after_a_while() -> None:
    program = Program(nodes=NODES, bad_nodes=frozenset({"n1"}), seconds=60.0)
    simulation = start(program, trials=40, avoidNodeAfter=1, avoidNodeFor="10m", maxFailures=30)
    simulation.run(until=lambda: avoided(simulation) == ["n1"])
    simulation.run(until=lambda: avoided(simulation) == [])
    assert 600 <= simulation.now - START <= 720
    begun = len(simulation.created_pods())
    simulation.run(until=lambda: len(simulation.created_pods()) > begun)
    assert simulation.created_pods()[begun].avoid == ()


def test_a_pod_that_no_other_node_takes_is_made_anew_when_the_node_is_forgotten() -> None:
    program = Program(bad_nodes=frozenset({"n1"}), steps=3)
    simulation = start(program, trials=1, rules=EXCLUDE, avoidNodeFor="10m", maxInfrastructureFailures=1).run(300.0)
    status = simulation.status()
    assert (status.state, status.reason, status.attempt) == (TrialState.PENDING, "Unschedulable", 2)
    simulation.program = Program()
    simulation.run()
    status = simulation.status()
    assert (status.state, status.attempt, status.infrastructure_failures) == (TrialState.TERMINATED, 3, 1)
    assert simulation.created_pods()[2].avoid == ()


def test_no_more_pods_than_so_many_wait_at_a_time() -> None:
    search = {"algorithm": "random", "maxTrials": 6, "seed": 7}
    stuck = {index: (ScheduledFault(Fault.UNSCHEDULABLE),) for index in range(6)}
    simulation = Simulation(spec(search=search, maxConcurrentTrials=6, maxPendingTrials=2), Program(faults=stuck))
    simulation.run(600.0)
    assert len(simulation.actions(CreatePod)) == 2
    free = Simulation(spec(search=search, maxConcurrentTrials=6, maxPendingTrials=2), Program(steps=20))
    free.run(until=lambda: free.api.max_alive == 6)
    assert free.api.max_alive == 6, "trials that run are not limited by it"
    assert free.run().api.experiment.status.trials.terminated == 6


@settings(bounded, max_examples=draw(50))
@given(weathers, seeds, st.floats(0.0, 30.0))
def test_a_machine_made_anew_avoids_the_same(weather: Weather, seed: int, moment: float) -> None:
    program = Program(steps=4, checkpoint_every=1, nodes=NODES, bad_nodes=frozenset({"n1", "n3"}))
    failures = {"backoff": SHORT, "maxFailures": 30, "maxDisruptions": 30, "avoidNodeAfter": 2}
    search = {"algorithm": "random", "maxTrials": 8, "seed": 7}
    fields = {"search": search, "failures": failures, "maxConcurrentTrials": 3, "maxPendingTrials": 2}
    simulation = Simulation(spec(**fields), program, weather, seed=seed, settings=PATIENT).run(moment)
    assert_made_anew_agrees(simulation)
    simulation = Simulation(spec(**fields), program, weather, seed=seed, settings=PATIENT).run()
    assert simulation.api.experiment.status.trials.terminated == 8
