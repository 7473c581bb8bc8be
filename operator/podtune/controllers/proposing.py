"""Asks an experiment's searcher, away from the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from podtune.api.experiment import ExperimentSpec
from podtune.runner.actions import Outcome, Propose, Verdict
from podtune.tuning.searchers import make_searcher
from podtune.tuning.searchers.base import Proposed, Searcher, Tell, Unfinished

DEADLINE = 120.0
"""Seconds that a searcher may think about a request."""

T = TypeVar("T")


@dataclass(slots=True)
class _Informed:
    """A searcher, and what it has been told: the first `told` of `tells`."""

    searcher: Searcher
    tells: Sequence[Tell]
    told: int = 0


class Proposer:
    """Holds an experiment's searcher and tells it what it has not been told yet; one request at a time."""

    def __init__(self, spec: ExperimentSpec) -> None:
        self._spec = spec
        self._informed: _Informed | None = None

    async def propose(self, request: Propose) -> Outcome:
        """Answers a request; a searcher that fails or takes too long is made afresh for the next one."""
        informed, self._informed = self._informed, None  # until all went well
        try:
            async with asyncio.timeout(DEADLINE):
                informed, configurations = await _in_thread(lambda: self._ask(informed, request))
        except TimeoutError:
            return Outcome(Verdict.FAILED, f"no proposal within {DEADLINE:g} s")
        except Exception as error:  # noqa: BLE001 - a searcher may be anyone's code; its failure is the experiment's alone
            return Outcome(Verdict.FAILED, f"{type(error).__name__}: {error}")
        self._informed = informed
        return Outcome(Verdict.DONE, proposals=configurations)

    def _ask(self, informed: _Informed | None, request: Propose) -> tuple[_Informed, tuple[Proposed, ...]]:
        """Tells and asks; touches nothing but its arguments, since nobody may be waiting for it any more."""
        if informed is None or informed.tells is not request.tells or informed.told > request.told:
            informed = _Informed(make_searcher(self._spec), request.tells)
        for tell in request.tells[informed.told : request.told]:
            informed.searcher.tell(tell)
        informed.told = request.told
        unfinished = list(request.unfinished)
        proposals: list[Proposed] = []
        for number in range(request.first, request.first + request.count):
            proposed = informed.searcher.ask(number, unfinished)
            if proposed is None:
                break
            proposals.append(proposed)
            unfinished.append(Unfinished(number, proposed.configuration, proposed.attributes))
        return informed, tuple(proposals)


async def _in_thread(work: Callable[[], T]) -> T:
    """Has work done in a thread of its own, which does not keep the process from ending, as a pool's would."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(settled: Callable[[], None]) -> None:
        if not result.done():
            settled()

    def run() -> None:
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 - handed over to whoever waits
            failure = error
            _call(loop, lambda: settle(lambda: result.set_exception(failure)))
        else:
            _call(loop, lambda: settle(lambda: result.set_result(value)))

    threading.Thread(target=run, name="searcher", daemon=True).start()
    return await result


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Has the event loop call something, unless it has ended meanwhile."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback)
