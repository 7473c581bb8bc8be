"""Pods that run trial after trial."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.names import DesiredState, TrialState
from podtune.protocol.assignment import build_attempt_id
from podtune.protocol.messages import FinalCommit, Reply, Report, Result
from podtune.runner.actions import DeletePod, WriteTrialStatus
from podtune.runner.records import Pod
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import START, STORE, Simulation, spec

REUSE: dict[str, Any] = {"reuse": True, "spec": {"containers": [{"name": "trial", "image": "none"}]}}
SHORT = Program(steps=1, seconds=0.1)


def warm(program: Program = SHORT, trials: int = 6, **fields: Any) -> Simulation:
    search = {"algorithm": "random", "maxTrials": trials, "seed": 7}
    failures = {"maxFailures": 3, "backoff": {"initial": "1s", "max": "2s"}}
    return Simulation(spec(**{"trialTemplate": REUSE, "search": search, "failures": failures, **fields}), program)


def served(simulation: Simulation) -> list[list[str]]:
    return [pod.served for pod in simulation.pods.values()]


def only_pod(simulation: Simulation) -> Pod:
    (pod,) = simulation.api.pods.values()
    return pod


def warm_with_the_next() -> Simulation:
    """Trial 0 was stopped, and its pod has gone on to trial 1."""
    simulation = warm(Program(steps=50, seconds=1), maxConcurrentTrials=1, trials=2).run(3)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.STOPPED)
    return simulation.run(until=lambda: served(simulation) == [["e-0", "e-1"]])


def test_each_place_has_one_pod_for_all_its_trials() -> None:
    simulation = warm().run()
    assert sorted(name for pod in served(simulation) for name in pod) == [f"e-{index}" for index in range(6)]
    assert len(served(simulation)) == 2


def test_a_short_trial_costs_three_writes() -> None:
    simulation = warm(trials=20).run()
    writes = simulation.api.writes
    assert writes["create-trial"] == 20
    assert writes["trial-status"] <= 2 * 20
    assert writes["create-pod"] == 2


def test_a_pod_with_nothing_to_do_is_deleted_after_a_while() -> None:
    simulation = warm(maxConcurrentTrials=1, trials=1, suspend=False)
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().state is TrialState.TERMINATED)
    ended = simulation.now
    simulation.run(until=lambda: not simulation.api.pods)
    assert simulation.now - ended <= simulation.settings.idle_pod_time + 2


def test_a_stopped_trial_gives_its_pod_to_the_next() -> None:
    simulation = warm(Program(steps=50, seconds=0.5), maxConcurrentTrials=1, trials=2).run(5)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.STOPPED)
    simulation.run(5)
    assert simulation.status(0).state is TrialState.TERMINATED
    assert served(simulation) == [["e-0", "e-1"]]
    assert simulation.actions(DeletePod) == []


def test_a_paused_trial_goes_on_from_its_checkpoint_in_the_same_pod() -> None:
    simulation = warm(Program(steps=8, seconds=0.5), maxConcurrentTrials=1, trials=2, checkpoints={"store": STORE})
    simulation.run(2)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    simulation.run(2)
    assert simulation.status(0).state is TrialState.PAUSED
    simulation.api.edit_trial("e-0", desired_state=DesiredState.RUNNING)
    simulation.run()
    assert served(simulation) == [["e-0", "e-1", "e-0"]]
    assert simulation.pods["e-0-1"].restored.step > 0
    assert simulation.status(0).attempt == 2
    assert simulation.status(0).failures == simulation.status(0).disruptions == 0


def test_a_trial_gives_its_pod_to_the_next_before_the_kubelet_has_told_that_it_runs() -> None:
    program = Program(steps=50, seconds=0.5, seen_after=30)
    simulation = warm(program, maxConcurrentTrials=1, trials=2, checkpoints={"store": STORE})
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().iteration > 0)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    simulation.run(until=lambda: served(simulation) == [["e-0", "e-1"]] or bool(simulation.actions(DeletePod)))
    assert simulation.actions(DeletePod) == []
    assert not only_pod(simulation).training
    assert simulation.status(0).checkpoints


def test_a_program_that_does_not_leave_a_stopped_trial_loses_its_pod() -> None:
    simulation = warm(Program(steps=50, seconds=100), maxConcurrentTrials=1, trials=2).run(5)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.STOPPED)
    simulation.run(simulation.settings.handover_wait + 5)
    assert simulation.status(0).state is TrialState.TERMINATED
    assert [action.name for action in simulation.actions(DeletePod)] == ["e-0-1"]
    assert served(simulation) == [["e-0"], ["e-1"]]


def test_a_crash_costs_the_trial_under_way_and_no_other() -> None:
    simulation = warm(Program(steps=2, seconds=0.1, faults={2: (ScheduledFault(Fault.CRASH, 1),)})).run()
    assert [simulation.status(index).failures for index in range(6)] == [0, 0, 1, 0, 0, 0]
    assert [simulation.status(index).disruptions for index in range(6)] == [0] * 6
    last = simulation.writes_of("e-2")[-1].status
    assert last.state is TrialState.TERMINATED
    assert last.attempt == 2


def test_the_pod_of_the_last_failure_stays_until_the_end() -> None:
    crash = Program(steps=2, seconds=0.1, faults={2: (ScheduledFault(Fault.CRASH, 1),) * 9})
    simulation = warm(crash)
    simulation.run(until=lambda: simulation.status_exists(2) and simulation.status(2).failures == 2)
    simulation.run(0.5)
    failed = [pod.name for pod in simulation.api.pods.values() if pod.phase.is_finished]
    assert len(failed) == 1
    simulation.run()
    assert simulation.run(100).api.pods == {}


def test_a_pod_whose_trial_is_deleted_goes() -> None:
    simulation = warm(Program(steps=50, seconds=0.5), maxConcurrentTrials=1, trials=2)
    simulation.api.allowed_alive = None
    simulation.run(5)
    before = only_pod(simulation)
    simulation.delete_trial("e-0")
    simulation.run(5)
    assert before.name in [action.name for action in simulation.actions(DeletePod)]


@pytest.mark.parametrize("retention", ["All", "Failed"])
@pytest.mark.parametrize("restarts", [True, False])
def test_a_retained_pod_does_not_bar_a_trial_that_is_made_again(retention: str, restarts: bool) -> None:
    crashes = Program(steps=2, seconds=1, faults={0: (ScheduledFault(Fault.CRASH, 0), ScheduledFault(Fault.CRASH, 0))})
    simulation = warm(crashes, trials=2, podRetention=retention)
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().failures == 2)
    failed = {pod.name for pod in simulation.api.pods.values() if pod.phase.is_finished}
    assert "e-0-2" in failed
    simulation.delete_trial("e-0")
    if restarts:
        simulation.restart()
    simulation.run(until=lambda: not failed & simulation.api.pods.keys())
    assert simulation.run(120).is_over


def test_an_agent_that_asks_again_is_told_the_same() -> None:
    """A lost reply loses no trial: what the pod is to run next is on record."""
    simulation = warm_with_the_next()
    assert simulation.machine is not None
    pod = only_pod(simulation)
    ended = build_attempt_id(pod.uid, "e-0", 1)
    again = simulation.machine.report("e-0", pod.name, Report(ended, final=FinalCommit(ended, 3, 3)), simulation.now)
    assert isinstance(again, Reply)
    assert again.next.attempt == build_attempt_id(pod.uid, "e-1", 1)


def test_results_of_an_attempt_that_is_over_count_for_nothing() -> None:
    simulation = warm_with_the_next()
    assert simulation.machine is not None
    pod = only_pod(simulation)
    before = simulation.status(0)
    late = Report(build_attempt_id(pod.uid, "e-0", 1), results=(Result(7, 0.0, {"accuracy": 99.0}, 7),))
    answer = simulation.machine.report("e-0", pod.name, late, simulation.now)
    assert isinstance(answer, Reply)
    assert (answer.acked_seq, answer.decision, answer.next) == (7, "STOP", None)
    simulation.run(5)
    assert simulation.status(0) == before


def test_an_agent_that_forgets_what_it_was_given_is_told_again() -> None:
    """Started again at that moment, it finds the files of the last trial, and reports that one anew."""
    simulation = warm(trials=2, maxConcurrentTrials=1)
    simulation.run(until=lambda: simulation.status_exists(1) and simulation.status(1).pod is not None)
    assert served(simulation) == [["e-0"]]
    assert simulation.machine is not None
    pod, ended = only_pod(simulation), build_attempt_id(only_pod(simulation).uid, "e-0", 1)
    anew = simulation.machine.report("e-0", pod.name, Report(ended), simulation.now)
    assert isinstance(anew, Reply)
    assert anew.decision == "STOP"
    simulation.run()
    assert served(simulation) == [["e-0", "e-1"]]


def test_a_pod_whose_agent_does_not_take_up_its_next_trial_is_replaced() -> None:
    simulation = warm(trials=2, maxConcurrentTrials=1)
    simulation.run(until=lambda: simulation.status_exists(1) and simulation.status(1).pod is not None)
    simulation.pods["e-0-1"].agent.fenced = True  # it says nothing more
    simulation.run()
    assert served(simulation) == [["e-0"], ["e-1"]]
    status = simulation.status(1)
    assert (status.attempt, status.failures, status.disruptions) == (2, 0, 0)
    assert simulation.now < START + 2 * simulation.settings.report_wait


def test_the_promise_is_on_record_before_the_agent_hears_of_it() -> None:
    simulation = warm(trials=2, maxConcurrentTrials=1)
    refused: list[WriteTrialStatus] = []

    def refuse(action: object) -> Any:
        if isinstance(action, WriteTrialStatus) and action.name == "e-1":
            refused.append(action)
            return simulation.elsewhere  # it has failed
        return None

    simulation.refuse = refuse
    simulation.run(8)
    assert refused
    assert served(simulation) == [["e-0"]]


def test_an_operator_that_dies_at_any_moment_makes_no_further_pods() -> None:
    for moment in range(1, 60, 4):
        simulation = warm(Program(steps=2, seconds=0.2), trials=4).run(moment * 0.05)
        simulation.restart()
        simulation.run()
        assert sorted(name for pod in served(simulation) for name in pod) == [f"e-{index}" for index in range(4)]
        assert len(served(simulation)) == 2


def test_a_pod_is_given_on_only_when_the_end_of_its_trial_is_on_record() -> None:
    simulation = warm(trials=2, maxConcurrentTrials=1)

    def refuse(action: object) -> Any:
        is_end = isinstance(action, WriteTrialStatus) and action.name == "e-0" and action.status.last_attempt
        return simulation.elsewhere if is_end else None

    simulation.refuse = refuse
    simulation.run(20)
    assert not simulation.status_exists(1) or simulation.status(1).pod is None
    assert only_pod(simulation).phase.value == "Running"


def test_a_trial_whose_pod_ends_before_it_has_begun_loses_an_attempt_and_spends_no_failure() -> None:
    simulation = warm(trials=2, maxConcurrentTrials=1)
    simulation.run(until=lambda: simulation.status_exists(1) and simulation.status(1).pod is not None)
    assert served(simulation) == [["e-0"]]
    simulation.unreachable = True
    assert simulation.pods["e-0-1"].strike(Fault.CRASH)
    simulation.unreachable = False
    simulation.run()
    assert (simulation.status(1).failures, simulation.status(1).disruptions) == (0, 1)
    assert simulation.status(1).state is TrialState.TERMINATED
    assert simulation.status(0).failures == 0
