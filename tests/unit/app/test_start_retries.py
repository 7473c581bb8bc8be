"""What the start of an operator does about an API server that turns it away."""

from __future__ import annotations

import random

import pytest

from podtune.app.start_retries import START_PATIENCE, StartRetries
from podtune.kube.errors import ApiError, ApiRefusal, NotSent
from tests.unit.cluster.fake_client import no_answer, refusal
from tests.unit.cluster.virtual_time import in_virtual_time, now


class Step:
    """Fails as it is told, and then no more."""

    def __init__(self, *failures: ApiError, last: ApiError | None = None) -> None:
        self._failures = list(failures)
        self._last = last
        self.taken_at: list[float] = []

    async def take(self) -> str:
        self.taken_at.append(now())
        if self._failures:
            raise self._failures.pop(0)
        if self._last is not None:
            raise self._last
        return "done"


async def carry_out(step: Step, seed: int = 1) -> str:
    return await StartRetries(now, random.Random(seed)).carry_out("step", step.take)


@in_virtual_time
async def test_what_succeeds_is_done_once() -> None:
    step = Step()
    assert await carry_out(step) == "done"
    assert step.taken_at == [1000]


@in_virtual_time
async def test_it_comes_back_no_sooner_than_it_is_asked_to_and_not_with_all_others() -> None:
    steps = [Step(refusal(429, "storage is (re)initializing", retry_after=20.0)) for _ in range(2)]
    waits = []
    for seed, step in enumerate(steps):
        assert await carry_out(step, seed) == "done"
        waits.append(step.taken_at[1] - step.taken_at[0])
    assert all(20 <= wait <= 40 for wait in waits)
    assert waits[0] != waits[1]


@pytest.mark.parametrize(
    "failure",
    [refusal(429, "too many requests"), refusal(503, "shutting down"), no_answer(), NotSent("connection refused")],
)
def test_without_being_told_it_waits_longer_each_time(failure: ApiError) -> None:
    async def test() -> None:
        step = Step(*[failure] * 6)
        assert await carry_out(step) == "done"
        waits = [later - earlier for earlier, later in zip(step.taken_at, step.taken_at[1:], strict=False)]
        assert 0.5 <= waits[0] <= 1
        assert 5 <= waits[-1] <= 10

    in_virtual_time(test)()


@pytest.mark.parametrize("asked", [None, 1.0, 7.0, 3600.0])
def test_it_does_not_wait_for_ever(asked: float | None) -> None:
    async def test() -> None:
        step = Step(last=refusal(429, "too many requests", retry_after=asked))
        with pytest.raises(ApiRefusal, match="too many requests"):
            await carry_out(step)
        assert now() == pytest.approx(1000 + START_PATIENCE), "and once more at the end"
        assert step.taken_at[-1] == now()

    in_virtual_time(test)()


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_what_will_not_pass_is_told_at_once(status: int) -> None:
    async def test() -> None:
        with pytest.raises(ApiRefusal):
            await carry_out(Step(refusal(status, "no")))
        assert now() == 1000

    in_virtual_time(test)()
