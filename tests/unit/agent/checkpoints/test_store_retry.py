"""How long a store that fails is waited for: time passes only where somebody waits."""

from collections.abc import Callable
from random import Random
from types import TracebackType
from typing import Any

import pytest

from podtune.agent.checkpoints import store_retry
from podtune.agent.checkpoints.store_retry import StoreRetry
from podtune.agent.checkpoints.upload_task import TaskContext
from podtune.storage.errors import BucketNotFound, Unreachable

AWAY, MISSING = Unreachable("bucket 'models' does not answer"), BucketNotFound("bucket 'models' does not exist")


class RecordedWaits:
    """A condition that is held by whoever wants it, and keeps how long it was waited on."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        self.seconds.append(0.0 if predicate() else timeout)
        return predicate()

    def notify_all(self) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass


@pytest.fixture
def waits(context: TaskContext, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setattr(store_retry, "FIRST_WAIT", 0.5)
    monkeypatch.setattr(store_retry, "PERMANENT_WAIT", 30.0)
    condition: Any = RecordedWaits()
    context.attempt.changed = condition
    recorded: list[float] = condition.seconds
    return recorded


def test_a_store_that_does_not_answer_is_asked_again_less_and_less_often(
    context: TaskContext, waits: list[float]
) -> None:
    retry = StoreRetry(context, Random(1))
    for _ in range(8):
        retry.back_off(AWAY)
    for seconds, step in zip(waits, [0.5, 1, 2, 4, 8, 15, 15, 15], strict=True):
        assert step / 2 <= seconds <= step
    retry.record_success()
    retry.back_off(AWAY)
    assert waits[-1] <= 0.5


def test_one_that_somebody_has_to_mend_is_left_alone_until_the_program_has_ended(
    context: TaskContext, waits: list[float]
) -> None:
    retry = StoreRetry(context, Random(1))
    retry.back_off(MISSING)
    assert 15 <= waits[0] <= 30
    context.shutdown.has_begun = True
    for _ in range(8):
        retry.back_off(MISSING)
    assert max(waits[1:]) == store_retry.LONGEST_WAIT_ENDING
    context.shutdown.cancel_token.cancel()
    retry.back_off(MISSING)
    assert waits[-1] == 0, "there is no time left to wait"
