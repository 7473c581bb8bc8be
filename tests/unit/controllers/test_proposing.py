"""A searcher is told everything once, in order, and its failure is that of one request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from podtune.controllers import proposing
from podtune.controllers.proposing import Proposer
from podtune.runner.actions import Propose, Verdict
from podtune.tuning.searchers.base import Proposed, Tell, Unfinished
from tests.unit.cluster.objects import experiment_record


class Recorder:
    """A searcher that remembers; `limit` configurations are all that it has."""

    def __init__(self, made: list[Recorder], limit: int = 100, act: Callable[[], None] = lambda: None) -> None:
        self.told: list[int] = []
        self.unfinished: list[list[int]] = []
        self._limit = limit
        self._act = act
        made.append(self)

    def tell(self, tell: Tell) -> None:
        self.told.append(tell.number)

    def ask(self, number: int, unfinished: Sequence[Unfinished]) -> Proposed | None:
        self._act()
        self.unfinished.append([trial.number for trial in unfinished])
        return Proposed({"lr": 0.1 * number}) if number < self._limit else None


@pytest.fixture
def made() -> list[Recorder]:
    return []


@pytest.fixture
def proposer(made: list[Recorder], monkeypatch: pytest.MonkeyPatch) -> Proposer:
    monkeypatch.setattr(proposing, "make_searcher", lambda _: Recorder(made))
    spec = experiment_record().spec
    assert spec is not None
    return Proposer(spec)


def tells(count: int) -> list[Tell]:
    return [Tell(number=n, configuration={"lr": 0.1}, value=0.5, step=1) for n in range(count)]


def ask(known: list[Tell], told: int, first: int = 10, count: int = 1, *unfinished: int) -> Propose:
    under_way = tuple(Unfinished(number, {"lr": 0.1}) for number in unfinished)
    return Propose(first=first, count=count, tells=known, told=told, unfinished=under_way)


async def test_each_finished_trial_is_told_once(proposer: Proposer, made: list[Recorder]) -> None:
    known = tells(5)
    for told in (0, 2, 2, 5):
        assert (await proposer.propose(ask(known, told))).verdict is Verdict.DONE
    (searcher,) = made
    assert searcher.told == [0, 1, 2, 3, 4]


async def test_proposals_of_one_request_know_of_each_other(proposer: Proposer, made: list[Recorder]) -> None:
    outcome = await proposer.propose(ask([], 0, 10, 3, 4, 5))
    assert len(outcome.proposals) == 3
    assert made[0].unfinished == [[4, 5], [4, 5, 10], [4, 5, 10, 11]]


async def test_a_searcher_with_nothing_left_gives_fewer(
    proposer: Proposer, made: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposing, "make_searcher", lambda _: Recorder(made, limit=12))
    outcome = await proposer.propose(ask([], 0, 10, 5))
    assert (outcome.verdict, len(outcome.proposals)) == (Verdict.DONE, 2)


async def test_another_list_of_tells_means_another_searcher_even_if_it_is_longer(
    proposer: Proposer, made: list[Recorder]
) -> None:
    await proposer.propose(ask(tells(2), 2))
    await proposer.propose(ask(tells(5), 5))
    assert [searcher.told for searcher in made] == [[0, 1], [0, 1, 2, 3, 4]]


async def test_a_failure_is_told_and_the_next_searcher_is_a_new_one(
    proposer: Proposer, made: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = tells(2)
    with monkeypatch.context() as patch:
        patch.setattr(proposing, "make_searcher", lambda _: Recorder(made, act=lambda: 1 / 0))  # type: ignore[arg-type]
        outcome = await proposer.propose(ask(known, 2))
    assert (outcome.verdict, outcome.message) == (Verdict.FAILED, "ZeroDivisionError: division by zero")
    assert (await proposer.propose(ask(known, 2))).verdict is Verdict.DONE
    assert made[1].told == [0, 1]


@pytest.fixture
def blocked() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


async def test_one_that_thinks_too_long_is_given_up_and_can_spoil_nothing_later(
    proposer: Proposer, made: list[Recorder], monkeypatch: pytest.MonkeyPatch, blocked: threading.Event
) -> None:
    known = tells(2)
    await proposer.propose(ask(known, 0))
    with monkeypatch.context() as patch:
        patch.setattr(proposing, "DEADLINE", 0.01)
        patch.setattr(made[0], "_act", lambda: _wait(blocked))
        outcome = await proposer.propose(ask(known, 1))
    assert (outcome.verdict, outcome.message) == (Verdict.FAILED, "no proposal within 0.01 s")
    assert (await proposer.propose(ask(known, 1))).verdict is Verdict.DONE
    blocked.set()
    for thread in [thread for thread in threading.enumerate() if thread.name == "searcher"]:
        await asyncio.to_thread(thread.join)
    await proposer.propose(ask(known, 2))
    assert [searcher.told for searcher in made] == [[0], [0, 1]]


def _wait(event: threading.Event) -> Any:
    event.wait(30)


async def test_a_searcher_that_thinks_for_ever_does_not_keep_the_process_alive(
    proposer: Proposer, made: list[Recorder], monkeypatch: pytest.MonkeyPatch, blocked: threading.Event
) -> None:
    monkeypatch.setattr(proposing, "make_searcher", lambda _: Recorder(made, act=lambda: _wait(blocked)))
    task = asyncio.create_task(proposer.propose(ask([], 0)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "searcher"]
    assert thread.daemon
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
