"""The real bucket, as the harness looks into it; and the agents, as processes that a fault can kill."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from e2e.chaos.faults.injector import Armed
from e2e.chaos.ground_truth import FormerLife, GroundTruth
from e2e.chaos.pods.kubelet import Kubelet
from podtune.protocol.snapshot import MAX_RECORD
from podtune.storage.address import S3Address
from podtune.storage.checkpoint.address import CheckpointAddress
from podtune.storage.object_store import ReadableStore
from podtune.storage.s3.store import S3Store
from podtune.storage.segments.former import FormerFolder, read_all_results
from podtune.storage.segments.reader import read_logs, read_results
from podtune.storage.snapshots.record_store import format_key, list_records

MANIFEST = "/manifest.json"


@dataclass(frozen=True)
class Bucket:
    """Where it is; the credentials are in the environment."""

    name: str
    endpoint: str

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Bucket:
        """As `e2e.devcluster exec` describes it."""
        return cls(environ.get("PODTUNE_S3_BUCKET", ""), environ.get("PODTUNE_S3_ENDPOINT", ""))

    def read_segments(self, prefix: str, uid: str, truth: GroundTruth) -> None:
        """See the function of this name."""
        address = S3Address(self.name, prefix, self.endpoint)
        read_segments(S3Store(address), address.experiment_prefix(uid), truth)

    def read_records(self, prefix: str, uid: str, truth: GroundTruth) -> None:
        """See the function of this name."""
        address = S3Address(self.name, prefix, self.endpoint)
        read_records(S3Store(address), address.experiment_prefix(uid), truth)

    def find_generation(self, prefix: str, uid: str) -> int:
        """Which generation of an Experiment its snapshot has; -1 where it has none."""
        truth = GroundTruth()
        self.read_records(prefix, uid, truth)
        return int(truth.records.get("", {"metadata": {"generation": -1}})["metadata"]["generation"])

    def read_lives(self, prefix: str, lives: Sequence[FormerLife], truth: GroundTruth) -> None:
        """See the function of this name."""
        address = S3Address(self.name, prefix, self.endpoint)
        folders = [FormerFolder(address.experiment_prefix(life.uid), life.name, lives[-1].name) for life in lives]
        read_lives(S3Store(address), folders, truth)

    def locate(self, prefix: str, uid: str) -> str:
        """The address by which people restore an experiment."""
        return f"s3://{self.name}/{prefix}/{uid}"

    def checkpoints(self, prefix: str, uid: str) -> dict[str, int]:
        """The checkpoints of an experiment: URI and step of each that has a manifest."""
        store = S3Address(self.name, prefix, self.endpoint)
        found = {}
        for key in S3Store(store).list(store.experiment_prefix(uid)):
            if key.endswith(MANIFEST):
                address = CheckpointAddress(store.uri, key.removesuffix(MANIFEST))
                found[address.uri] = address.step
        return found


def read_records(store: ReadableStore, experiment_prefix: str, truth: GroundTruth) -> None:
    """Writes down the newest records of an experiment's snapshot."""
    for name, versions in list_records(store, experiment_prefix).items():
        truth.records[name] = json.loads(store.get_bytes(format_key(experiment_prefix, versions[0]), MAX_RECORD))


def read_segments(store: ReadableStore, experiment_prefix: str, truth: GroundTruth) -> None:
    """Writes down what is kept of an experiment's results and output, as users read it."""
    for stored in read_results(store, experiment_prefix):
        truth.results.setdefault(stored.attempt, []).append(stored.result.step)
    for trial in sorted({attempt.trial for attempt in truth.attempts}):
        for line in read_logs(store, experiment_prefix, trial):
            truth.logs.setdefault(line.attempt, []).append(f"{line.time} {line.text}")


def read_lives(store: ReadableStore, lives: Sequence[FormerFolder], truth: GroundTruth) -> None:
    """Writes down which results an experiment has stored in each of its lives, and what users read of all of them."""
    for life in lives:
        found: dict[str, list[int]] = {}
        for stored in read_results(store, life.prefix):
            found.setdefault(life.find_present_name(stored.trial), []).append(stored.result.step)
        truth.lives.append(found)
    *former, last = lives
    for stored in read_all_results(store, last.prefix, former):
        truth.told.setdefault(stored.trial, []).append(stored.result.step)


class AgentProcesses:
    """What a proxy can do to the agents whose call it is; see `Processes`."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet

    async def kill(self, armed: Armed) -> None:
        """SIGKILL."""
        await self._kubelet.kill(armed)

    async def kill_again(self, armed: Armed) -> None:
        """Only operators are killed twice."""
        raise NotImplementedError

    async def terminate(self) -> None:
        """Only operators are."""
        raise NotImplementedError

    async def depose(self, armed: Armed, *, freeze: bool) -> None:
        """Agents do not lead."""
        raise NotImplementedError

    async def turn_clock(self, seconds: float) -> None:
        """Agents do not decide by the clock."""
        raise NotImplementedError
