"""The simulated agents of `make chaos` end as real ones do: they store what is left, for as long as they have."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import aiohttp
import pytest

from e2e.chaos.ground_truth import AttemptTruth, GroundTruth
from e2e.chaos.pods.simulated_agent import SimulatedAgent, Uploads
from e2e.chaos.polling import until
from podtune.protocol.messages import FinalCommit, Reply, Unstored, parse_final_commit
from podtune.simulation.uploads import OUT_OF_TIME


class Unreachable:
    """An operator that nobody reaches."""

    def post(self, *args: object, **kwargs: object) -> object:
        raise OSError


class Answering:
    """An operator that has one answer to all."""

    status = 200

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    @asynccontextmanager
    async def post(self, *args: object, **kwargs: object) -> AsyncIterator[Answering]:
        yield self

    async def read(self) -> bytes:
        return self._reply.to_json()


def agent_of(
    truth: GroundTruth, attempt: AttemptTruth, uploads: Uploads, operator: Unreachable | Answering | None = None
) -> SimulatedAgent:
    return SimulatedAgent(
        truth,
        attempt,
        metric="value",
        url="http://nowhere",
        token=lambda: "token",
        home="s3://bucket/uid/c1-0/pod-1",
        uploads=uploads,
        session=cast(aiohttp.ClientSession, operator or Unreachable()),
        rng=random.Random(1),
    )


async def run(uploads: Uploads, steps: int) -> tuple[FinalCommit, FinalCommit, list[int], list[int]]:
    """The agent's words when the program has ended, those at its own end, and what is reported, and stored."""
    truth, attempt = GroundTruth(), AttemptTruth("c1-0", 1, "pod-1")
    agent = agent_of(truth, attempt, uploads)
    await agent.start()
    for step in range(1, steps + 1):
        agent.result(step, 0.5, checkpoint=True)
    ending = asyncio.ensure_future(agent.end())
    await asyncio.sleep(0)
    first = parse_final_commit(agent.words)
    last = parse_final_commit(await ending)
    assert first is not None
    assert last is not None
    return first, last, attempt.reported, [commit.checkpoint.step for commit in attempt.committed]


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.chaos.pods.simulated_agent.PATIENCE", 0.0)


async def test_what_is_on_its_way_is_stored_after_the_programs_end() -> None:
    first, last, reported, stored = await run(Uploads(seconds=0.05, drain=20.0), steps=2)
    assert first.unstored == Unstored(since=1, seq=2, step=2, waits=True)
    assert last.unstored is None
    assert (reported, stored) == ([1, 2], [1, 2])


async def test_what_does_not_come_to_an_end_is_told_as_not_stored() -> None:
    _, last, reported, stored = await run(Uploads(seconds=0.01, stuck_from=2, drain=3.0), steps=2)
    assert last.unstored == Unstored(since=2, seq=2, step=2, waits=True)
    assert last.store_problem == OUT_OF_TIME
    assert (reported, stored) == ([1, 2], [1])


async def test_a_trial_that_keeps_nothing_stores_no_more_and_deletes_what_there_is() -> None:
    of_another = "s3://bucket/uid/c1-1/pod-9/1"
    truth = GroundTruth(bucket={"s3://bucket/uid/c1-0/pod-0/1": 1, of_another: 1})
    reply = Reply(1, 1, decision="STOP", kept=(), discards=True)
    agent = agent_of(truth, AttemptTruth("c1-0", 1, "pod-1"), Uploads(stuck_from=2), Answering(reply))
    agent.result(2, 0.5, checkpoint=True)
    await agent.start()
    assert await until(lambda: agent.attempt.discards and not agent.is_storing, 60.0, interval=0.01)
    assert truth.bucket == {of_another: 1}
    last = parse_final_commit(await agent.end())
    assert last is not None
    assert (last.unstored, last.checkpoints) == (None, ())


async def test_where_time_is_short_the_newest_alone_is_stored() -> None:
    _, last, _, stored = await run(Uploads(seconds=0.4, drain=2.4), steps=4)
    assert stored[-1] == 4
    assert len(stored) < 4
    assert last.unstored is None
