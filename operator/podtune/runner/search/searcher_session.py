"""A session with a searcher: it is told what it has not observed yet, then asked."""

from __future__ import annotations

from collections.abc import Sequence

from podtune.api.resources.experiment import ExperimentSpec
from podtune.runner.actions import Propose
from podtune.tuning.searchers import make_searcher
from podtune.tuning.searchers.base import Observation, PendingTrial, Proposal


class SearcherSession:
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
        self._observations: Sequence[Observation] = ()
        self._observed = 0

    def answer(self, request: Propose) -> tuple[Proposal, ...]:
        """Tells the searcher what it has not been told yet, and asks it for configurations, one after the other.

        Returns:
            As many as were asked for, or fewer where the space is exhausted.

        Raises:
            NoConfiguration: There is none that could be proposed.
        """
        if self._observations is not request.observations or self._observed > request.observed:
            if self._observed:
                self._searcher = make_searcher(self.spec)
            self._observations, self._observed = request.observations, 0
        for observation in request.observations[self._observed : request.observed]:
            self._searcher.tell(observation)
        self._observed = request.observed
        pending = list(request.pending)
        answers: list[Proposal] = []
        for number in range(request.first, request.first + request.count):
            proposed = self._searcher.ask(number, pending)
            if proposed is None:
                break
            answers.append(proposed)
            pending.append(PendingTrial(number, proposed.configuration, proposed.attributes))
        return tuple(answers)
