"""The state of one trial, fed with values: what it keeps from one attempt to the next, and what it forgets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtune.api.names import DecisionAction, DesiredState, TrialReason, TrialState
from podtune.api.resources.trial import AttemptEnd, PodRef
from podtune.protocol.messages import Result
from podtune.runner.attempts.ending import end_attempt
from podtune.runner.records import ContainerEnd, Pod, PodPhase
from podtune.runner.timestamps import format_rfc3339
from podtune.runner.trial.machine import NEVER, TrialMachine
from podtune.runner.trial.phase import TrialPhase
from tests.unit.runner.objects import NOW, PREFIX, make_machine, make_trial, save

FIRST = Pod("e-0-1", "first", "e-0", 1, PodPhase.RUNNING, version=1, training=True)


def after_one_attempt() -> TrialMachine:
    """A trial whose first attempt has crashed and is on its way to the status."""
    made = make_machine(make_trial())
    made.observe_pod(FIRST)
    made.current.acked_seq, made.current.wanted_step = 7, 3
    made.current.held.append(Result(8, NOW, {"loss": 1.0}, 8))
    made.observe_pod(replace(FIRST, version=2, phase=PodPhase.FAILED, ends=(ContainerEnd("trial", 1, "Error"),)))
    made.follow_end(end_attempt(made.describe_end(None), NOW), NOW)
    return made


def test_an_attempt_begins_with_its_leading_pod() -> None:
    made = make_machine(make_trial())
    assert (made.phase, made.attempt, made.current.uid) == (TrialPhase.NEW, 1, "")
    made.observe_pod(FIRST)
    assert (made.phase, made.current.uid, made.home) == (TrialPhase.RUNNING, "first", f"{PREFIX}e-0/first/")


def test_nothing_of_an_attempt_is_left_to_the_next_one() -> None:
    made = after_one_attempt()
    assert (made.attempt, made.phase) == (2, TrialPhase.BACKING_OFF)
    current = made.current
    assert (current.uid, current.acked_seq, current.wanted_step, current.held) == ("", 0, None, [])
    assert not current.pods
    assert list(made.leftovers) == ["e-0-1"], "its pod is still to be cleaned up"
    assert made.write_due == NOW


def test_a_pod_of_an_attempt_that_has_ended_changes_nothing_of_the_next_one() -> None:
    made = after_one_attempt()
    made.observe_pod(replace(FIRST, version=3, phase=PodPhase.FAILED))
    assert not made.current.pods
    made.observe_pod(replace(FIRST, version=4, phase=PodPhase.FAILED, gone=True))
    assert made.leftovers == {}


def test_a_restarted_operator_goes_on_with_the_attempt_on_record() -> None:
    pod = {"name": "e-0-1", "uid": "first"}
    made = make_machine(make_trial(state=TrialState.RUNNING, attempt=1, pod=pod, durable_seq=5))
    assert (made.current.uid, made.current.acked_seq, made.lacks_recorded_pod) == ("first", 5, True)
    made.miss_pods()
    assert made.pod is not None
    assert (made.pod.gone, made.pod.training) == (True, True)


def test_a_pod_of_an_attempt_before_the_one_on_record_is_none_to_go_on_with() -> None:
    last = AttemptEnd(attempt=1, failure_class="user", reason="Error")
    made = make_machine(
        make_trial(state=TrialState.PENDING, pod=PodRef(name="e-0-1", uid="first"), last_attempt=last, durable_seq=5)
    )
    assert (made.attempt, made.current.uid, made.current.acked_seq) == (2, "", 0)


def test_a_trial_starts_no_sooner_than_its_backoff_is_over_and_that_is_on_record() -> None:
    made = after_one_attempt()
    assert made.find_start_time() == NEVER, "that it is to be tried again is not on record"
    save(made)
    assert format_rfc3339(made.find_start_time()) == made.status.retry_time


@pytest.mark.parametrize("desired", [DesiredState.PAUSED, DesiredState.STOPPED])
def test_a_trial_that_its_user_does_not_want_to_run_does_not_start(desired: DesiredState) -> None:
    made = make_machine(make_trial(desired=desired))
    assert (made.is_to_run, made.find_start_time()) == (False, NEVER)


def test_a_status_that_somebody_else_wrote_is_told_from_our_own() -> None:
    made = make_machine(make_trial())
    made.observe_pod(FIRST)
    made.decide(DecisionAction.STOP, TrialReason.STOPPED_BY_USER, "why", now=NOW)
    assert not made.is_durable
    assert save(made)
    assert made.is_durable
    assert not made.observe_trial(make_trial(version=3, state=TrialState.PAUSED))
