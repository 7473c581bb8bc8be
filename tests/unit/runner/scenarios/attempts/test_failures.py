"""What an attempt that has failed means for its trial: it is tried again, or has had its tries."""

from __future__ import annotations

import pytest

from podtune.api.names import TrialReason, TrialState
from podtune.runner.actions import ActionStatus, CreatePod, FetchLogs
from podtune.runner.attempts.classification import FailureClass
from podtune.runner.records import Waiting
from podtune.runner.settings import RunnerSettings
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import START, STORE, Simulation, spec

BACKOFF = {"initial": "10s", "max": "6m"}
ONE = {"search": {"algorithm": "random", "maxTrials": 1, "seed": 7}}


def test_a_rule_looks_for_its_expression_in_the_programs_log() -> None:
    program = Program(faults={0: (ScheduledFault(Fault.CRASH, 1),)})
    rules = [{"logRegex": "ValueError: b[o]+m", "action": "Fail"}]
    status = Simulation(spec(**ONE, failures={"rules": rules}), program).run().status()
    assert (status.state, status.reason, status.failures) == (TrialState.ERROR, "Error", 1)
    assert "(failures.rules[0]: Fail)" in status.message


# What follows for the trial


def test_a_crash_resumes_at_the_last_committed_checkpoint() -> None:
    program = Program(steps=6, checkpoint_every=2, faults={0: (ScheduledFault(Fault.CRASH, 5),)})
    simulation = Simulation(spec(**ONE, checkpoints={"store": STORE}), program).run()
    second = simulation.created_pods()[1]
    assert [checkpoint.step for checkpoint in second.restore] == [4, 2]
    assert simulation.pods["e-0-2"].restored.step == 4
    assert simulation.status().state is TrialState.TERMINATED
    assert simulation.status().iteration == 6


def test_the_message_tells_what_an_attempt_resumed_from() -> None:
    program = Program(steps=9, checkpoint_every=2, faults={0: (ScheduledFault(Fault.CRASH, 5),)})
    simulation = Simulation(spec(**ONE, checkpoints={"store": STORE}), program)
    simulation.run(until=lambda: "e-0-2" in simulation.pods and simulation.status().iteration > 6)
    assert "; attempt 2 resumed from iteration 4 after exit code 1" in simulation.status().message


def test_a_bad_image_is_waited_for_until_the_start_deadline() -> None:
    program = Program(faults={0: (ScheduledFault(Fault.STUCK),)})
    simulation = Simulation(spec(**ONE, failures={"startDeadline": "2m"}), program).run(100.0)
    assert (simulation.status().state, simulation.status().reason) == (TrialState.PENDING, TrialReason.PULLING_IMAGE)
    assert simulation.status().message == 'ImagePullBackOff: Back-off pulling image "nowhere"'
    simulation.run(until=lambda: simulation.is_over)
    status = simulation.status()
    assert (status.state, status.reason, status.failures) == (TrialState.ERROR, TrialReason.START_DEADLINE_EXCEEDED, 1)
    assert status.last_attempt.failure_class == FailureClass.FINAL
    assert status.message.endswith("(for longer than failures.startDeadline, 2m)")
    assert 120 <= simulation.now - START <= 130


POD = '(pod: "e-0-1_team(5f3c)", container: trial)'


@pytest.mark.parametrize(
    "words",
    [
        f"container has runAsNonRoot and image will run as root {POD}",
        f"container has runAsNonRoot and image has non-numeric user (nobody), cannot verify user is non-root {POD}",
        f"container's runAsUser breaks non-root policy {POD}",
    ],
)
def test_an_image_that_would_run_as_root_where_none_may_is_told_with_the_remedy(words: str) -> None:
    program = Program(faults={0: (ScheduledFault(Fault.STUCK),)})
    simulation = Simulation(spec(**ONE, failures={"startDeadline": "2m"}), program).run(10.0)
    waiting = Waiting("CreateContainerConfigError", words, hopeless=True)
    simulation.api.update_pod("e-0-1", waiting=waiting)
    simulation.run(60.0)
    assert (simulation.status().state, simulation.status().reason) == (TrialState.PENDING, TrialReason.CANNOT_START)
    told = (
        f"CreateContainerConfigError: {words}; set spec.trialTemplate.spec.securityContext.runAsUser to a user other "
        "than 0, or use an image whose USER is such a number"
    )
    assert simulation.status().message == told
    status = simulation.run(until=lambda: simulation.is_over).status()
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.START_DEADLINE_EXCEEDED)
    assert status.message == f"{told} (for longer than failures.startDeadline, 2m)"


def test_an_attempt_whose_pods_can_not_be_completed_spends_no_failure() -> None:
    """As where rank 0 of a gang is gone that its other pods were made for."""
    simulation = Simulation(spec(**ONE, failures={"maxInfrastructureFailures": 1, "backoff": BACKOFF}))
    simulation.fail(CreatePod, "made for a pod that is gone", status=ActionStatus.REFUSED)
    simulation.run()
    status = simulation.status()
    assert (status.state, status.failures, status.disruptions) == (TrialState.ERROR, 0, 0)
    assert (status.reason, status.infrastructure_failures) == (TrialReason.MAX_INFRASTRUCTURE_FAILURES_EXCEEDED, 2)
    words = "not retried: infrastructure failure 2, maxInfrastructureFailures is 1"
    assert status.message == f"made for a pod that is gone; {words}"
    assert status.pod is None


def test_logs_that_can_not_be_had_do_not_hold_up_the_end() -> None:
    simulation = Simulation(
        spec(**ONE, failures={"maxFailures": 0}),
        Program(faults={0: (ScheduledFault(Fault.CRASH, 1),)}),
        settings=RunnerSettings(log_tries=3),
    )
    simulation.fail(FetchLogs, "kubelet away")
    simulation.run()
    assert len(simulation.actions(FetchLogs)) == 3
    assert simulation.status().state is TrialState.ERROR
    assert simulation.status().last_attempt.log_tail == ""


def test_the_logs_of_a_pod_that_goes_away_meanwhile_are_not_taken_for_the_next_ones() -> None:
    simulation = Simulation(
        spec(**ONE), Program(faults={0: (ScheduledFault(Fault.CRASH, 1), ScheduledFault(Fault.CRASH, 2))})
    )
    simulation.run(until=lambda: bool(simulation.actions(FetchLogs)))
    simulation.pods["e-0-1"].delete()
    simulation.run()
    assert len(simulation.actions(FetchLogs)) == 2
    assert simulation.status().failures == 2


def test_a_trial_whose_node_is_lost_says_what_it_waits_for() -> None:
    simulation = Simulation(spec(**ONE), Program(steps=100))
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().iteration >= 2)
    simulation.frozen = True
    simulation.api.update_pod(
        "e-0-1", disruption="DeletionByTaintManager: deleting due to NoExecute taint", deleting=True
    )
    simulation.run(1000.0)
    status = simulation.status()
    assert (status.state, status.reason, status.attempt) == (TrialState.RUNNING, TrialReason.DISRUPTED, 1)
    waits = "waiting for pod e-0-1 on node n1 to end"
    assert status.message == f"DeletionByTaintManager: deleting due to NoExecute taint; {waits}"
    simulation.frozen = False
    simulation.api.remove_pod("e-0-1")
    simulation.run(until=lambda: simulation.status().attempt == 2)
    assert simulation.status().disruptions == 1
