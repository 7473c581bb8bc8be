"""However many requests come at once, something else gets its turn after a few of them."""

from __future__ import annotations

import asyncio

from podtune.results.loop_rate_limiter import LoopRateLimiter


async def _answer(limiter: LoopRateLimiter, number: int, answered: list[int]) -> None:
    await limiter.wait()
    answered.append(number)


async def test_of_many_requests_only_some_are_answered_in_a_turn_and_all_in_order() -> None:
    limiter, answered = LoopRateLimiter(3), list[int]()
    requests = [asyncio.create_task(_answer(limiter, number, answered)) for number in range(10)]
    most = before = 0
    while len(answered) < 10:
        await asyncio.sleep(0)
        most, before = max(most, len(answered) - before), len(answered)
    assert most == 3
    assert answered == list(range(10))
    await asyncio.gather(*requests)


async def test_few_requests_wait_for_nothing() -> None:
    limiter, answered = LoopRateLimiter(3), list[int]()
    for number in range(2):
        await asyncio.create_task(_answer(limiter, number, answered))
        await asyncio.sleep(0)
    assert answered == [0, 1]


async def test_a_request_that_was_given_up_takes_nobodys_turn() -> None:
    limiter, answered = LoopRateLimiter(1), list[int]()
    requests = [asyncio.create_task(_answer(limiter, number, answered)) for number in range(4)]
    await asyncio.sleep(0)
    requests[1].cancel()
    async with asyncio.timeout(30):
        await asyncio.gather(*requests, return_exceptions=True)
    assert answered == [0, 2, 3]
