"""Trials that would be waited for without end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.api.names import TrialReason, TrialState
from podtune.runner.actions import DeletePod, FetchLogs
from podtune.runner.attempts.classification import FailureClass
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.scenarios.test_properties import bounded, run, weathers
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import START, STORE, Simulation, spec
from tests.unit.runner.world.weather import Faults, seeds

ONE = {"search": {"algorithm": "random", "maxTrials": 1, "seed": 7}}
SHORT = {"initial": "1s", "max": "2s"}


def start(kind: Fault, step: int = 2, *, times: int = 1, steps: int = 4, **failures: object) -> Simulation:
    program = Program(steps=steps, checkpoint_every=1, faults={0: (ScheduledFault(kind, step),) * times})
    return Simulation(spec(**ONE, checkpoints={"store": STORE}, failures={"backoff": SHORT, **failures}), program)


def test_a_program_that_hangs_is_ended_and_goes_on_from_its_checkpoint() -> None:
    simulation = start(Fault.HUNG, silenceDeadline="2m")
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().decision is not None)
    assert 120 <= simulation.now - START <= 130
    assert simulation.status().message == "no result since iteration 2 (for longer than failures.silenceDeadline, 2m)"
    simulation.run()
    status = simulation.status()
    assert (status.state, status.failures, status.iteration) == (TrialState.TERMINATED, 1, 4)
    assert simulation.pods["e-0-2"].restored.step == 2


def test_what_a_program_has_printed_is_read_before_it_is_ended_for_a_bad_reason() -> None:
    simulation = start(Fault.HUNG, silenceDeadline="2m", maxFailures=0).run()
    done = [action for action in simulation.log if isinstance(action, FetchLogs | DeletePod)]
    asked = [type(action) for action in done if action.trial == "e-0"]
    assert asked == [FetchLogs, DeletePod]
    status = simulation.status()
    assert "(last line of its log: ValueError: boom); not retried: failure 1, maxFailures is 0" in status.message
    assert status.last_attempt.log_tail.endswith("ValueError: boom")


def test_a_log_that_can_not_be_had_keeps_no_pod_from_its_end() -> None:
    simulation = start(Fault.HUNG, silenceDeadline="2m", maxFailures=0)
    simulation.fail(FetchLogs, "kubelet away")
    status = simulation.run().status()
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.MAX_FAILURES_EXCEEDED)
    assert "last line" not in status.message


def test_a_program_that_hangs_each_time_ends_in_error() -> None:
    status = start(Fault.HUNG, times=3, silenceDeadline="2m", maxFailures=2).run().status()
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.MAX_FAILURES_EXCEEDED)
    assert status.last_attempt.reason == TrialReason.SILENCE_DEADLINE_EXCEEDED
    assert status.last_attempt.failure_class == FailureClass.USER


def test_a_program_that_reports_is_left_alone_however_long_it_takes() -> None:
    program = Program(steps=40, seconds=60.0)
    status = Simulation(spec(**ONE, failures={"silenceDeadline": "100s"}), program).run().status()
    assert (status.state, status.attempt, status.iteration) == (TrialState.TERMINATED, 1, 40)


def test_results_that_came_while_no_operator_was_there_are_heard_before_silence_is_judged() -> None:
    program = Program(steps=40, seconds=30.0)
    simulation = Simulation(spec(**ONE, failures={"silenceDeadline": "100s"}), program).run(200.0)
    simulation.weather = simulation.weather.__class__(downtime=300.0)
    simulation.restart()
    simulation.run()
    assert (simulation.status().state, simulation.status().attempt) == (TrialState.TERMINATED, 1)


@pytest.mark.parametrize("deadline", [{"silenceDeadline": "2m"}, {"runDeadline": "2m"}])
def test_no_deadline_ends_an_attempt_whose_program_has_ended_and_whose_agent_stores(deadline: dict[str, Any]) -> None:
    simulation = start(Fault.HUNG, **deadline).run(30.0)
    simulation.api.update_pod("e-0-1", training_until=simulation.now)
    simulation.run(600.0)
    assert (simulation.status().decision, simulation.status().attempt) == (None, 1)


def test_silence_is_counted_on_across_restarts_of_the_operator() -> None:
    simulation = start(Fault.HUNG, silenceDeadline="10m")
    for _ in range(4):
        simulation.run(140.0)
        simulation.restart()
    simulation.run(until=lambda: simulation.status().decision is not None)
    assert 600 <= simulation.now - START <= 620


def test_a_program_ends_in_error_when_all_its_attempts_together_took_too_long() -> None:
    simulation = start(Fault.CRASH, 50, steps=10_000, runDeadline="2m").run()
    status = simulation.status()
    assert (status.state, status.reason, status.attempt) == (TrialState.ERROR, TrialReason.RUN_DEADLINE_EXCEEDED, 2)
    assert 118 <= status.usage.training_seconds <= 125
    assert "failures.runDeadline, 2m" in status.message


def test_a_pod_that_no_node_takes_is_explained_until_its_deadline() -> None:
    simulation = start(Fault.UNSCHEDULABLE, pendingDeadline="5m").run(290.0)
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.PENDING, TrialReason.UNSCHEDULABLE)
    simulation.run(60.0)
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.PENDING_DEADLINE_EXCEEDED)
    assert "0/2 nodes are available" in status.message


def test_without_deadlines_a_trial_is_waited_for_as_long_as_it_takes() -> None:
    for kind in (Fault.UNSCHEDULABLE, Fault.HUNG):
        simulation = start(kind).run(100_000.0)
        assert not simulation.is_over
        assert simulation.status().message


def test_a_rule_can_give_up_a_program_that_hangs() -> None:
    rules = [{"reason": "SilenceDeadlineExceeded", "action": "Fail"}]
    status = start(Fault.HUNG, silenceDeadline="2m", rules=rules).run().status()
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.SILENCE_DEADLINE_EXCEEDED)


@pytest.mark.parametrize("field", ["pendingDeadline", "runDeadline", "silenceDeadline"])
def test_a_deadline_of_no_time_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field}.*'0s' is too short"):
        spec(failures={field: "0s"})


hangs = st.dictionaries(
    st.integers(0, 4),
    st.lists(st.builds(ScheduledFault, st.just(Fault.HUNG), st.integers(0, 4)), max_size=2).map(tuple),
)


@bounded
@given(weathers, hangs, seeds)
def test_whatever_the_weather_each_hang_is_counted_once(weather: object, faults: Faults, seed: int) -> None:
    failures = {"backoff": SHORT, "maxFailures": 3, "silenceDeadline": "2m"}
    program = Program(steps=5, checkpoint_every=1, faults=faults)
    simulation = run(weather, program, seed, failures=failures)  # type: ignore[arg-type]
    for index in range(5):
        status = simulation.status(index)
        assert (status.state, status.iteration) == (TrialState.TERMINATED, 5)
        assert status.failures == len(faults.get(index, ()))
