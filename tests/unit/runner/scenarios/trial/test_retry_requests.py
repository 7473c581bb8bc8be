"""A person has a running trial retried: its attempt ends, and a new one goes on from its last checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.names import DesiredState, TrialReason, TrialState
from podtune.api.resources.trial import TrialStatus
from podtune.api.resources.trial_requests import RetryRequest
from podtune.protocol.messages import Reply, Report
from podtune.runner.actions import Action, ActionResult, CreatePod, WriteTrialStatus
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, Weather, spec

ONE: dict[str, Any] = {
    "search": {"algorithm": "random", "maxTrials": 1, "seed": 7},
    "checkpoints": {"store": STORE},
    "failures": {"maxFailures": 0, "maxDisruptions": 0},
}
MENDED = {"containers": [{"name": "trial", "image": "mended"}]}
CRASHED = {0: (ScheduledFault(Fault.CRASH, 2),)}
SLOW_RETRY = {**ONE, "failures": {"maxFailures": 1, "backoff": {"initial": "10m", "max": "10m"}}}
STEPS = 12


def start(weather: Weather | None = None, **fields: Any) -> Simulation:
    return Simulation(spec(**{**ONE, **fields}), Program(steps=STEPS, upload=0.5), weather or Weather())


def retry(simulation: Simulation, attempt: int = 1) -> None:
    simulation.api.edit_trial("e-0", retry=RetryRequest(attempt=attempt))


def count_failures(status: TrialStatus) -> int:
    return status.failures + status.disruptions + status.infrastructure_failures + status.ignored


def assert_retried_once(simulation: Simulation) -> None:
    """It has had a second attempt and no third, and has lost nothing."""
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.TERMINATED, TrialReason.COMPLETED)
    assert (status.attempt, status.iteration, status.retried_attempt) == (2, STEPS, 1)
    assert count_failures(status) == 0
    assert [entry.action for entry in status.ledger] == ["RETRY"]
    assert simulation.pods["e-0-2"].restored.step > 0


def test_a_retried_trial_stores_a_checkpoint_and_goes_on_from_it_with_the_present_template() -> None:
    simulation = start().run(4.2)
    second = simulation.edit_template(**MENDED)
    reached = simulation.status().iteration
    retry(simulation)
    simulation.run()
    assert_retried_once(simulation)
    assert simulation.pods["e-0-2"].restored.step >= reached, "the checkpoint that was asked for"
    assert simulation.status().revision == second
    (entry,) = simulation.status().ledger
    assert (entry.attempt, entry.message) == (1, "attempt 1 is retried by request (spec.retry)")
    assert simulation.events == []
    assert_made_anew_agrees(simulation)


def test_what_is_shown_meanwhile_says_why() -> None:
    simulation = start().run(4.2)
    retry(simulation)
    simulation.run(until=lambda: simulation.status().last_attempt is not None)
    last = simulation.status().last_attempt
    assert last is not None
    assert (last.failure_class, last.reason) == ("ours", TrialReason.RETRY_REQUESTED)
    checkpoint = simulation.status().checkpoint
    assert checkpoint is not None
    assert simulation.status().message == (
        f"attempt 1 is retried by request (spec.retry); goes on from the checkpoint of iteration {checkpoint.step}"
    )
    simulation.run(until=lambda: simulation.status().state is TrialState.RUNNING and simulation.status().attempt == 2)
    assert " after a retry by request" in simulation.status().message


def test_the_agent_is_asked_for_a_checkpoint_first() -> None:
    simulation = Simulation(spec(**ONE), Program(steps=10**6, silent=True)).run(5.0)
    retry(simulation)
    simulation.run(1.0)
    assert simulation.machine is not None
    reply = simulation.machine.report("e-0", "e-0-1", Report(simulation.pods["e-0-1"].uid), simulation.now)
    assert isinstance(reply, Reply)
    assert (reply.decision, reply.should_checkpoint) == ("PAUSE", True)
    simulation.run(50.0)
    assert simulation.status().last_attempt is None
    simulation.run(30.0)
    assert simulation.status().attempt == 2, "checkpoints.requestTimeout is over"
    assert count_failures(simulation.status()) == 0


@pytest.mark.parametrize("kind", [Fault.STUCK, Fault.UNSCHEDULABLE])
def test_a_pod_that_does_not_train_is_replaced_at_once(kind: Fault) -> None:
    simulation = Simulation(spec(**ONE), Program(steps=4, faults={0: (ScheduledFault(kind),)})).run(5.0)
    retry(simulation)
    simulation.run(3.0)
    status = simulation.status()
    assert (status.state, status.attempt, count_failures(status)) == (TrialState.RUNNING, 2, 0)
    assert simulation.run().status().attempt == 2


def test_without_a_store_it_starts_over() -> None:
    simulation = start(checkpoints={}).run(4.2)
    retry(simulation)
    simulation.run(until=lambda: simulation.status().last_attempt is not None)
    assert simulation.status().message.endswith("; goes on from scratch (no checkpoint)")
    assert simulation.run().status().attempt == 2


def test_a_trial_that_waits_for_its_backoff_starts_at_once_and_is_not_ended_again() -> None:
    simulation = Simulation(spec(**SLOW_RETRY), Program(steps=6, faults=CRASHED)).run(20.0)
    assert simulation.status().reason == TrialReason.BACKING_OFF
    retry(simulation, attempt=2)
    simulation.run(5.0)
    assert (simulation.status().state, simulation.status().attempt) == (TrialState.RUNNING, 2)
    simulation.run()
    status = simulation.status()
    assert (status.state, status.attempt, status.retried_attempt) == (TrialState.TERMINATED, 2, 2)
    assert status.failures == 1, "the failure of before"
    assert "without waiting any longer, by request" in status.ledger[-1].message


def test_that_its_start_was_asked_for_is_on_record_before_there_is_a_pod() -> None:
    simulation = Simulation(spec(**SLOW_RETRY), Program(steps=6, faults=CRASHED)).run(20.0)
    on_record: list[int] = []

    def look(action: Action) -> ActionResult | None:
        if isinstance(action, CreatePod):
            on_record.append(simulation.status().retried_attempt)
        return None

    simulation.refuse = look
    retry(simulation, attempt=2)
    simulation.run()
    assert on_record == [2]


def test_it_does_not_start_before_that_is_written() -> None:
    simulation = Simulation(spec(**SLOW_RETRY), Program(steps=6, faults=CRASHED)).run(20.0)
    simulation.fail(WriteTrialStatus)
    retry(simulation, attempt=2)
    simulation.run(5.0)
    assert "e-0-2" not in simulation.pods


@pytest.mark.parametrize("attempt", [2, 7])
def test_only_the_attempt_that_is_named_ends(attempt: int) -> None:
    simulation = start().run(4.2)
    retry(simulation, attempt)
    simulation.run()
    assert (simulation.status().attempt, simulation.status().retried_attempt) == (1, 0)


def test_one_that_has_ended_meanwhile_is_not_retried_again() -> None:
    simulation = start().run(4.2)
    retry(simulation)
    simulation.run(until=lambda: simulation.status().attempt == 2 and simulation.status().iteration > 6)
    retry(simulation)
    simulation.run()
    assert_retried_once(simulation)


def test_each_attempt_can_be_retried() -> None:
    simulation = start().run(4.2)
    simulation.retry_trial("e-0")
    simulation.run(until=lambda: simulation.status().attempt == 2 and simulation.status().iteration > 6)
    simulation.retry_trial("e-0")
    status = simulation.run().status()
    assert (status.attempt, status.retried_attempt, status.iteration) == (3, 2, STEPS)


def test_a_pause_comes_first_and_answers_the_request_as_well() -> None:
    simulation = start().run(4.2)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED, retry=RetryRequest(attempt=1))
    simulation.run(20.0)
    assert simulation.status().state is TrialState.PAUSED
    simulation.api.edit_trial("e-0", desired_state=DesiredState.RUNNING)
    simulation.run()
    assert (simulation.status().attempt, simulation.status().retried_attempt) == (2, 0)


def test_a_program_that_ends_before_its_pod_is_deleted_ends_once_more_in_the_next_attempt() -> None:
    """One that was told to end is not known to have ended by itself."""
    simulation = start()
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().iteration >= STEPS - 1)
    retry(simulation)
    simulation.run()
    status = simulation.status()
    assert (status.state, status.iteration, count_failures(status)) == (TrialState.TERMINATED, STEPS, 0)


@pytest.mark.parametrize("template", [{"replicas": 2}, {"reuse": True}], ids=["gangs", "warm pods"])
def test_gangs_and_warm_pods_are_retried_too(template: dict[str, Any]) -> None:
    containers = [{"name": "trial", "image": "none"}]
    simulation = start(trialTemplate={**template, "spec": {"containers": containers}}).run(6.0)
    second = simulation.edit_template(**MENDED)
    retry(simulation)
    simulation.run()
    status = simulation.status()
    assert (status.state, status.attempt, status.iteration) == (TrialState.TERMINATED, 2, STEPS)
    assert (status.revision, count_failures(status)) == (second, 0)


@pytest.mark.parametrize("tenths", range(0, 100, 3))
def test_an_operator_that_dies_neither_repeats_nor_loses_the_request(tenths: int) -> None:
    simulation = start(Weather(latency=0.2, watch_delay=0.2)).run(4.2)
    retry(simulation)
    simulation.run(tenths / 10)
    simulation.restart()
    simulation.run()
    assert_retried_once(simulation)


@pytest.mark.parametrize("count", range(1, 9))
def test_nor_does_one_that_dies_right_after_a_write(count: int) -> None:
    """Whether or not it has heard that the write was done."""
    simulation = start().run(4.2)
    left = count

    def dies(action: Action) -> bool:
        nonlocal left
        left -= isinstance(action, (WriteTrialStatus, CreatePod))
        if left == 0:
            left = -1
            simulation.after(0.0, simulation.restart)
            return True
        return False

    simulation.loses_reply = dies
    retry(simulation)
    simulation.run()
    assert_retried_once(simulation)
