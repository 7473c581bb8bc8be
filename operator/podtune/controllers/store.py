"""What is known of the cluster: every Experiment with its machine, its Trials and their pods.

Everything that is seen comes in here, from the watches, from the answers to our own writes, and from the sweep. Old
news is told from new by the resource version, so it does not matter through which of them a thing is seen first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace

import structlog
from pydantic import ValidationError

from podtune.api.names import LABEL_EXPERIMENT
from podtune.cluster import readers
from podtune.cluster.client import Manifest
from podtune.controllers.proposing import Proposer
from podtune.runner.experiment_machine import ExperimentMachine
from podtune.runner.records import Experiment, Pod, Trial
from podtune.runner.settings import RunnerSettings

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Entry:
    """One Experiment. It has a machine once it has had a spec that can be used."""

    experiment: Experiment
    machine: ExperimentMachine | None = None
    proposer: Proposer | None = None
    trials: dict[str, Trial] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)


class Store:
    """All Experiments, by UID."""

    def __init__(
        self, settings: RunnerSettings, changed: Callable[[str], None], service_accounts: Collection[str] = ()
    ) -> None:
        """Makes an empty store.

        Args:
            settings: For the machines.
            changed: Called with the UID of an Experiment that something happened to.
            service_accounts: Service accounts that trials may run as.
        """
        self._settings = settings
        self._changed = changed
        self._service_accounts = service_accounts
        self._entries: dict[str, Entry] = {}
        self._by_name: dict[tuple[str, str], str] = {}
        self._experiment_of: dict[str, str] = {}
        self._synced = False

    # What was seen

    def experiment(self, body: Manifest) -> None:
        """An Experiment was seen."""
        uid = body["metadata"]["uid"]
        entry = self._entries.get(uid)
        if entry is not None and readers.version_of(body) <= entry.experiment.version:
            return
        experiment = readers.read_experiment(body, self._service_accounts)
        if entry is None:
            entry = self._entries[uid] = Entry(experiment)
            self._by_name[experiment.namespace, experiment.name] = uid
        entry.experiment = experiment
        if entry.machine is not None:
            entry.machine.experiment_seen(experiment)
        self._changed(uid)

    def experiment_gone(self, body: Manifest) -> None:
        """An Experiment was deleted; the garbage collector sees to its Trials and pods."""
        uid = body["metadata"]["uid"]
        entry = self._entries.pop(uid, None)
        if entry is None:
            return
        for trial in entry.trials.values():
            self._experiment_of.pop(trial.uid, None)
        key = (entry.experiment.namespace, entry.experiment.name)
        if self._by_name.get(key) == uid:
            del self._by_name[key]

    def trial(self, body: Manifest) -> None:
        """A Trial was seen."""
        uid = readers.experiment_of_trial(body)
        entry = self._entries.get(uid)
        if entry is None:
            return
        name = body["metadata"]["name"]
        known = entry.trials.get(name)
        if known is not None and known.uid == body["metadata"]["uid"] and readers.version_of(body) <= known.version:
            return
        try:
            trial = readers.read_trial(body)
        except ValidationError as error:
            log.warning("trial not understood", trial=name, experiment=entry.experiment.name, error=str(error))
            return
        entry.trials[name] = trial
        self._experiment_of[trial.uid] = uid
        if entry.machine is not None:
            entry.machine.trial_seen(trial)
            if known is None:
                for pod in [pod for pod in entry.pods.values() if pod.trial == name]:
                    entry.machine.pod_seen(pod)
        self._changed(uid)

    def trial_gone(self, body: Manifest) -> None:
        """A Trial was deleted."""
        metadata = body["metadata"]
        self.trial_vanished(readers.experiment_of_trial(body), metadata["name"], metadata["uid"])

    def trial_vanished(self, uid: str, name: str, trial_uid: str) -> None:
        """A Trial of an Experiment is no longer there."""
        entry = self._entries.get(uid)
        if entry is None or name not in entry.trials or entry.trials[name].uid != trial_uid:
            return
        del entry.trials[name]
        self._experiment_of.pop(trial_uid, None)
        if entry.machine is not None:
            entry.machine.trial_gone(name)
        self._changed(uid)

    def pod(self, body: Manifest, *, gone: bool = False) -> None:
        """A trial's pod was seen, or (`gone`) was seen for the last time."""
        metadata = body["metadata"]
        uid = self._experiment_of.get(readers.trial_of_pod(body)) or self._experiment_named(body)
        entry = self._entries.get(uid)
        if entry is None:
            return
        known = entry.pods.get(metadata["name"])
        same = known is not None and known.uid == metadata["uid"]
        if known is not None and same and not gone and readers.version_of(body) <= known.version:
            return
        pod = readers.read_pod(body, gone=gone)
        if not gone:
            entry.pods[pod.name] = pod
        elif same:
            del entry.pods[pod.name]
        if entry.machine is not None:
            entry.machine.pod_seen(pod)
        self._changed(uid)

    def pod_vanished(self, uid: str, name: str) -> None:
        """A pod is no longer there, and its end was not seen."""
        entry = self._entries.get(uid)
        pod = entry.pods.pop(name, None) if entry is not None else None
        if entry is not None and pod is not None and entry.machine is not None:
            entry.machine.pod_seen(replace(pod, gone=True))
            self._changed(uid)

    def synced(self) -> None:
        """Everything that is there has been seen: from now on there are machines."""
        self._synced = True
        for uid in self._entries:
            self._changed(uid)

    # What is known

    def entry(self, uid: str) -> Entry | None:
        """The Experiment with this UID; it gets its machine here, from all that is known of it."""
        entry = self._entries.get(uid)
        if entry is not None and entry.machine is None and self._synced and entry.experiment.spec is not None:
            machine = ExperimentMachine(entry.experiment, entry.trials.values(), entry.pods.values(), self._settings)
            entry.machine, entry.proposer = machine, Proposer(entry.experiment.spec)
        return entry

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """All Experiments; a snapshot, so that it may change meanwhile."""
        yield from list(self._entries.items())

    def entry_of_trial(self, namespace: str, trial: str) -> Entry | None:
        """The Experiment that a Trial of this name belongs to."""
        uid = self._by_name.get((namespace, trial.rpartition("-")[0]))
        entry = self._entries.get(uid) if uid is not None else None
        return entry if entry is not None and trial in entry.trials else None

    def __len__(self) -> int:
        return len(self._entries)

    def _experiment_named(self, body: Manifest) -> str:
        """The Experiment that a pod's label names: its Trial may not have been seen yet."""
        metadata = body["metadata"]
        return self._by_name.get((metadata["namespace"], metadata.get("labels", {}).get(LABEL_EXPERIMENT, "")), "")
