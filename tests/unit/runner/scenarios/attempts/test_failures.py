"""The table of DESIGN.md, "Failures", row by row: what is seen of an attempt, and what it counts as."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtune.api.names import TrialReason, TrialState
from podtune.api.pods.pod_template import RESTORE_CONTAINER
from podtune.api.resources.failures import Failures
from podtune.api.resources.trial import Decision
from podtune.protocol.messages import NOT_RESTORABLE
from podtune.runner.actions import ActionResult, ActionStatus, CreatePod, FetchLogs
from podtune.runner.attempts.classification import AttemptOutcome, FailureClass, classify
from podtune.runner.records import ContainerEnd, Pod, PodPhase
from podtune.runner.settings import RunnerSettings
from tests.unit.runner.world.simulated_pod import Fault, Program, ScheduledFault
from tests.unit.runner.world.simulation import START, STORE, Simulation, spec

BACKOFF = {"initial": "10s", "max": "6m"}
ONE = {"search": {"algorithm": "random", "maxTrials": 1, "seed": 7}}
DECIDED = Decision(action="STOP", reason="StoppedByScheduler", message="below the cutoff", attempt=1)


def pod(phase: PodPhase = PodPhase.FAILED, **fields: object) -> Pod:
    return Pod("e-0-1", "uid", "e-0", 1, phase, **{"training": True, "node": "n1", **fields})  # type: ignore[arg-type]


def failures(**fields: object) -> Failures:
    return Failures.model_validate(fields)


def exited(code: int, reason: str = "Error", name: str = "trial") -> tuple[ContainerEnd, ...]:
    return (ContainerEnd(name, code, reason),)


DISRUPTION, INFRASTRUCTURE, USER = FailureClass.DISRUPTION, FailureClass.INFRASTRUCTURE, FailureClass.USER


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (pod(disruption="EvictionByEvictionAPI: drained", ends=exited(143)), DISRUPTION),
        (pod(disruption="PreemptionByScheduler: preempted", ends=exited(137)), DISRUPTION),
        (pod(disruption="TerminationTarget: preempted by Kueue", ends=exited(1)), DISRUPTION),
        (pod(reason="NodeLost"), DISRUPTION),
        (pod(ends=exited(137, "ContainerStatusUnknown")), DISRUPTION),
        (pod(reason="Evicted", ends=exited(137, "ContainerStatusUnknown")), USER),
        (pod(reason="Terminated", message="Pod was terminated in response to imminent node shutdown"), DISRUPTION),
        (pod(deleting=True, interrupted=True, ends=exited(143)), DISRUPTION),
        (pod(PodPhase.RUNNING, gone=True), DISRUPTION),
        (pod(PodPhase.PENDING, gone=True, training=False), DISRUPTION),
        (pod(reason="OutOfcpu", training=False), INFRASTRUCTURE),
        (pod(reason="UnexpectedAdmissionError", training=False), INFRASTRUCTURE),
        (pod(training=False), INFRASTRUCTURE),
        (pod(training=False, ends=exited(NOT_RESTORABLE, name=RESTORE_CONTAINER)), INFRASTRUCTURE),
        (pod(training=False, ends=exited(75, name=RESTORE_CONTAINER)), INFRASTRUCTURE),
        (pod(ends=exited(137, "OOMKilled")), USER),
        (pod(reason="Evicted", message="ephemeral storage exceeds", ends=exited(137)), USER),
        (pod(ends=exited(1)), USER),
        (pod(ends=exited(143)), USER),
        (pod(ends=exited(3)), FailureClass.FINAL),
        (pod(PodPhase.SUCCEEDED, ends=exited(0)), FailureClass.COMPLETE),
        (pod(PodPhase.SUCCEEDED, ends=exited(0), gone=True), FailureClass.COMPLETE),
        (pod(PodPhase.SUCCEEDED, ends=exited(0), deleting=True, interrupted=True), DISRUPTION),
        (pod(PodPhase.SUCCEEDED, ends=exited(0), disruption="PreemptionByScheduler: preempted"), DISRUPTION),
        (pod(PodPhase.SUCCEEDED, ends=exited(0), deleting=True, interrupted=False), FailureClass.COMPLETE),
    ],
    ids=lambda value: str(value) if isinstance(value, FailureClass) else "",
)
def test_what_an_attempt_counts_as(seen: Pod, expected: FailureClass) -> None:
    assert (
        classify([seen], None, said_done=False, failures=failures(nonRetriableExitCodes=[3])).failure_class is expected
    )


@pytest.mark.parametrize(
    "seen", [pod(ends=exited(143), deleting=True, interrupted=True), pod(gone=True), pod(ends=exited(1))]
)
def test_what_we_deleted_ourselves_counts_as_nothing_else(seen: Pod) -> None:
    outcome = classify([seen], DECIDED, said_done=False, failures=failures(nonRetriableExitCodes=[1]))
    assert (outcome.failure_class, outcome.reason) == (FailureClass.OURS, "StoppedByScheduler")


def test_a_program_that_had_said_it_was_done_is_complete_although_it_was_taken_away() -> None:
    seen = pod(PodPhase.SUCCEEDED, ends=exited(0), disruption="PreemptionByScheduler: preempted", interrupted=True)
    assert classify([seen], None, said_done=True, failures=failures()).failure_class is FailureClass.COMPLETE


def test_a_program_that_fails_is_not_complete_whatever_it_had_said() -> None:
    assert classify([pod(ends=exited(1))], None, said_done=True, failures=failures()).failure_class is USER


def test_the_remedy_for_too_little_memory_is_named() -> None:
    outcome = classify([pod(ends=exited(137, "OOMKilled"))], None, said_done=False, failures=failures())
    assert (
        outcome.message
        == "container trial used more memory than its limit; raise resources.limits.memory in a new Experiment"
    )


# Several pods


def rank(number: int, phase: PodPhase = PodPhase.FAILED, **fields: object) -> Pod:
    return replace(pod(phase, **fields), name=f"e-0-1-{number}", uid=f"uid-{number}", node=f"n{number}", rank=number)


def of(*pods: Pod, ended: tuple[int, ...] = (), **fields: object) -> AttemptOutcome:
    """Classifies a gang; where some ranks had ended before we deleted the others, that is on record."""
    end = Decision(action="END", reason="RankEnded", attempt=1, ranks=list(ended)) if ended else None
    return classify(pods, end, said_done=False, failures=failures(**fields))


def test_an_attempt_that_was_disrupted_on_any_rank_is_disrupted() -> None:
    lost = rank(2, disruption="PreemptionByScheduler: preempted", ends=exited(137), ended=9.0)
    outcome = of(rank(0, ends=exited(1), ended=5.0), rank(1, PodPhase.SUCCEEDED), lost)
    assert (outcome.failure_class, outcome.node) == (DISRUPTION, "n2")


def test_the_rank_that_failed_first_tells_what_happened() -> None:
    outcome = of(rank(0, ends=exited(1), ended=9.0), rank(1, ends=exited(137, "OOMKilled"), ended=5.0))
    assert (outcome.failure_class, outcome.reason, outcome.node) == (USER, "OOMKilled", "n1")


def test_ranks_that_we_deleted_after_another_one_had_failed_say_nothing() -> None:
    swept = rank(1, deleting=True, interrupted=True, ends=exited(143))
    assert of(rank(0, ends=exited(1)), swept, ended=(0,)).failure_class is USER
    assert of(rank(0, ends=exited(1)), swept).failure_class is DISRUPTION


def test_an_attempt_is_complete_when_all_its_ranks_are() -> None:
    assert of(rank(0, PodPhase.SUCCEEDED), rank(1, PodPhase.SUCCEEDED)).failure_class is FailureClass.COMPLETE
    assert of(rank(0, PodPhase.SUCCEEDED), rank(1, ends=exited(1))).failure_class is USER


# The user's rules


def by_rule(seen: Pod, *rules: dict[str, object], log: str = "") -> AttemptOutcome:
    return classify([seen], None, said_done=False, failures=failures(rules=rules), log_tail=log)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("Retry", USER),
        ("Fail", FailureClass.FINAL),
        ("Ignore", FailureClass.IGNORED),
        ("ExcludeNode", INFRASTRUCTURE),
    ],
)
def test_a_rule_decides_what_an_exit_code_counts_as(action: str, expected: FailureClass) -> None:
    outcome = by_rule(pod(ends=exited(42)), {"exitCodes": [41, 42], "action": action})
    assert outcome.failure_class is expected
    assert outcome.excludes_node is (action == "ExcludeNode")
    assert outcome.message == f"container trial ended with exit code 42 (failures.rules[0]: {action})"


def test_the_first_rule_that_matches_decides() -> None:
    rules = (
        {"reason": "OOMKilled", "action": "Fail"},
        {"exitCodes": [1], "action": "Ignore"},
        {"exitCodes": [1], "action": "Fail"},
    )
    assert by_rule(pod(ends=exited(1)), *rules).failure_class is FailureClass.IGNORED
    assert by_rule(pod(ends=exited(137, "OOMKilled")), *rules).failure_class is FailureClass.FINAL
    assert by_rule(pod(ends=exited(2)), *rules).failure_class is USER


def test_all_that_a_rule_names_has_to_match() -> None:
    rule = {"exitCodes": [1], "logRegex": r"CUDA error: .*ECC", "action": "ExcludeNode"}
    log = "epoch 3\nRuntimeError: CUDA error: uncorrectable ECC error\n"
    assert by_rule(pod(ends=exited(1)), rule, log=log).failure_class is INFRASTRUCTURE
    assert by_rule(pod(ends=exited(2)), rule, log=log).failure_class is USER
    assert by_rule(pod(ends=exited(1)), rule, log="KeyError: 'lr'").failure_class is USER


def test_what_sigterm_made_of_a_disrupted_program_matches_no_rule_but_by_reason() -> None:
    seen = pod(disruption="PreemptionByScheduler: preempted", ends=exited(143))
    by_code = {"exitCodes": [143], "action": "Fail"}
    by_log = {"logRegex": ".*", "action": "Fail"}
    assert by_rule(seen, by_code, by_log, log="killed").failure_class is DISRUPTION
    assert by_rule(seen, {"reason": "PreemptionByScheduler", "action": "Fail"}).failure_class is FailureClass.FINAL


def test_no_expression_of_a_user_can_hang_the_operator() -> None:
    rule = {"logRegex": "(a+)+$", "action": "Fail"}
    assert by_rule(pod(ends=exited(1)), rule, log="a" * 100_000 + "b").failure_class is USER


def test_ignored_failures_spend_nothing_but_are_capped() -> None:
    program = Program(faults={0: (ScheduledFault(Fault.CRASH, 1),) * 3})
    rules = [{"exitCodes": [1], "action": "Ignore"}]
    given = {"maxFailures": 0, "maxIgnored": 2, "rules": rules, "backoff": BACKOFF}
    status = Simulation(spec(**ONE, failures=given), program).run().status()
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.MAX_IGNORED_EXCEEDED)
    assert (status.failures, status.ignored) == (0, 3)


def test_a_rule_looks_for_its_expression_in_the_programs_log() -> None:
    program = Program(faults={0: (ScheduledFault(Fault.CRASH, 1),)})
    rules = [{"logRegex": "ValueError: b[o]+m", "action": "Fail"}]
    status = Simulation(spec(**ONE, failures={"rules": rules}), program).run().status()
    assert (status.state, status.reason, status.failures) == (TrialState.ERROR, "Error", 1)
    assert "(failures.rules[0]: Fail)" in status.message


# What follows for the trial


def test_a_crash_is_retried_until_max_failures_is_spent() -> None:
    program = Program(faults={0: (ScheduledFault(Fault.CRASH, 2),) * 3})
    simulation = Simulation(spec(**ONE, failures={"maxFailures": 2, "backoff": BACKOFF}), program).run()
    status = simulation.status()
    assert (status.state, status.reason, status.failures) == (TrialState.ERROR, TrialReason.MAX_FAILURES_EXCEEDED, 3)
    ended = "container trial ended with exit code 1"
    spent = "that was failure 3, maxFailures is 2"
    assert status.message == f"{ended} (last line of its log: ValueError: boom); {spent}"
    assert status.ledger[-1].message == f"{ended}; {spent}", "the log stands beside the ledger"
    assert status.last_attempt is not None
    assert status.last_attempt.exit_code == 1
    assert status.last_attempt.log_tail.endswith("ValueError: boom")
    assert [action.attempt for action in simulation.created_pods()] == [1, 2, 3]


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


def test_a_retry_waits_for_twice_as_long_each_time() -> None:
    program = Program(steps=1, faults={0: (ScheduledFault(Fault.CRASH),) * 4})
    simulation = Simulation(spec(**ONE, failures={"maxFailures": 3, "backoff": BACKOFF}), program)
    waits = []
    for attempt in (2, 3, 4):
        simulation.run(
            until=lambda attempt=attempt: simulation.status_exists() and simulation.status().failures == attempt - 1
        )
        failed = simulation.now
        simulation.run(until=lambda attempt=attempt: f"e-0-{attempt}" in simulation.pods)
        waits.append(simulation.now - failed)
    for wait, longest in zip(waits, (10, 20, 40), strict=True):
        assert longest / 2 - 1 <= wait <= longest


def test_disruptions_spend_no_failure_but_are_capped() -> None:
    program = Program(faults={0: (ScheduledFault(Fault.EVICTED, 1),) * 3})
    failures = {"maxFailures": 0, "maxDisruptions": 2, "backoff": BACKOFF}
    simulation = Simulation(spec(**ONE, failures=failures), program).run()
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.MAX_DISRUPTIONS_EXCEEDED)
    assert (status.failures, status.disruptions) == (0, 3)
    assert status.message == "EvictionByEvictionAPI: drained; that was disruption 3, maxDisruptions is 2"


def test_a_non_retriable_exit_code_ends_a_trial_at_once() -> None:
    program = Program(faults={0: (ScheduledFault(Fault.CRASH, 1, exit_code=3),)})
    simulation = Simulation(spec(**ONE, failures={"nonRetriableExitCodes": [3]}), program).run()
    status = simulation.status()
    assert (status.state, status.reason, status.failures) == (TrialState.ERROR, TrialReason.NON_RETRIABLE_EXIT_CODE, 1)
    assert len(simulation.pods) == 1


def test_a_bad_image_is_waited_for_until_the_start_deadline() -> None:
    program = Program(faults={0: (ScheduledFault(Fault.STUCK),)})
    simulation = Simulation(spec(**ONE, failures={"startDeadline": "2m"}), program)
    simulation.run(100.0)
    assert (simulation.status().state, simulation.status().reason) == (TrialState.PENDING, TrialReason.PULLING_IMAGE)
    assert simulation.status().message == 'ImagePullBackOff: Back-off pulling image "nowhere"'
    simulation.run(until=lambda: simulation.is_over)
    status = simulation.status()
    assert (status.state, status.reason, status.failures) == (TrialState.ERROR, TrialReason.START_DEADLINE_EXCEEDED, 1)
    assert status.last_attempt is not None
    assert status.last_attempt.failure_class == FailureClass.FINAL
    assert status.message.endswith("(for longer than failures.startDeadline, 2m)")
    assert 120 <= simulation.now - START <= 130


def test_an_attempt_whose_pods_can_not_be_completed_spends_no_failure() -> None:
    """As where rank 0 of a gang is gone that its other pods were made for."""
    simulation = Simulation(spec(**ONE, failures={"maxInfrastructureFailures": 1, "backoff": BACKOFF}))
    simulation.refuse = lambda action: (
        ActionResult(ActionStatus.REFUSED, "made for a pod that is gone") if isinstance(action, CreatePod) else None
    )
    simulation.run()
    status = simulation.status()
    assert (status.state, status.failures, status.disruptions) == (TrialState.ERROR, 0, 0)
    assert (status.reason, status.infrastructure_failures) == (TrialReason.MAX_INFRASTRUCTURE_FAILURES_EXCEEDED, 2)
    words = "that was infrastructure failure 2, maxInfrastructureFailures is 1"
    assert status.message == f"made for a pod that is gone; {words}"
    assert status.pod is None


def test_logs_that_can_not_be_had_do_not_hold_up_the_end() -> None:
    simulation = Simulation(
        spec(**ONE, failures={"maxFailures": 0}),
        Program(faults={0: (ScheduledFault(Fault.CRASH, 1),)}),
        settings=RunnerSettings(log_tries=3),
    )
    simulation.refuse = lambda action: (
        ActionResult(ActionStatus.FAILED, "kubelet away") if isinstance(action, FetchLogs) else None
    )
    simulation.run()
    assert len(simulation.actions(FetchLogs)) == 3
    assert simulation.status().state is TrialState.ERROR
    assert simulation.status().last_attempt.log_tail == ""  # type: ignore[union-attr]


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
        "e-0-1", disruption="DeletionByTaintManager: deleting due to NoExecute taint", deleting=True, interrupted=True
    )
    simulation.run(1000.0)
    status = simulation.status()
    assert (status.state, status.reason, status.attempt) == (TrialState.RUNNING, TrialReason.DISRUPTED, 1)
    waits = "waits for the end of pod e-0-1 on node n1"
    assert status.message == f"DeletionByTaintManager: deleting due to NoExecute taint; {waits}"
    simulation.frozen = False
    simulation.api.remove_pod("e-0-1")
    simulation.run(until=lambda: simulation.status().attempt == 2)
    assert simulation.status().disruptions == 1


NO_SUCH_FILE = (
    'failed to create containerd task: OCI runtime create failed: exec: "/no/such/program": stat /no/such/program: '
    "no such file or directory: unknown"
)


@pytest.mark.parametrize("reason", ["StartError", "ContainerCannotRun"])
def test_a_command_that_is_not_there_is_told_in_the_runtimes_words_and_not_tried_again(reason: str) -> None:
    ends = (ContainerEnd("trial", 128, reason, NO_SUCH_FILE),)
    outcome = classify([pod(ends=ends)], None, said_done=False, failures=failures())
    assert (outcome.failure_class, outcome.reason, outcome.exit_code) == (FailureClass.FINAL, reason, 128)
    assert outcome.message == f"container trial could not be started: {NO_SUCH_FILE}"


def test_a_runtime_that_fails_by_itself_is_asked_once_more() -> None:
    ends = (ContainerEnd("trial", 128, "StartError", "failed to create shim task: context deadline exceeded"),)
    outcome = classify([pod(ends=ends)], None, said_done=False, failures=failures())
    assert outcome.failure_class is USER
    assert outcome.message == (
        "container trial could not be started: failed to create shim task: context deadline exceeded"
    )
