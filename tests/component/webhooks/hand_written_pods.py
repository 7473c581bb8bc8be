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

    def is_there(self, trial: str) -> bool:
        """Whether the operator has made the pod of a trial's first attempt."""
        return _name(trial) in {pod["metadata"]["name"] for pod in self.api.list_all(paths.pods(self.namespace))}

    def run(self, trial: str) -> None:
        """The program of a trial runs."""
        self.started[trial] = pod_status.now()
        self._write(trial, lambda pod: pod_status.running(self.started[trial]))

    def end(self, trial: str, accuracy: float) -> None:
        """It has ended with one result and one checkpoint, which nobody has heard of yet."""

        def write(pod: Manifest) -> Manifest:
            words = self._make_termination_message(trial, pod["metadata"]["uid"], accuracy)
            return pod_status.ended(self.started[trial], COMPLETED, words, pod_status.now())

        self._write(trial, write)

    def prune(self) -> bool:
        """Whether the experiment's storage pod was there; it has then found nothing to delete in the bucket."""
        words = StorageReport(StoragePurpose.PRUNE, ok=True, message="0 objects deleted").to_json()
        found = self.api.list_all(paths.pods(self.namespace), {"labelSelector": LABEL_STORAGE})
        for pod in found:
            path = paths.pod(self.namespace, pod["metadata"]["name"])
            self.api.patch(paths.status_of(path), {"status": describe_end(words)})
        return bool(found)

    def _make_termination_message(self, trial: str, attempt: str, accuracy: float) -> str:
        """The agent's termination message."""
        result = Result(1, 1.0, {"accuracy": accuracy}, step=1, checkpoint=True)
        checkpoint = CheckpointRef(f"{self.store}/{trial}/{attempt}/1", f"sha256:{'0' * 64}", 1)
        commits = (CheckpointCommit(checkpoint, 1, accuracy),)
        return FinalCommit(attempt, seq=1, acked_seq=0, last=result, checkpoints=commits, done=True).to_json()

    def _write(self, trial: str, make: Callable[[Manifest], Manifest]) -> None:
        path = paths.pod(self.namespace, _name(trial))
        self.api.patch(paths.status_of(path), {"status": make(self.api.get(path))})


def _name(trial: str) -> str:
    return f"{trial}-1"
