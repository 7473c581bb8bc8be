"""A searcher, and what it has been told: how a request for proposals is answered."""

from __future__ import annotations

from collections.abc import Sequence

from podtune.api.experiment import ExperimentSpec
from podtune.runner.actions import Propose
from podtune.tuning.searchers import make_searcher
from podtune.tuning.searchers.base import Proposed, Tell, Unfinished


class InformedSearcher:
    """Tells a searcher each thing once, in order; one that knows too much for a request is made anew.

    Not safe for concurrent use.
    """

    def __init__(self, spec: ExperimentSpec) -> None:
        """Makes a searcher that has been told nothing.

        Args:
            spec: The experiment that it searches for.
        """
        self.spec = spec
        self._searcher = make_searcher(spec)
        self._tells: Sequence[Tell] = ()
        self._told = 0

    def answer(self, request: Propose) -> tuple[Proposed, ...]:
        """Tells the searcher what it has not been told yet, and asks it for configurations, one after the other.

        Returns:
            As many as were asked for, or fewer where the space is exhausted.

        Raises:
            NoConfiguration: There is none that could be proposed.
        """
        if self._tells is not request.tells or self._told > request.told:
            if self._told:
                self._searcher = make_searcher(self.spec)
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
