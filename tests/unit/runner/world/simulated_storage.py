"""The simulated bucket, and the storage pods whose jobs work in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from typing_extensions import override

from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.storage_job import StoragePurpose, StorageReport
from podtune.runner.actions import CreateStoragePod, format_storage_pod_name
from podtune.runner.records import Experiment, PodPhase, StoragePod, Trial
from podtune.simulation.bucket import Bucket
from podtune.simulation.clock import Clock
from podtune.simulation.training_state import TrainingState
from podtune.storage.checkpoint.address import CheckpointAddress


class WatchedBucket(Bucket):
    """Holds those who delete from it to what is on record.

    Attributes:
        damaged: Checkpoints that can't be restored.
    """

    def __init__(self, trials: Mapping[str, Trial]) -> None:
        """Starts empty; `trials` are those on record, by name."""
        super().__init__()
        self._trials = trials
        self.damaged: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._held))

    def __contains__(self, uri: object) -> bool:
        return uri in self._held

    def __getitem__(self, uri: str) -> TrainingState:
        return self._held[uri]

    def remove(self, uri: str) -> None:
        """A storage pod deletes a checkpoint."""
        del self._held[uri]

    @override
    def restore(self, candidates: Iterable[CheckpointRef]) -> tuple[CheckpointRef, TrainingState] | None:
        return super().restore(checkpoint for checkpoint in candidates if checkpoint.uri not in self.damaged)

    @override
    def discard(self, trial: str, kept: Collection[str]) -> None:
        """An agent deletes all checkpoints of a trial that are not kept."""
        needed = self._list_needed(trial)
        for uri in [uri for uri in self._held if f"/{trial}/" in uri and uri not in kept]:
            assert uri not in needed, f"{uri} is still needed"
            self.remove(uri)

    @override
    def keep(self, trial: str, kept: Collection[str]) -> None:
        """An agent deletes the checkpoints of earlier steps than the newest recorded one that are not kept."""
        needed = self._list_needed(trial)
        steps = {uri: CheckpointAddress("", uri).step for uri in self._held if f"/{trial}/" in uri}
        newest = max((steps[uri] for uri in kept if uri in steps), default=-1)
        for uri, step in steps.items():
            if uri not in kept and step < newest:
                assert uri not in needed, f"{uri} is still needed"
                self.remove(uri)

    def _list_needed(self, trial: str) -> set[str]:
        """What is recorded of a trial, and what others clone."""
        recorded = {c.uri for c in self._trials[trial].status.checkpoints} if trial in self._trials else set()
        clones = (other.status.clone for other in self._trials.values())
        return recorded | {clone.checkpoint.uri for clone in clones if clone is not None}


class SimHost(Protocol):
    """What a storage pod needs of the simulation."""

    bucket: WatchedBucket

    @property
    def clock(self) -> Clock: ...

    def jitter(self, seconds: float) -> float: ...


class StoragePods:
    """The storage pods of one experiment.

    Attributes:
        made: All jobs whose pods were made, in order.
        failures: By number of the pod: what it fails with, or None for a pod that never starts; the others succeed.
        on_done: Is called with each job that was done.
    """

    def __init__(self, host: SimHost, experiment: Callable[[], Experiment], version: Callable[[], int]) -> None:
        self._host = host
        self._experiment = experiment
        self._version = version
        self.changed: Callable[[StoragePod], None] = lambda pod: None
        self.pods: dict[str, StoragePod] = {}
        self.made: list[CreateStoragePod] = []
        self.failures: dict[int, str | None] = {}
        self.on_done: Callable[[CreateStoragePod], None] = lambda action: None

    def create(self, action: CreateStoragePod) -> StoragePod:
        """Makes a pod; one that is there stays as it is."""
        name = format_storage_pod_name(self._experiment().name, action.number)
        if name not in self.pods:
            job = next((j for j in self._experiment().status.storage.jobs if j.pod == action.number), None)
            assert job is not None, "a pod was made before that was on record"
            others = [pod.name for pod in self.pods.values() if not pod.is_over]
            assert not others, f"{others} are still at work"
            self.made.append(action)
            self._put(StoragePod(name, f"{name}-{self._version()}", version=self._version()))
            if self.failures.get(action.number, "") is not None:
                self._host.clock.call_later(self._host.jitter(1.0), lambda: self._work(name, action))
        return self.pods[name]

    def delete(self, name: str, uid: str) -> None:
        """A pod is deleted."""
        pod = self.pods.get(name)
        if pod is not None and pod.uid == uid:
            del self.pods[name]
            self.changed(replace(pod, version=self._version(), gone=True))

    def _work(self, name: str, action: CreateStoragePod) -> None:
        if name not in self.pods:
            return
        problem = self.failures.get(action.number) or ""
        if not problem:
            self._do(action)
            self.on_done(action)
        uris = [trial.export.folder for trial in action.trials if trial.export is not None and trial.export.is_best]
        uri = f"s3://exports/{uris[0]}" if uris and not problem else ""
        report = StorageReport(action.purpose, ok=not problem, message=problem or "done", uri=uri)
        phase = PodPhase.FAILED if problem else PodPhase.SUCCEEDED
        self._put(replace(self.pods[name], phase=phase, started=True, message=report.to_json()))

    def _do(self, action: CreateStoragePod) -> None:
        kept = {trial.trial: trial.kept for trial in action.trials}
        if action.purpose is StoragePurpose.PRUNE_STOPPED:
            for stopped, stays in kept.items():
                self._host.bucket.discard(stopped, stays)
            return
        for uri in self._host.bucket:
            trial = uri.split("/")[-3]
            is_dropped = action.purpose is StoragePurpose.PRUNE and trial in kept and uri not in kept[trial]
            if action.purpose is StoragePurpose.PURGE or is_dropped:
                self._host.bucket.remove(uri)

    def _put(self, pod: StoragePod) -> None:
        self.pods[pod.name] = replace(pod, version=self._version())
        self.changed(self.pods[pod.name])
