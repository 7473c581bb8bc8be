"""The end of an attempt, from values to a value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtune.api.names import DecisionAction, TrialReason, TrialState
from podtune.api.pods.pod_template import RESTORE_CONTAINER
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import Checkpoint, Clone, Decision, PodRef, RestoreSource, TrialSpec, TrialStatus
from podtune.protocol.messages import NOT_RESTORABLE, Unstored
from podtune.runner.attempts.classification import FailureClass
from podtune.runner.attempts.ending import AttemptEnding, EndedAttempt, SchedulerEvent, end_attempt, reject_attempt
from podtune.runner.attempts.pods import AttemptPods
from podtune.runner.records import ContainerEnd, Pod, PodPhase, Trial
from podtune.runner.timestamps import format_rfc3339, parse_rfc3339
from tests.unit.runner.world.simulation import STORE, spec

NOW = 1_800_000_000.0
HOME = "s3://b/e/e-0/1-uid/"
STORED = Checkpoint(step=4, uri=f"{HOME}4", digest="d")
CRASHED = (ContainerEnd("trial", 1, "Error"),)
NOT_RESTORED = (ContainerEnd(RESTORE_CONTAINER, NOT_RESTORABLE, "Error", "no such key"),)
RESULT = {"accuracy": "0.9", "training_iteration": "6"}
REPORTED = TrialStatus(state=TrialState.RUNNING, iteration=6, last_result=RESULT, best=RESULT)


def pod(phase: PodPhase, ends: tuple[ContainerEnd, ...] = (), rank: int = 0) -> Pod:
    return Pod(
        "e-0-1",
        f"uid-{rank}",
        "e-0",
        1,
        phase,
        node="n1",
        training=True,
        started=NOW - 60,
        ended=NOW,
        ends=ends,
        rank=rank,
    )


def ended(
    *pods: Pod, status: TrialStatus = REPORTED, experiment: ExperimentSpec | None = None, **facts: object
) -> EndedAttempt:
    members = pods or (pod(PodPhase.FAILED, CRASHED),)
    trial = Trial("e-0", "trial-uid", 1, 1, TrialSpec(experiment="e", index=0, seed=1, parameters={}), status)
    attempt = EndedAttempt(
        trial=trial,
        status=status,
        number=1,
        pods=AttemptPods(len(members), members),
        spec=experiment or spec(),
        run_generation=2,
    )
    return replace(attempt, **facts)  # type: ignore[arg-type]


def decided(action: DecisionAction, reason: str, **fields: object) -> Decision:
    return Decision.model_validate({"action": action, "reason": reason, "message": "why", "attempt": 1, **fields})


def with_status(**changes: object) -> TrialStatus:
    return REPORTED.model_copy(update=changes)


def logged(ending: AttemptEnding) -> list[str]:
    return [entry.action for entry in ending.status.ledger]


def test_for_traces_it_is_put_on_record_where_an_attempt_was_and_when_it_began_and_ended() -> None:
    pods = [replace(pod(PodPhase.SUCCEEDED, rank=rank), created=NOW - 90 + rank) for rank in (0, 1)]
    members = (replace(pods[0], training_since=NOW - 40), replace(pods[1], training_since=NOW - 50))
    end = end_attempt(ended(*members, records_times=True), NOW).status.last_attempt
    assert end is not None
    times = (end.creation_time, end.start_time, end.end_time)
    assert times == tuple(format_rfc3339(moment) for moment in (NOW - 90, NOW - 50, NOW))
    assert (end.pod, end.node) == ("e-0-1", "n1")
    silent = end_attempt(ended(*members), NOW).status.last_attempt
    assert silent is not None
    assert (silent.creation_time, silent.start_time, silent.end_time) == (None, None, None), "it costs nothing else"


def test_the_clock_of_a_node_does_not_bring_the_times_into_disorder() -> None:
    ahead = replace(pod(PodPhase.SUCCEEDED), created=NOW - 5, training_since=NOW + 60)
    behind = replace(ahead, training_since=NOW - 60)
    for member, started in ((ahead, NOW), (behind, NOW - 5)):
        end = end_attempt(ended(member, records_times=True), NOW).status.last_attempt
        assert end is not None
        assert (end.start_time, end.end_time) == (format_rfc3339(started), format_rfc3339(NOW))


def test_a_program_that_never_ran_has_no_start() -> None:
    never = replace(pod(PodPhase.FAILED), created=0.0, training=False, training_since=0.0)
    end = end_attempt(ended(never, records_times=True), NOW).status.last_attempt
    assert end is not None
    assert (end.creation_time, end.start_time) == (format_rfc3339(NOW), None)


def test_a_program_that_ends_by_itself_completes_its_trial() -> None:
    ending = end_attempt(ended(pod(PodPhase.SUCCEEDED)), NOW)
    status = ending.status
    assert (status.state, status.reason) == (TrialState.TERMINATED, TrialReason.COMPLETED)
    assert (status.completion_time, status.run_generation) == (format_rfc3339(NOW), 2)
    assert ending.scheduler_events == (SchedulerEvent.COMPLETED,)
    assert ending.events == ()


def test_what_an_attempt_was_is_on_record_beside_the_counter_that_it_went_into() -> None:
    known = PodRef(name="e-0-1", uid="uid-0", since="2027-01-01T00:00:00Z")
    status = end_attempt(ended(status=with_status(pod=known, durable_seq=6)), NOW).status
    assert (status.last_attempt.attempt, status.last_attempt.uid, status.attempt) == (1, "uid-0", 1)
    assert (status.failures, status.durable_seq) == (1, 0)
    assert status.pod == PodRef(name="e-0-1", uid="uid-0", node="n1", since="2027-01-01T00:00:00Z")
    assert status.start_time == format_rfc3339(NOW - 60)
    assert (status.usage.pod_seconds, status.usage.attempt) == (60, None)


def test_a_program_that_fails_is_tried_again_after_a_backoff() -> None:
    allowed = spec(failures={"maxFailures": 1, "backoff": {"initial": "10s", "max": "6m"}})
    ending = end_attempt(ended(experiment=allowed, log_tail="one\nValueError: boom\n"), NOW)
    status = ending.status
    assert (status.state, status.reason) == (TrialState.PENDING, TrialReason.BACKING_OFF)
    assert status.message == (
        "container trial exited with code 1 (last line of its log: ValueError: boom); "
        "will be retried from scratch (no checkpoint)"
    )
    assert (parse_rfc3339(status.retry_time) or 0.0) + 1 >= NOW + 5
    assert (parse_rfc3339(status.retry_time) or 0.0) <= NOW + 10
    assert ending.scheduler_events == (SchedulerEvent.FAILED,)
    assert [(event.reason, event.message) for event in ending.events] == [("Error", status.message)]
    assert logged(ending) == ["RETRY"]


def test_the_same_end_is_followed_by_the_same_status() -> None:
    assert end_attempt(ended(), NOW) == end_attempt(ended(), NOW)


def test_a_trial_that_has_had_its_tries_ends() -> None:
    ending = end_attempt(ended(experiment=spec(failures={"maxFailures": 0}), log_tail="ValueError: boom\n"), NOW)
    status = ending.status
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.MAX_FAILURES_EXCEEDED)
    crashed, spent = "container trial exited with code 1", "not retried: failure 1, maxFailures is 0"
    assert status.message == f"{crashed} (last line of its log: ValueError: boom); {spent}"
    assert status.ledger[-1].message == f"{crashed}; {spent}", "the log stands beside the ledger"
    assert status.last_attempt is not None
    assert (status.last_attempt.exit_code, status.last_attempt.log_tail) == (1, "ValueError: boom\n")
    assert (status.completion_time, status.retry_time) == (format_rfc3339(NOW), None)
    assert ending.scheduler_events == (SchedulerEvent.FAILED, SchedulerEvent.REMOVED)
    assert logged(ending) == ["FAIL"]


@pytest.mark.parametrize(
    ("action", "reason", "state", "retry_time", "keeps"),
    [
        (DecisionAction.STOP, TrialReason.STOPPED_BY_SCHEDULER, TrialState.TERMINATED, None, True),
        (DecisionAction.PAUSE, TrialReason.PAUSED_BY_SCHEDULER, TrialState.PAUSED, format_rfc3339(NOW), True),
        (DecisionAction.PAUSE, TrialReason.PAUSED_BY_USER, TrialState.PAUSED, None, True),
        (DecisionAction.REQUEUE, TrialReason.NODE_AVOIDANCE_EXPIRED, TrialState.PENDING, format_rfc3339(NOW), False),
    ],
)
def test_what_was_decided_is_what_the_trial_becomes(
    action: DecisionAction, reason: TrialReason, state: TrialState, retry_time: str | None, keeps: bool
) -> None:
    decision = decided(action, reason)
    ending = end_attempt(ended(status=with_status(decision=decision)), NOW)
    assert (ending.outcome.failure_class, ending.status.failures) == (FailureClass.OURS, 0)
    assert (ending.status.state, ending.status.retry_time) == (state, retry_time)
    assert ending.status.decision == (decision if keeps else None)
    assert ending.scheduler_events == ()
    assert logged(ending) == [], "the decision is in the ledger already"


def test_a_gang_that_was_not_placed_waits_for_a_while_of_its_own() -> None:
    status = with_status(decision=decided(DecisionAction.REQUEUE, TrialReason.NOT_PLACED))
    ending = end_attempt(ended(status=status), NOW)
    assert (ending.status.state, ending.status.reason) == (TrialState.PENDING, TrialReason.NOT_PLACED)
    assert (parse_rfc3339(ending.status.retry_time) or 0.0) > NOW
    assert (logged(ending), ending.status.decision) == (["RETRY"], None)


def test_a_pause_says_that_there_is_nothing_to_go_on_from() -> None:
    paused = with_status(decision=decided(DecisionAction.PAUSE, TrialReason.PAUSED_BY_SCHEDULER))
    stored = spec(checkpoints={"store": STORE})
    without_store = end_attempt(ended(status=paused), NOW).status.message
    without_checkpoint = end_attempt(ended(status=paused, experiment=stored), NOW).status.message
    with_checkpoint = paused.model_copy(update={"checkpoints": [STORED], "checkpoint": STORED})
    assert without_store.endswith("it will start from scratch (no checkpoints.store)")
    assert without_checkpoint.endswith("it will start from scratch (no checkpoint)")
    assert "from scratch" not in end_attempt(ended(status=with_checkpoint, experiment=stored), NOW).status.message


def test_what_could_not_be_stored_is_lost_and_said() -> None:
    unstored = Unstored(step=6, seq=6, since=6, waits=False)
    stopped = with_status(
        decision=decided(DecisionAction.STOP, "StoppedByUser", seq=6, step=6), checkpoints=[STORED], checkpoint=STORED
    )
    ending = end_attempt(ended(status=stopped, home=HOME, unstored=unstored), NOW)
    lost = "the checkpoint of iteration 6 is lost; the newest stored one is from iteration 4"
    assert (ending.status.lost_checkpoint.message, ending.status.lost_checkpoint.attempts) == (lost, 1)
    assert ending.status.message == f"why; {lost}"
    assert [(event.reason, event.message) for event in ending.events] == [("CheckpointLost", lost)]
    stored = STORED.model_copy(update={"step": 6})
    later = stopped.model_copy(update={"checkpoints": [stored], "checkpoint": stored})
    assert end_attempt(ended(status=later, home=HOME, unstored=unstored), NOW).status.lost_checkpoint is None


def test_nothing_is_lost_where_none_is_kept() -> None:
    decision = decided(DecisionAction.STOP, "StoppedByScheduler", seq=6, step=6).model_copy(update={"discards": True})
    unstored = Unstored(step=6, seq=6, since=6, waits=True)
    ending = end_attempt(ended(status=with_status(decision=decision), home=HOME, unstored=unstored), NOW)
    assert (ending.status.lost_checkpoint, ending.status.message, ending.events) == (None, "why", ())


def test_an_exploit_whose_checkpoint_can_not_be_restored_is_undone() -> None:
    clone = Clone(donor="e-3", checkpoint=STORED, previous_parameters={"lr": "0.1"})
    status = with_status(clone=clone, parameters={"lr": "0.2"})
    ending = end_attempt(ended(pod(PodPhase.FAILED, NOT_RESTORED), status=status), NOW)
    assert ending.status.clone is None
    assert ending.status.parameters == {"lr": "0.1"}
    assert ending.scheduler_events == (SchedulerEvent.RECONFIGURED, SchedulerEvent.FAILED)
    assert logged(ending) == ["UNDO", "RETRY"]


def test_another_checkpoint_is_looked_for_where_the_one_to_start_from_can_not_be_restored() -> None:
    source = RestoreSource(uri=STORED.uri, step=4, digest="d")
    clone = Clone(donor="e-3", checkpoint=STORED)
    status = with_status(clone=clone, restore_source=source)
    ending = end_attempt(ended(pod(PodPhase.FAILED, NOT_RESTORED), status=status), NOW)
    assert (ending.status.restore_source, ending.status.failed_restore_sources) == (None, [STORED.uri])
    assert ending.scheduler_events == (SchedulerEvent.FAILED,)


def test_a_good_end_without_a_usable_result_is_a_failure() -> None:
    empty = TrialStatus(state=TrialState.RUNNING)
    ending = end_attempt(ended(pod(PodPhase.SUCCEEDED), status=empty, results_lost=True), NOW)
    assert (ending.status.state, ending.status.reason) == (TrialState.ERROR, TrialReason.NO_USABLE_RESULT)
    assert "some of its results were lost" in ending.status.message
    assert ending.scheduler_events == (SchedulerEvent.FAILED, SchedulerEvent.REMOVED)


def test_a_pod_that_is_rejected_ends_an_attempt_that_has_used_nothing() -> None:
    ending = reject_attempt(ended(), "quota exceeded", NOW)
    assert (ending.outcome.failure_class, ending.status.infrastructure_failures) == (FailureClass.INFRASTRUCTURE, 1)
    assert (ending.status.pod, ending.status.usage, ending.status.start_time) == (None, None, None)
    assert ending.status.state is TrialState.PENDING
