"""The source that shows some namespaces of a cluster, each from a source of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime

from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.dashboard.live.cluster_source import ClusterSource
from podtune.dashboard.sources import LiveSource, Outage


class JoinedSource(LiveSource):
    """Several sources, each of one namespace, as one."""

    def __init__(self, sources: Mapping[str, ClusterSource], title: str = "") -> None:
        """Takes the sources by their namespace, and what they read in a few words."""
        self._sources = dict(sorted(sources.items()))
        self._has_own_title = bool(title)
        self._title = title or f"namespaces {', '.join(self._sources)}"

    @property
    def title(self) -> str:
        """What they read, in a few words."""
        return self._title

    @property
    def has_own_title(self) -> bool:
        """Whether the installation chose the title."""
        return self._has_own_title

    @property
    def outage(self) -> Outage | None:
        """The longest there is."""
        outages = [outage for source in self._sources.values() if (outage := source.outage) is not None]
        return min(outages, key=lambda outage: outage.since, default=None)

    def list_experiments(self) -> Sequence[ExperimentView]:
        """All Experiments, by namespace and name."""
        return tuple(view for source in self._sources.values() for view in source.list_experiments())

    def find_experiment(self, namespace: str, name: str) -> ExperimentView | None:
        """One of them."""
        source = self._sources.get(namespace)
        return source.find_experiment(namespace, name) if source is not None else None

    def list_trials(self, namespace: str, experiment: str) -> Sequence[TrialView]:
        """An Experiment's Trials."""
        source = self._sources.get(namespace)
        return source.list_trials(namespace, experiment) if source is not None else ()

    def find_deletion(self, namespace: str, experiment: str) -> datetime | None:
        """When an Experiment was deleted that was here."""
        source = self._sources.get(namespace)
        return source.find_deletion(namespace, experiment) if source is not None else None

    def find_revision(self, namespace: str, experiment: str) -> str:
        """Another text as soon as there is news of an Experiment, or without a name of any."""
        if not namespace:
            return "+".join(source.find_revision("", "") for source in self._sources.values())
        source = self._sources.get(namespace)
        return source.find_revision(namespace, experiment) if source is not None else ""

    async def wait_for_news(self, namespace: str, experiment: str, known: str) -> str:
        """Returns the revision as soon as it is another one than is known."""
        if namespace in self._sources:
            return await self._sources[namespace].wait_for_news(namespace, experiment, known)
        if namespace and not known:
            await asyncio.Event().wait()  # of a namespace that is not shown, there is never any news
        while (revision := self.find_revision(namespace, experiment)) == known:
            await self._wait_for_any(known.split("+"))
        return revision

    def start(self) -> None:
        """Returns as soon as all is known that there is; raises as `ClusterSource.start`."""
        with ThreadPoolExecutor(len(self._sources)) as pool:
            for started in [pool.submit(source.start) for source in self._sources.values()]:
                started.result()

    def stop(self) -> None:
        """Follows no longer."""
        for source in self._sources.values():
            source.stop()

    async def _wait_for_any(self, known: Sequence[str]) -> None:
        pairs = zip(self._sources.values(), known, strict=False)
        waits = [asyncio.ensure_future(source.wait_for_news("", "", revision)) for source, revision in pairs]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
                with suppress(asyncio.CancelledError):
                    await wait
