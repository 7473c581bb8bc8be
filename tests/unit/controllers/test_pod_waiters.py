"""Agents that are kept waiting for their pod's next trial."""

import asyncio

from podtune.controllers.pod_waiters import PodWaiters

SOON, LATE = 0.01, 60.0


async def test_the_pod_that_is_given_something_is_woken_and_no_other() -> None:
    waiting = PodWaiters()
    given, other = (asyncio.create_task(waiting.wait(uid, LATE)) for uid in ("given", "other"))
    await asyncio.sleep(0)
    waiting.wake(["given", "of whom nobody waits"])
    await asyncio.wait_for(given, LATE)
    assert not other.done()
    other.cancel()


async def test_nobody_waits_for_ever() -> None:
    waiting = PodWaiters()
    await waiting.wait("idle", SOON)
    waiting.wake(["idle"])
    await waiting.wait("idle", SOON)
