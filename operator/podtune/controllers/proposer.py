"""Asks an experiment's searcher, away from the event loop.

A searcher may be anyone's code, so its problems must affect only its own experiment. It computes in a thread, its
failures become results that say so, and if it is slow, that is reported after a deadline. A late answer is still
accepted, because the same question would take as long again. A thread can't be ended from outside, so there are only a
few.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor as Threads
from dataclasses import dataclass, field, replace

from podtune.api.names import ExperimentReason
from podtune.api.resources.experiment import ExperimentSpec
from podtune.runner.actions import ActionResult, ActionStatus, Propose
from podtune.runner.search.session import SearcherSession
from podtune.tuning.searchers.base import NoConfiguration, Proposal

MAX_THREADS = 2
"""How many requests of an experiment are computed at a time: the current one, and one that was given up."""
MAX_MISSED_DEADLINES = 3
"""After how many deadlines a request is passed to a new searcher, in case the other one hangs."""

SearcherAnswer = tuple[SearcherSession, tuple[Proposal, ...]]


@dataclass(slots=True)
class _AskedSearcher:
    """A request that a searcher thinks about, and how often it was waited for."""

    request: Propose
    answer: asyncio.Future[SearcherAnswer]
    waits: int = field(default=0)

    def is_about(self, request: Propose) -> bool:
        """Whether its answer is the answer to this request."""
        mine = self.request
        return mine.observations is request.observations and replace(mine, observations=()) == replace(
            request, observations=()
        )


class Proposer:
    """Holds an experiment's searcher; its caller has one request under way at a time."""

    def __init__(self, spec: ExperimentSpec, deadline: float, threads: Threads) -> None:
        """Makes a proposer; a searcher that thinks about a request for more than `deadline` seconds is called slow."""
        self.spec = spec
        self._deadline = deadline
        self._threads = threads
        self._searcher: SearcherSession | None = None
        self._thinking: list[_AskedSearcher] = []

    async def propose(self, request: Propose) -> ActionResult:
        """Answers a request; after a failure the next one is put to a fresh searcher."""
        thinking = self._find(request)
        if thinking is None:
            return self._report_slow(f"it is still working on {len(self._thinking)} earlier requests")
        thinking.waits += 1
        try:
            async with asyncio.timeout(self._deadline):
                self._searcher, proposals = await asyncio.shield(thinking.answer)
        except TimeoutError:
            return self._report_slow(f"no proposal within {thinking.waits * self._deadline:g} s")
        except NoConfiguration as error:
            result = ActionResult(ActionStatus.REFUSED, str(error), ExperimentReason.NO_CONFIGURATION)
        except Exception as error:  # noqa: BLE001 - a searcher may be anyone's code; its failure is the experiment's alone
            result = ActionResult(ActionStatus.FAILED, f"{type(error).__name__}: {error}")
        else:
            result = ActionResult(ActionStatus.DONE, proposals=proposals)
        self._thinking.remove(thinking)
        return result

    def _find(self, request: Propose) -> _AskedSearcher | None:
        """Who thinks about a request, or begins to; None where too many think about others already."""
        self._thinking = [other for other in self._thinking if not other.answer.done() or other.is_about(request)]
        same = [other for other in self._thinking if other.is_about(request)]
        has_room = len(self._thinking) < MAX_THREADS
        if same and (same[-1].waits < MAX_MISSED_DEADLINES or not has_room):
            return same[-1]
        return self._begin(request) if has_room else None

    def _begin(self, request: Propose) -> _AskedSearcher:
        searcher, self._searcher = self._searcher, None  # until all went well
        loop = asyncio.get_running_loop()
        answer = loop.run_in_executor(self._threads, _answer, searcher, self.spec, request)
        answer.add_done_callback(_retrieve)
        thinking = _AskedSearcher(request, answer)
        self._thinking.append(thinking)
        return thinking

    def _report_slow(self, why: str) -> ActionResult:
        return ActionResult(ActionStatus.FAILED, f"the searcher is slow: {why}", ExperimentReason.SEARCH_SLOW)


def _answer(searcher: SearcherSession | None, spec: ExperimentSpec, request: Propose) -> SearcherAnswer:
    searcher = searcher or SearcherSession(spec)
    return searcher, searcher.answer(request)


def _retrieve(answer: asyncio.Future[SearcherAnswer]) -> None:
    """Retrieves a failure that nobody waits for any longer; otherwise asyncio would complain about it."""
    if not answer.cancelled():
        answer.exception()
