"""Asks an experiment's searcher, away from the event loop."""

from __future__ import annotations

import asyncio

from podtune.api.experiment import ExperimentSpec
from podtune.runner.actions import Outcome, Propose, Verdict
from podtune.tuning.searchers import make_searcher
from podtune.tuning.searchers.base import Configuration, Searcher, Unfinished

DEADLINE = 120.0
"""Seconds that a searcher may think about a request."""


class Proposer:
    """Holds an experiment's searcher and tells it what it has not been told yet; one request at a time."""

    def __init__(self, spec: ExperimentSpec) -> None:
        self._spec = spec
        self._searcher: Searcher | None = None
        self._told = 0

    async def propose(self, request: Propose) -> Outcome:
        """Answers a request; a searcher that fails or takes too long is made afresh for the next one."""
        try:
            async with asyncio.timeout(DEADLINE):
                configurations = await asyncio.to_thread(self._ask, request)
        except TimeoutError:
            self._searcher = None
            return Outcome(Verdict.FAILED, f"no proposal within {DEADLINE:g} s")
        except Exception as error:  # noqa: BLE001 - a searcher may be anyone's code; its failure is the experiment's alone
            self._searcher = None
            return Outcome(Verdict.FAILED, f"{type(error).__name__}: {error}")
        return Outcome(Verdict.DONE, proposals=configurations)

    def _ask(self, request: Propose) -> tuple[Configuration, ...]:
        searcher = self._searcher
        if searcher is None or self._told > request.told:
            searcher, self._told = make_searcher(self._spec), 0
        self._searcher = None  # until all went well
        for tell in request.tells[self._told : request.told]:
            searcher.tell(tell)
        unfinished = list(request.unfinished)
        proposals: list[Configuration] = []
        for number in range(request.first, request.first + request.count):
            configuration = searcher.ask(number, unfinished)
            if configuration is None:
                break
            proposals.append(configuration)
            unfinished.append(Unfinished(number, configuration))
        self._searcher, self._told = searcher, request.told
        return tuple(proposals)
