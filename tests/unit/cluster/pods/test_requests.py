"""Whoever asks while another asks waits for its answer, but never for long."""

from __future__ import annotations

import asyncio

from podtune.api.names import ExperimentReason
from podtune.cluster.pods.requests import FirstAnswers
from podtune.runner.actions import DONE, ActionResult, ActionStatus

REFUSED = ActionResult(ActionStatus.REFUSED, "no", ExperimentReason.POD_REFUSED)
OVER_QUOTA = ActionResult(ActionStatus.FAILED, "exceeded quota")


class Server:
    """Answers as it is told, when it is told."""

    def __init__(self, answer: ActionResult = DONE) -> None:
        self.answer = answer
        self.asked = 0
        self.may_answer = asyncio.Event()

    async def request(self) -> ActionResult:
        self.asked += 1
        await asyncio.sleep(0)  # as whatever goes over a network
        await self.may_answer.wait()
        return self.answer


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_the_others_wait_for_the_first_and_then_go_side_by_side() -> None:
    answers, server = FirstAnswers(), Server()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(answers.ask("e", "template", server.request)) for _ in range(3)]
        await settle()
        assert server.asked == 1
        server.may_answer.set()
    assert [task.result() for task in tasks] == [DONE] * 3
    assert server.asked == 3


async def test_only_a_refusal_of_what_it_is_stands_for_the_others() -> None:
    for answer, asked in ((REFUSED, 1), (OVER_QUOTA, 3)):
        answers, server = FirstAnswers(), Server(answer)
        server.may_answer.set()
        assert await asyncio.gather(*(answers.ask("e", "template", server.request) for _ in range(3))) == [answer] * 3
        assert server.asked == asked


async def test_experiments_do_not_wait_for_each_other() -> None:
    answers, server = FirstAnswers(), Server()
    tasks = [asyncio.ensure_future(answers.ask(name, "template", server.request)) for name in ("e", "f")]
    await settle()
    assert server.asked == 2
    server.may_answer.set()
    await asyncio.gather(*tasks)


async def test_an_answer_that_does_not_come_holds_nobody_up() -> None:
    answers, slow, quick = FirstAnswers(patience=0.01), Server(), Server()
    quick.may_answer.set()
    first = asyncio.ensure_future(answers.ask("e", "template", slow.request))
    await settle()
    assert await answers.ask("e", "template", quick.request) == DONE
    slow.may_answer.set()
    assert await first == DONE


async def test_one_that_is_cancelled_leaves_nobody_waiting() -> None:
    answers, slow, quick = FirstAnswers(), Server(), Server()
    quick.may_answer.set()
    first = asyncio.ensure_future(answers.ask("e", "template", slow.request))
    await settle()
    second = asyncio.ensure_future(answers.ask("e", "template", quick.request))
    await settle()
    first.cancel()
    assert await second == DONE
    third = Server(REFUSED)
    third.may_answer.set()
    assert await answers.ask("e", "template", third.request) == REFUSED


async def test_a_refusal_stands_for_those_that_were_on_their_way_when_it_came() -> None:
    answers, server, other = FirstAnswers(), Server(REFUSED), Server()
    server.may_answer.set()
    other.may_answer.set()
    assert await answers.ask("e", "template", server.request) == REFUSED
    assert await answers.ask("e", "template", server.request) == REFUSED
    assert server.asked == 1
    assert await answers.ask("e", "another template", other.request) == DONE


async def test_a_refusal_stands_until_a_dry_run_passes_or_its_time_is_over() -> None:
    for answers, ends_by_itself in ((FirstAnswers(), False), (FirstAnswers(patience=0.0), True)):
        server = Server(REFUSED)
        server.may_answer.set()
        assert await answers.ask("e", "template", server.request) == REFUSED
        if ends_by_itself:
            await asyncio.sleep(0.01)
        else:
            answers.forget_refusals("e")
        server.answer = DONE
        assert await answers.ask("e", "template", server.request) == DONE
        assert server.asked == 2
