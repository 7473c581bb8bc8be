"""What is wrong with the bucket is told before there is anything to store."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from podtune.agent.checkpoints import store_check
from podtune.agent.checkpoints.store_check import StoreCheck
from podtune.agent.checkpoints.store_retry import StoreRetry
from podtune.agent.checkpoints.upload_task import TaskContext
from podtune.storage.errors import InvalidCredentials, Unreachable
from tests.unit.agent.running_agent import STORE, RunningAgent, StartAgent, TakeCheckpoint
from tests.unit.agent.stub_operator import StubOperator
from tests.unit.storage.memory_store import MemoryStore


def test_a_store_problem_is_reported_early_and_withdrawn_once_it_is_mended(
    operator: StubOperator, agent: RunningAgent, report: TakeCheckpoint, store: MemoryStore
) -> None:
    store.failure = InvalidCredentials("bucket 'models' refuses the credentials; correct the Secret")
    report("w1", accuracy=0.5)
    operator.wait_for(lambda: operator.reports and operator.reports[-1].store_problem is not None)
    problem = operator.reports[-1].store_problem
    assert (problem.reason, problem.permanent) == ("InvalidCredentials", True)
    store.failure = None
    operator.wait_for(lambda: operator.commits and operator.reports[-1].store_problem is None)


def test_a_missing_bucket_is_reported_before_there_is_a_checkpoint(
    operator: StubOperator, start_agent: StartAgent
) -> None:
    agent = start_agent(STORE, make_store=lambda _: MemoryStore(bucket_exists=False))
    operator.wait_for(lambda: operator.reports and operator.reports[-1].store_problem is not None)
    assert operator.reports[-1].store_problem.reason == "BucketNotFound"
    assert agent.end().store_problem.reason == "BucketNotFound"


@pytest.fixture
def check(context: TaskContext, monkeypatch: pytest.MonkeyPatch) -> StoreCheck:
    monkeypatch.setattr(store_check, "CHECK_WAIT", 0.0)
    return StoreCheck(context, StoreRetry(context, Random(1)))


def test_the_bucket_is_looked_at_until_it_works(check: StoreCheck, context: TaskContext, store: MemoryStore) -> None:
    store.failure = Unreachable("bucket 'models' does not answer")
    check.run()
    assert (check.due_in, context.attempt.store_problem and context.attempt.store_problem.reason) == (0, "Unreachable")
    store.failure = None
    check.run()
    assert (check.due_in, context.attempt.store_problem) == (None, None)


def test_a_checkpoint_that_waits_is_stored_instead(
    check: StoreCheck, context: TaskContext, take: Callable[[int, bytes], Path], store: MemoryStore
) -> None:
    store.failure = Unreachable("bucket 'models' does not answer")
    take(1, b"w1")
    check.run()
    assert (check.due_in, context.attempt.store_problem) == (0, None)


def test_a_bucket_that_was_looked_at_already_is_not_looked_at_again(context: TaskContext) -> None:
    assert StoreCheck(context, StoreRetry(context, Random(1), has_worked=True)).due_in is None
