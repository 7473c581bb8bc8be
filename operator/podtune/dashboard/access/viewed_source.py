"""What one viewer may see of a source: one watch serves all viewers, and each is shown their part."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.dashboard.sources import LiveSource, Outage

FILTER_PACE = 1.0
"""Seconds between two looks at whether news are news to this viewer."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of a cluster.

    Attributes:
        namespaces: All of these; None for all there are.
        experiment: And this one, by namespace and name.
    """

    namespaces: frozenset[str] | None
    experiment: tuple[str, str] | None = None

    def covers(self, namespace: str, experiment: str) -> bool:
        """Whether an Experiment is in it."""
        return self.namespaces is None or namespace in self.namespaces or (namespace, experiment) == self.experiment


NOTHING = Scope(frozenset())


class ViewedSource(LiveSource):
    """A source without what is outside of a scope: that is as if it were not there."""

    def __init__(self, source: LiveSource, scope: Scope) -> None:
        """Takes the source, and the part that is seen."""
        self._source = source
        self.scope = scope

    @property
    def title(self) -> str:
        """What is seen of it, in a few words; empty where that is nothing."""
        if self._source.has_own_title or self.scope.namespaces is None:
            return self._source.title
        names = sorted(self.scope.namespaces) or ([self.scope.experiment[0]] if self.scope.experiment else [])
        return f"namespace{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""

    @property
    def has_own_title(self) -> bool:
        """Whether the installation chose the title."""
        return self._source.has_own_title

    @property
    def outage(self) -> Outage | None:
        """Why what is shown may be old."""
        return self._source.outage

    def list_experiments(self) -> Sequence[ExperimentView]:
        """The Experiments that are seen, by namespace and name."""
        views = self._source.list_experiments()
        return [view for view in views if self.scope.covers(view.namespace, view.name)]

    def find_experiment(self, namespace: str, name: str) -> ExperimentView | None:
        """One of them."""
        return self._source.find_experiment(namespace, name) if self.scope.covers(namespace, name) else None

    def list_trials(self, namespace: str, experiment: str) -> Sequence[TrialView]:
        """An Experiment's Trials."""
        return self._source.list_trials(namespace, experiment) if self.scope.covers(namespace, experiment) else ()

    def find_deletion(self, namespace: str, experiment: str) -> datetime | None:
        """When an Experiment was deleted that was here."""
        return self._source.find_deletion(namespace, experiment) if self.scope.covers(namespace, experiment) else None

    def find_revision(self, namespace: str, experiment: str) -> str:
        """Another text as soon as there is news of an Experiment, or without a name of any that is seen."""
        if experiment:
            return self._source.find_revision(namespace, experiment) if self.scope.covers(namespace, experiment) else ""
        if self.scope.namespaces is None:
            return self._source.find_revision("", "")
        # The number of all changes would tell what goes on elsewhere.
        keys = ((view.namespace, view.name) for view in self.list_experiments())
        seen = [f"{key}{self._source.find_revision(*key)}" for key in keys]
        return hashlib.sha256(f"{seen}{self.outage}".encode()).hexdigest()[:16]

    async def wait_for_news(self, namespace: str, experiment: str, known: str) -> str:
        """Returns the revision as soon as it is another one than is known."""
        if experiment or self.scope.namespaces is None:
            return await self._source.wait_for_news(namespace, experiment, known)
        while True:
            any_news = self._source.find_revision("", "")
            if (revision := self.find_revision("", "")) != known:
                return revision
            await self._source.wait_for_news("", "", any_news)
            await asyncio.sleep(FILTER_PACE)
