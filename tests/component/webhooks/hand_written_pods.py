"""Pods whose statuses are written by hand, where no kubelet is: their programs run, report, and end as a test says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from e2e.chaos.pods import pod_status
from e2e.chaos.pods.simulated_storage import describe_end
from podtune.api.names import LABEL_STORAGE
from podtune.cli.client.api_client import HttpApi
from podtune.kube import paths
from podtune.kube.manifests import Manifest
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import CheckpointCommit, FinalCommit, Result
from podtune.protocol.storage_job import StoragePurpose, StorageReport
from podtune.runner.records import ContainerEnd
from podtune.simulation.faults import COMPLETED


@dataclass
class HandWrittenPods:
    """The pods of a namespace.

    Attributes:
        api: The API server.
        namespace: Where they are.
        store: Address in the bucket below which checkpoints are said to be.
        started: When each was said to run.
    """

    api: HttpApi
    namespace: str
    store: str
    started: dict[str, str] = field(default_factory=dict)

    def is_there(self, trial: str, attempt: int = 1) -> bool:
        """Whether the operator has made the pod of a trial's attempt."""
        pods = self.api.list_all(paths.pods(self.namespace))
        return _name(trial, attempt) in {pod["metadata"]["name"] for pod in pods}

    def run(self, trial: str, attempt: int = 1) -> None:
        """The program of a trial runs."""
        self.started[trial] = pod_status.now()
        self._write(_name(trial, attempt), lambda pod: pod_status.running(self.started[trial]))

    def end(self, trial: str, accuracy: float, attempt: int = 1, end: ContainerEnd = COMPLETED) -> None:
        """It has ended with one result and one checkpoint, which nobody has heard of yet."""

        def write(pod: Manifest) -> Manifest:
            words = self._make_termination_message(trial, pod["metadata"]["uid"], accuracy, attempt)
            return pod_status.ended(self.started[trial], end, words, pod_status.now())

        self._write(_name(trial, attempt), write)

    def prune(self, *, ok: bool = True) -> bool:
        """Whether an experiment's storage pod was there; it has then found nothing to delete, or no bucket."""
        message = "0 objects deleted" if ok else "the bucket does not answer"
        words = StorageReport(StoragePurpose.PRUNE, ok=ok, message=message).to_json()
        found = self.api.list_all(paths.pods(self.namespace), {"labelSelector": LABEL_STORAGE})
        for pod in found:
            path = paths.pod(self.namespace, pod["metadata"]["name"])
            self.api.patch(paths.status_of(path), {"status": describe_end(words)})
        return bool(found)

    def _make_termination_message(self, trial: str, attempt: str, accuracy: float, step: int) -> str:
        """The agent's termination message."""
        result = Result(1, 1.0, {"accuracy": accuracy}, step=step, checkpoint=True)
        checkpoint = CheckpointRef(f"{self.store}/{trial}/{attempt}/{step}", f"sha256:{'0' * 64}", step)
        commits = (CheckpointCommit(checkpoint, 1, accuracy),)
        return FinalCommit(attempt, seq=1, acked_seq=0, last=result, checkpoints=commits, done=True).to_json()

    def _write(self, pod: str, make: Callable[[Manifest], Manifest]) -> None:
        path = paths.pod(self.namespace, pod)
        self.api.patch(paths.status_of(path), {"status": make(self.api.get(path))})


def _name(trial: str, attempt: int) -> str:
    return f"{trial}-{attempt}"
