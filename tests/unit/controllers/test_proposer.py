"""A searcher is told everything once, in order, and what it does to itself is its own experiment's matter."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from e2e.chaos.polling import until
from podtune.api.names import ExperimentReason
from podtune.api.resources.trial import ProposalSource
from podtune.controllers.proposer import MAX_MISSED_DEADLINES, MAX_THREADS, Proposer
from podtune.controllers.searcher_threads import SearcherThreads
from podtune.runner.actions import ActionResult, ActionStatus, Propose
from podtune.runner.search import session
from podtune.runner.search.origins import Origin
from podtune.tuning.searchers.base import NoConfiguration, Observation, PendingTrial, Proposal
from tests.unit.cluster.objects import experiment_record

DEADLINE = 60.0
SHORT = 0.25
"""Seconds that one is given that waits at a gate; others have `DEADLINE`, for a busy machine may take longer."""


class Recorder:
    """A searcher that remembers; `limit` configurations are all that it has."""

    def __init__(self, made: list[Recorder], limit: int = 100, act: Callable[[], None] = lambda: None) -> None:
        self.told: list[int] = []
        self.pending: list[list[int]] = []
        self.act = act
        self._limit = limit
        made.append(self)

    def tell(self, observation: Observation) -> None:
        self.told.append(observation.number)

    def ask(self, number: int, pending: Sequence[PendingTrial], attempt: int = 0) -> Proposal | None:
        assert attempt == 0
        self.act()
        self.pending.append([trial.number for trial in pending])
        return Proposal({"lr": 0.1 * number}) if number < self._limit else None


class Workshop:
    """Makes searchers."""

    def __init__(self) -> None:
        self.made: list[Recorder] = []
        self.limit = 100
        self.act: Callable[[], None] = lambda: None
        self.threads = SearcherThreads(idle_seconds=0.01)

    def make(self, _spec: object, _skipped: object) -> Recorder:
        return Recorder(self.made, self.limit, self.act)

    def proposer(self, deadline: float = DEADLINE) -> Proposer:
        spec = experiment_record().spec
        assert spec is not None
        return Proposer(spec, deadline, self.threads)


@pytest.fixture
def workshop(monkeypatch: pytest.MonkeyPatch) -> Workshop:
    workshop = Workshop()
    monkeypatch.setattr(session, "make_searcher", workshop.make)
    return workshop


class Gate:
    """What a searcher may have to wait at."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()

    def open(self) -> None:
        self._opened.set()

    def wait(self) -> None:
        self.reached.set()
        self._opened.wait(120)


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()
    assert await until(lambda: not searching(), 60)


_OTHERS: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def others() -> None:
    """Keeps apart what other tests have left, whose threads wait some seconds for more work."""
    _OTHERS.clear()
    _OTHERS.update(threading.enumerate())


def searching() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "searcher" and thread not in _OTHERS]


async def until_nobody_searches() -> None:
    assert await until(lambda: not searching(), 60, interval=0.001)
    await asyncio.sleep(0.01)  # their answers come by way of the event loop


def observations(count: int) -> list[Observation]:
    return [Observation(number=n, configuration={"lr": 0.1}, value=0.5, step=1) for n in range(count)]


def ask(known: list[Observation], told: int, first: int = 10, count: int = 1, *pending: int) -> Propose:
    under_way = tuple(PendingTrial(number, {"lr": 0.1}) for number in pending)
    origins = tuple(Origin(ProposalSource.SEARCHER, number) for number in range(first, first + count))
    earlier = {number: Origin(ProposalSource.SEARCHER, number) for number in range(first)}
    return Propose(
        first=first,
        count=count,
        observations=known,
        observed=told,
        pending=under_way,
        origins=origins,
        known=earlier,
    )


def is_slow(outcome: ActionResult) -> bool:
    return (outcome.status, outcome.reason) == (ActionStatus.FAILED, ExperimentReason.SEARCH_SLOW)


async def test_each_finished_trial_is_told_once(workshop: Workshop) -> None:
    known, proposer = observations(5), workshop.proposer()
    for told in (0, 2, 2, 5):
        assert (await proposer.propose(ask(known, told))).status is ActionStatus.DONE
    (searcher,) = workshop.made
    assert searcher.told == [0, 1, 2, 3, 4]


async def test_one_that_knows_too_much_is_made_anew(workshop: Workshop) -> None:
    """As for what was asked for before a restart, and has to come out the same."""
    known, proposer = observations(5), workshop.proposer()
    for told in (4, 2):
        await proposer.propose(ask(known, told))
    assert [searcher.told for searcher in workshop.made] == [[0, 1, 2, 3], [0, 1]]


async def test_proposals_of_one_request_know_of_each_other(workshop: Workshop) -> None:
    outcome = await workshop.proposer().propose(ask([], 0, 10, 3, 4, 5))
    assert len(outcome.proposals) == 3
    assert workshop.made[0].pending == [[4, 5], [4, 5, 10], [4, 5, 10, 11]]


async def test_a_searcher_with_nothing_left_gives_fewer(workshop: Workshop) -> None:
    workshop.limit = 12
    outcome = await workshop.proposer().propose(ask([], 0, 10, 5))
    assert (outcome.status, len(outcome.proposals)) == (ActionStatus.DONE, 2)


async def test_another_list_of_tells_means_another_searcher_even_if_it_is_longer(workshop: Workshop) -> None:
    proposer = workshop.proposer()
    await proposer.propose(ask(observations(2), 2))
    await proposer.propose(ask(observations(5), 5))
    assert [searcher.told for searcher in workshop.made] == [[0, 1], [0, 1, 2, 3, 4]]


async def test_a_failure_is_told_and_the_next_searcher_is_a_new_one(workshop: Workshop) -> None:
    known, proposer = observations(2), workshop.proposer()

    def fail() -> None:
        raise ZeroDivisionError("division by zero")

    workshop.act = fail
    outcome = await proposer.propose(ask(known, 2))
    assert (outcome.status, outcome.message) == (ActionStatus.FAILED, "ZeroDivisionError: division by zero")
    workshop.act = lambda: None
    assert (await proposer.propose(ask(known, 2))).status is ActionStatus.DONE
    assert workshop.made[1].told == [0, 1]


async def test_where_nothing_can_be_proposed_it_says_why(workshop: Workshop) -> None:
    def refuse() -> None:
        raise NoConfiguration("no configuration was found in 1,000 tries; relax the constraint")

    workshop.act = refuse
    outcome = await workshop.proposer().propose(ask([], 0))
    assert (outcome.status, outcome.reason) == (ActionStatus.REFUSED, ExperimentReason.NO_CONFIGURATION)
    assert outcome.message == "no configuration was found in 1,000 tries; relax the constraint"


async def test_one_that_thinks_too_long_is_called_slow(workshop: Workshop, gate: Gate) -> None:
    workshop.act = gate.wait
    outcome = await workshop.proposer(SHORT).propose(ask([], 0))
    assert is_slow(outcome)
    assert outcome.message == "the searcher is slow: no proposal within 0.25 s"


async def test_its_answer_is_taken_when_it_comes(workshop: Workshop, gate: Gate) -> None:
    known, proposer = observations(2), workshop.proposer(SHORT)
    workshop.act = gate.wait
    assert is_slow(await proposer.propose(ask(known, 1)))
    gate.open()
    await until_nobody_searches()
    proposer._deadline = DEADLINE
    outcome = await proposer.propose(ask(known, 1))
    assert (outcome.status, len(outcome.proposals)) == (ActionStatus.DONE, 1)
    assert len(workshop.made) == 1, "nobody was asked a second time"
    assert (await proposer.propose(ask(known, 2))).status is ActionStatus.DONE
    assert workshop.made[0].told == [0, 1]


async def test_the_answer_to_another_question_can_spoil_nothing(workshop: Workshop, gate: Gate) -> None:
    known, proposer = observations(3), workshop.proposer(SHORT)
    workshop.act = gate.wait
    assert is_slow(await proposer.propose(ask(known, 1)))
    workshop.act = lambda: None
    proposer._deadline = DEADLINE
    others = observations(3)
    assert (await proposer.propose(ask(others, 2))).status is ActionStatus.DONE
    gate.open()
    await until_nobody_searches()
    assert (await proposer.propose(ask(others, 3))).status is ActionStatus.DONE
    assert [searcher.told for searcher in workshop.made] == [[0], [0, 1, 2]]


async def test_one_that_hangs_gets_another_chance_and_no_more_threads_than_that(workshop: Workshop, gate: Gate) -> None:
    proposer = workshop.proposer(SHORT)
    workshop.act = gate.wait
    for _ in range(4 * MAX_MISSED_DEADLINES):
        assert is_slow(await proposer.propose(ask([], 0)))
    assert len(searching()) == MAX_THREADS
    outcome = await proposer.propose(ask([], 0, first=50))
    assert outcome.message == f"the searcher is slow: it is still working on {MAX_THREADS} earlier requests"
    assert len(searching()) == MAX_THREADS
    gate.open()
    await until_nobody_searches()
    proposer._deadline = DEADLINE
    assert (await proposer.propose(ask([], 0, first=50))).status is ActionStatus.DONE


async def test_another_experiments_searcher_is_not_held_up(workshop: Workshop, gate: Gate) -> None:
    stuck = workshop.proposer()
    workshop.act = gate.wait
    thinking = asyncio.create_task(stuck.propose(ask([], 0)))
    await asyncio.to_thread(gate.reached.wait)
    workshop.act = lambda: None
    assert (await workshop.proposer().propose(ask([], 0))).status is ActionStatus.DONE
    assert not thinking.done()
    gate.open()
    assert (await thinking).status is ActionStatus.DONE
