"""However many requests come at once, something else gets its turn after a few of them."""

from __future__ import annotations

import asyncio

from podtune.results.loop_rate_limiter import LoopRateLimiter


async def _answer(limiter: LoopRateLimiter, number: int, answered: list[int], sender: str = "10.0.0.1") -> None:
    await limiter.wait(sender)
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


async def test_a_flood_of_one_address_delays_anothers_request_by_one_turn_at_most() -> None:
    limiter, answered = LoopRateLimiter(3), list[int]()
    flood = [asyncio.create_task(_answer(limiter, number, answered, "10.0.0.1")) for number in range(100)]
    await asyncio.sleep(0)
    others = [asyncio.create_task(_answer(limiter, -number, answered, "10.0.0.2")) for number in (1, 2)]
    await asyncio.sleep(0)
    before = len(answered)
    assert before <= 6, "the flood has hardly begun"
    await asyncio.gather(*others)
    assert answered[before:].index(-1) < 2 * 3, "its first comes in the turn after the one that had begun"
    assert answered[before:].index(-2) < 3 * 3, "and its second in the one after that"
    await asyncio.gather(*flood)


async def test_of_many_addresses_each_gets_one_turn_before_any_gets_two() -> None:
    limiter, answered = LoopRateLimiter(1), list[str]()

    async def answer(sender: str) -> None:
        await limiter.wait(sender)
        answered.append(sender)

    senders = ["none waits for it", *"aaabbc"]
    await asyncio.gather(*(answer(sender) for sender in senders))
    assert "".join(answered[1:]) == "abcaba"


async def test_of_many_groups_each_gets_one_turn_before_any_gets_two_and_so_do_senders_within_one() -> None:
    limiter, answered = LoopRateLimiter(1), list[str]()

    async def answer(sender: str, group: str) -> None:
        await limiter.wait(sender, group)
        answered.append(group + sender)

    senders = ["none waits for it", *("a1", "a1", "a2", "a3", "b1", "b1", "c1")]
    await asyncio.gather(*(answer(sender[1:], sender[0]) for sender in senders))
    assert answered[1:] == ["a1", "b1", "c1", "a2", "b1", "a3", "a1"]


async def test_of_addresses_that_have_come_and_gone_nothing_is_kept() -> None:
    limiter = LoopRateLimiter(1)
    requests = [asyncio.create_task(limiter.wait(f"10.0.0.{number}", f"team-{number % 7}")) for number in range(50)]
    await asyncio.sleep(0)
    for request in requests[::2]:
        request.cancel()
    await asyncio.gather(*requests, return_exceptions=True)
    assert not limiter._waiting
