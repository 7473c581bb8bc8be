"""The searcher of a simulated experiment, told and asked as the operator does it."""

from __future__ import annotations

from collections.abc import Sequence

from podtune.api.experiment import ExperimentSpec
from podtune.runner.actions import Propose
from podtune.tuning.searchers import make_searcher
from podtune.tuning.searchers.base import Proposed, Tell, Unfinished


class InformedSearcher:
    """A searcher, and what it has been told."""

    def __init__(self, spec: ExperimentSpec) -> None:
        self._spec = spec
        self._searcher = make_searcher(spec)
        self._tells: Sequence[Tell] = ()
        self._told = 0

    def answer(self, request: Propose) -> tuple[Proposed, ...]:
        """Tells the searcher what it has not been told yet, and asks it for configurations, one after the other.

        Returns:
            As many as were asked for, or fewer where the space is exhausted.
        """
        if self._tells is not request.tells or self._told > request.told:
            if self._told:
                self._searcher = make_searcher(self._spec)
            self._tells, self._told = request.tells, 0
        for tell in request.tells[self._told : request.told]:
            self._searcher.tell(tell)
        self._told = request.told
        unfinished = list(request.unfinished)
        answers: list[Proposed] = []
        for number in range(request.first, request.first + request.count):
            proposed = self._searcher.ask(number, unfinished)
            if proposed is None:
                break
            answers.append(proposed)
            unfinished.append(Unfinished(number, proposed.configuration, proposed.attributes))
        return tuple(answers)
