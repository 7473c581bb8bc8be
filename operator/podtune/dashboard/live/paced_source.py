"""News at a pace: all who look within a second see the same, so that one update serves them all."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.dashboard.sources import LiveSource, Outage

MOST_GLIMPSES = 256
"""So many experiments are remembered as they were seen last; others are looked at anew."""
ALL = ("", "")
_Topic = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Glimpse:
    """What there was of an Experiment, or of all.

    Attributes:
        taken: When, by the clock.
        revision: Read before all others: what has changed since is news.
    """

    taken: float
    revision: str
    experiments: Sequence[ExperimentView]
    trials: Sequence[TrialView]
    deletion: datetime | None


class PacedSource(LiveSource):
    """Shows what another source has, and looks at it anew only when it is asked, and a while has passed."""

    def __init__(self, source: LiveSource, pace: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Takes the source.

        Args:
            source: Which one.
            pace: Seconds between two looks at an Experiment, at least.
            clock: Tells the time.
        """
        self._source = source
        self._pace = pace
        self._clock = clock
        self._glimpses: OrderedDict[_Topic, _Glimpse] = OrderedDict()

    @property
    def title(self) -> str:
        """What it reads, in a few words."""
        return self._source.title

    @property
    def has_own_title(self) -> bool:
        """Whether the installation chose the title."""
        return self._source.has_own_title

    @property
    def outage(self) -> Outage | None:
        """Why what is shown may be old."""
        return self._source.outage

    def list_experiments(self) -> Sequence[ExperimentView]:
        """All Experiments, by namespace and name."""
        return self._look(ALL).experiments

    def find_experiment(self, namespace: str, name: str) -> ExperimentView | None:
        """One of them."""
        return next(iter(self._look((namespace, name)).experiments), None)

    def list_trials(self, namespace: str, experiment: str) -> Sequence[TrialView]:
        """An Experiment's Trials."""
        return self._look((namespace, experiment)).trials

    def find_deletion(self, namespace: str, experiment: str) -> datetime | None:
        """When an Experiment was deleted that was here."""
        return self._look((namespace, experiment)).deletion

    def find_revision(self, namespace: str, experiment: str) -> str:
        """That of what is shown."""
        return self._look((namespace, experiment)).revision

    async def wait_for_news(self, namespace: str, experiment: str, known: str) -> str:
        """Returns the revision as soon as another one is shown than is known: to all who wait at the same time."""
        while True:
            glimpse = self._look((namespace, experiment))
            if glimpse.revision != known:
                return glimpse.revision
            await self._source.wait_for_news(namespace, experiment, known)
            await asyncio.sleep(max(0.0, glimpse.taken + self._pace - self._clock()))

    def _look(self, topic: _Topic) -> _Glimpse:
        glimpse, now = self._glimpses.get(topic), self._clock()
        if glimpse is not None and now < glimpse.taken + self._pace:
            return glimpse
        if topic == ALL:
            self._glimpses.clear()  # what the list shows of an Experiment must not be older than the list
        glimpse = self._glimpses[topic] = self._take(topic, now)
        self._glimpses.move_to_end(topic)
        while len(self._glimpses) > MOST_GLIMPSES:
            self._glimpses.popitem(last=False)
        return glimpse

    def _take(self, topic: _Topic, now: float) -> _Glimpse:
        source, revision = self._source, self._source.find_revision(*topic)
        if topic == ALL:
            return _Glimpse(now, revision, source.list_experiments(), (), None)
        view = source.find_experiment(*topic)
        experiments = (view,) if view is not None else ()
        return _Glimpse(now, revision, experiments, source.list_trials(*topic), source.find_deletion(*topic))
