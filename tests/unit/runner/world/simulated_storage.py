"""Storage pods in memory, and what their jobs do to the simulated bucket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from podtune.protocol.storage_job import StoragePurpose, StorageReport
from podtune.runner.actions import CreateStoragePod, storage_pod_name
from podtune.runner.records import Experiment, PodPhase, StoragePod


class SimHost(Protocol):
    """What a storage pod needs of the simulation."""

    bucket: list[str]

    def after_unless_frozen(self, delay: float, what: Callable[[], object]) -> None: ...

    def jitter(self, seconds: float) -> float: ...


class StoragePods:
    """The storage pods of one experiment.

    Attributes:
        made: All jobs whose pods were made, in order.
        failures: By number of the pod: what it fails with, or None for a pod that never starts; the others succeed.
    """

    def __init__(self, host: SimHost, experiment: Callable[[], Experiment], version: Callable[[], int]) -> None:
        self._host = host
        self._experiment = experiment
        self._version = version
        self.changed: Callable[[StoragePod], None] = lambda pod: None
        self.pods: dict[str, StoragePod] = {}
        self.made: list[CreateStoragePod] = []
        self.failures: dict[int, str | None] = {}

    def create(self, action: CreateStoragePod) -> StoragePod:
        """Makes a pod; one that is there stays as it is."""
        name = storage_pod_name(self._experiment().name, action.number)
        if name not in self.pods:
            job = next((j for j in self._experiment().status.storage.jobs if j.pod == action.number), None)
            assert job is not None, "a pod was made before that was on record"
            others = [pod.name for pod in self.pods.values() if not pod.is_over]
            assert not others, f"{others} are still at work"
            self.made.append(action)
            self._put(StoragePod(name, f"{name}-{self._version()}", version=self._version()))
            if self.failures.get(action.number, "") is not None:
                self._host.after_unless_frozen(self._host.jitter(1.0), lambda: self._work(name, action))
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
        uris = [trial.export.folder for trial in action.trials if trial.export is not None and trial.export.is_best]
        uri = f"s3://exports/{uris[0]}" if uris and not problem else ""
        report = StorageReport(action.purpose, ok=not problem, message=problem or "done", uri=uri)
        phase = PodPhase.FAILED if problem else PodPhase.SUCCEEDED
        self._put(replace(self.pods[name], phase=phase, started=True, message=report.to_json()))

    def _do(self, action: CreateStoragePod) -> None:
        if action.purpose is StoragePurpose.PURGE:
            self._host.bucket.clear()
        if action.purpose is StoragePurpose.PRUNE:
            kept = {trial.trial: trial.kept for trial in action.trials}
            for uri in list(self._host.bucket):
                trial = uri.split("/")[-3]
                if trial in kept and uri not in kept[trial]:
                    self._host.bucket.remove(uri)

    def _put(self, pod: StoragePod) -> None:
        self.pods[pod.name] = replace(pod, version=self._version())
        self.changed(self.pods[pod.name])
