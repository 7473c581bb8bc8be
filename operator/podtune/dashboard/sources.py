"""Where pages have their data from: one small interface, and the source that reads an exported archive."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from podtune.api.names import API_VERSION
from podtune.api.resources.trial import LedgerEntry
from podtune.cli.archives.archive import Archive, read_archive
from podtune.cli.client.resources import ExperimentView, TrialView, read_experiment, read_trial
from podtune.kube.manifests import Manifest


class ExperimentSource(ABC):
    """What is shown: a cluster, an archive, a local run.

    It answers from memory. What it returns is never changed afterwards: whoever has news returns other objects.
    """

    @property
    @abstractmethod
    def title(self) -> str:
        """What it reads, in a few words."""

    @abstractmethod
    def list_experiments(self) -> Sequence[ExperimentView]:
        """All Experiments that may be seen, by namespace and name."""

    @abstractmethod
    def find_experiment(self, namespace: str, name: str) -> ExperimentView | None:
        """An Experiment; None where there is none that may be seen."""

    @abstractmethod
    def list_trials(self, namespace: str, experiment: str) -> Sequence[TrialView]:
        """An Experiment's Trials, by their index; the same object as long as none of them has changed."""


@dataclass(frozen=True, slots=True)
class Outage:
    """What a source reads can't be reached.

    Attributes:
        since: When it was last known to be there.
        reason: Why, in a sentence without a full stop.
    """

    since: datetime
    reason: str


class LiveSource(ExperimentSource):
    """A source that has news while it is shown."""

    @property
    @abstractmethod
    def outage(self) -> Outage | None:
        """Why what is shown may be old; None while it is not."""

    @property
    @abstractmethod
    def has_own_title(self) -> bool:
        """Whether the installation chose the title; else it names the namespaces."""

    @abstractmethod
    def find_deletion(self, namespace: str, experiment: str) -> datetime | None:
        """When an Experiment was deleted that was here; None for any other."""

    @abstractmethod
    def find_revision(self, namespace: str, experiment: str) -> str:
        """Another text as soon as there is news of an Experiment; with empty names, of anything."""

    @abstractmethod
    async def wait_for_news(self, namespace: str, experiment: str, known: str) -> str:
        """Returns the revision as soon as it is another one than is known."""


class ManifestSource(ExperimentSource):
    """A source that holds Trials as they were written."""

    @abstractmethod
    def find_manifest(self, namespace: str, experiment: str, trial: str) -> Manifest | None:
        """A Trial; None where there is none."""


class ArchiveSource(ManifestSource):
    """The one experiment of an archive, as it was when it was exported."""

    def __init__(self, archive: Archive, title: str) -> None:
        """Takes what is in an archive.

        Args:
            archive: What was read.
            title: What it was read from.
        """
        name, namespace = archive.source["name"], archive.source["namespace"]
        metadata = {"name": name, "namespace": namespace, "uid": archive.source["uid"], **archive.metadata}
        body = {"metadata": metadata, "spec": archive.spec, "status": archive.status}
        self._title = title
        self._experiment = read_experiment({"apiVersion": API_VERSION, **body})
        self._manifests = {trial["name"]: trial for trial in archive.trials}
        self._trials = tuple(
            _add_decisions(
                read_trial({"metadata": {"name": trial["name"]}, "spec": trial["spec"], "status": trial["status"]}),
                archive.decisions.get(trial["name"], ()),
            )
            for trial in archive.trials
        )

    @property
    def title(self) -> str:
        """What it reads, in a few words."""
        return self._title

    def list_experiments(self) -> Sequence[ExperimentView]:
        """The one there is."""
        return (self._experiment,)

    def find_experiment(self, namespace: str, name: str) -> ExperimentView | None:
        """It, where it is that one."""
        is_it = (namespace, name) == (self._experiment.namespace, self._experiment.name)
        return self._experiment if is_it else None

    def list_trials(self, namespace: str, experiment: str) -> Sequence[TrialView]:
        """Its Trials."""
        return self._trials if self.find_experiment(namespace, experiment) else ()

    def find_manifest(self, namespace: str, experiment: str, trial: str) -> Manifest | None:
        """One of them, as it is in the archive."""
        known = self._manifests.get(trial) if self.find_experiment(namespace, experiment) else None
        if known is None:
            return None
        metadata = {"name": trial, "namespace": namespace}
        return {"metadata": metadata, "spec": known["spec"], "status": known["status"]}


def _add_decisions(trial: TrialView, stored: Sequence[Manifest]) -> TrialView:
    """A trial whose ledger has the decisions of the store, too."""
    if not stored:
        return trial
    entries = [*map(LedgerEntry.model_validate, stored), *trial.status.ledger]
    ledger = sorted({(entry.number, entry.time): entry for entry in entries}.items())
    status = trial.status.model_copy(update={"ledger": [entry for _, entry in ledger]})
    return replace(trial, status=status)


def open_archive(path: Path) -> ArchiveSource:
    """Reads an archive to show it.

    Raises:
        CliError: It is none, or it is damaged.
    """
    return ArchiveSource(read_archive(path), f"archive {path.name}")
