"""The operator is told at once of what is not stored: it may wait for that before it takes the pod away."""

import pytest

from podtune.agent.state.attempt import Attempt
from podtune.agent.state.result_line import ResultLine
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import CheckpointCommit, Reply, Unstored

COMMIT = CheckpointCommit(CheckpointRef("s3://b/1", "sha256:1", 1), 1)


@pytest.fixture
def attempt() -> Attempt:
    """An attempt whose operator knows that a checkpoint is being stored."""
    attempt = Attempt("pod-1", "loss", has_store=True)
    attempt.begin(0.0)
    attempt.add(ResultLine({"loss": 1.0}, "a"), 1.0)
    attempt.checkpoints.start()
    assert attempt.build_report(10.0).unstored == Unstored(since=1, seq=1, step=1, waits=True)
    attempt.take_reply(Reply(1, 1), 10.0)
    assert attempt.compute_next_report_time() > 10.0
    return attempt


def test_that_a_checkpoint_was_given_up_is_said_at_once(attempt: Attempt) -> None:
    attempt.checkpoints.give_up()
    assert attempt.compute_next_report_time() < 10.0
    assert attempt.build_report(11.0).unstored == Unstored(since=1, seq=1, step=1, waits=False)
    attempt.take_reply(Reply(1, 1), 11.0)
    assert attempt.compute_next_report_time() > 11.0, "once"


def test_that_it_was_stored_is_said_at_once(attempt: Attempt) -> None:
    attempt.checkpoints.succeed(COMMIT)
    assert attempt.compute_next_report_time() < 10.0
    report = attempt.build_report(11.0)
    assert (report.unstored, report.checkpoints) == (None, (COMMIT,))


def test_the_last_word_says_it_too(attempt: Attempt) -> None:
    assert attempt.build_final_commit().unstored == Unstored(since=1, seq=1, step=1, waits=True)
