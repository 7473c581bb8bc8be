"""What an ended attempt counts as: the table of the design page, and the user's own rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from podtune.api.pods.pod_template import RESTORE_CONTAINER
from podtune.api.resources.failures import Failures
from podtune.api.resources.trial import Decision
from podtune.protocol.messages import NOT_RESTORABLE
from podtune.runner.attempts.classification import AttemptOutcome, FailureClass, classify
from podtune.runner.records import ContainerEnd, Pod, PodPhase

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
        (pod(deleting=True, ends=exited(143)), DISRUPTION),
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
        (pod(PodPhase.SUCCEEDED, ends=exited(0), deleting=True), DISRUPTION),
        (pod(PodPhase.SUCCEEDED, ends=exited(0), disruption="PreemptionByScheduler: preempted"), DISRUPTION),
        (
            pod(PodPhase.SUCCEEDED, ends=exited(0), deleting=True, deletion_requested=2.0, training_until=1.0),
            FailureClass.COMPLETE,
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, FailureClass) else "",
)
def test_what_an_attempt_counts_as(seen: Pod, expected: FailureClass) -> None:
    assert (
        classify([seen], None, said_done=False, failures=failures(nonRetriableExitCodes=[3])).failure_class is expected
    )


@pytest.mark.parametrize("seen", [pod(ends=exited(143), deleting=True), pod(gone=True), pod(ends=exited(1))])
def test_what_we_deleted_ourselves_counts_as_nothing_else(seen: Pod) -> None:
    outcome = classify([seen], DECIDED, said_done=False, failures=failures(nonRetriableExitCodes=[1]))
    assert (outcome.failure_class, outcome.reason) == (FailureClass.OURS, "StoppedByScheduler")


def test_a_program_that_had_said_it_was_done_is_complete_although_it_was_taken_away() -> None:
    seen = pod(PodPhase.SUCCEEDED, ends=exited(0), disruption="PreemptionByScheduler: preempted", deleting=True)
    assert classify([seen], None, said_done=True, failures=failures()).failure_class is FailureClass.COMPLETE


def test_a_program_that_fails_is_not_complete_whatever_it_had_said() -> None:
    assert classify([pod(ends=exited(1))], None, said_done=True, failures=failures()).failure_class is USER


def test_the_remedy_for_too_little_memory_is_named() -> None:
    """Of the training container it is said where it is known what the next attempt has."""
    killed = [replace(pod(ends=exited(137, "OOMKilled", name=name)), memory="2Gi") for name in ("trial", "helper")]
    training, other = (classify([seen], None, said_done=False, failures=failures()) for seen in killed)
    assert (training.message, training.memory) == ("container trial used more memory than its limit", "2Gi")
    remedy = "raise its limits.memory in spec.trialTemplate"
    assert (other.message, other.memory) == (f"container helper used more memory than its limit; {remedy}", None)


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
    swept = rank(1, deleting=True, ends=exited(143))
    assert of(rank(0, ends=exited(1)), swept, ended=(0,)).failure_class is USER
    assert of(rank(0, ends=exited(1)), swept).failure_class is DISRUPTION


def test_an_attempt_is_complete_when_all_its_ranks_are() -> None:
    assert of(rank(0, PodPhase.SUCCEEDED), rank(1, PodPhase.SUCCEEDED)).failure_class is FailureClass.COMPLETE
    assert of(rank(0, PodPhase.SUCCEEDED), rank(1, ends=exited(1))).failure_class is USER


# The user's rules


def by_rule(seen: Pod, *rules: Mapping[str, object], log: str = "") -> AttemptOutcome:
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
    assert outcome.message == f"container trial exited with code 42 (failures.rules[0]: {action})"


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
