"""An experiment with a store, in which a trial has results and checkpoints."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from podtune.api.resources.trial import Checkpoint
from podtune.cli.client.resources import ExperimentView
from podtune.cli.client.store_access import OpenedStore
from podtune.kube.manifests import Manifest
from podtune.protocol.messages import MetricValue, Result, encode_result
from podtune.protocol.snapshot import SnapshotRecord
from podtune.storage.address import AnyAddress, FileAddress
from podtune.storage.checkpoint.address import CheckpointAddress
from podtune.storage.checkpoint.manifest import CheckpointManifest, ManifestFile, digest_of
from podtune.storage.object_store import ObjectStore
from podtune.storage.segments.segment import LOG_STREAM, SegmentHeader
from podtune.storage.segments.segment_stream import SegmentStream
from podtune.storage.snapshots.record_store import store_record
from podtune.storage.stores import make_store
from tests.unit.dashboard.archives import experiment_body

UID = "e-1"
TRIAL = "digits-0"
HASH = "0" * 64


class StoredTrial:
    """Stores what a trial's agents would."""

    def __init__(self, address: AnyAddress) -> None:
        self.address = address
        self.uid = UID
        self.store: ObjectStore = make_store(address)

    @property
    def prefix(self) -> str:
        return self.address.experiment_prefix(self.uid)

    def report(self, count: int, *, attempt: int = 1, first: int = 1, trial: str = TRIAL, **more: MetricValue) -> None:
        """Results of one attempt, whose accuracy rises with the iteration."""
        name = f"pod-{trial}-{attempt}"
        stream = SegmentStream(
            self.store,
            f"{self.prefix}{trial}/{name}/results/0/",
            SegmentHeader("team", "digits", trial, name, attempt),
            1 << 30,
        )
        for seq in range(1, count + 1):
            step, time = first + seq - 1, 1e6 * attempt + seq
            metrics = {"accuracy": 1 - math.exp(-step / 50), "time_total_s": 2.0 * step, **more}
            stream.append(seq, time, f"{encode_result(Result(seq, time, metrics, step))}\n".encode())
        stream.store_changes(lambda: False)

    def print_lines(self, *texts: str, attempt: int = 1, rank: int = 0, keep: int = 1 << 30) -> None:
        """What one attempt has printed in one rank, a line a second."""
        name = f"pod-{TRIAL}-{attempt}"
        stream = SegmentStream(
            self.store,
            f"{self.prefix}{TRIAL}/{name}/logs/{rank}/",
            SegmentHeader("team", "digits", TRIAL, name, attempt, rank),
            keep,
            LOG_STREAM,
        )
        for seq, text in enumerate(texts, start=1):
            stream.append(seq, 1e6 * attempt + seq, f"2026-01-01T10:00:00Z {text}\n".encode())
        stream.store_changes(lambda: False)

    def store_checkpoint(self, step: int, *files: ManifestFile, uid: str = UID) -> Checkpoint:
        place = CheckpointAddress(self.address.uri, f"{self.address.experiment_prefix(uid)}{TRIAL}/pod-1/{step}")
        manifest = CheckpointManifest("pod-1", step, step, "0.9", "2026-01-01T10:05:00Z", files)
        self.store.put_bytes(place.manifest, manifest.to_bytes())
        return Checkpoint(step=step, uri=place.uri, digest=digest_of(manifest.to_bytes()), metric="0.9")

    def store_experiment(self, namespace: str) -> None:
        """The Experiment's record in the snapshot."""
        body = {"kind": "Experiment", "metadata": {"namespace": namespace, "name": "digits", "uid": self.uid}}
        store_record(self.store, self.prefix, SnapshotRecord("", 7, json.dumps(body)))

    def describe(self, **store: str) -> Manifest:
        """The experiment."""
        return experiment_body(checkpoints={"store": {"bucket": "models", "prefix": "team"} | store})


def store_locally(directory: Path) -> StoredTrial:
    return StoredTrial(FileAddress(str(directory), "team"))


class OpenStores:
    """Lets everybody read the store on this machine."""

    def __init__(self, stored: StoredTrial, obstacle: str = "") -> None:
        self.stored = stored
        self.obstacle = obstacle
        self.opened = 0
        self.failure: Exception | None = None

    def find_obstacle(self, experiment: ExperimentView) -> str:
        return self.obstacle

    @contextmanager
    def open(self, request: web.Request, experiment: ExperimentView) -> Iterator[OpenedStore]:
        self.opened += 1
        if self.failure is not None:
            raise self.failure
        yield OpenedStore(self.stored.store, self.stored.address)


def make_file(path: str, size: int, **facts: Any) -> ManifestFile:
    return ManifestFile(path, size, HASH, **facts)
