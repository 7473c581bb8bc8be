"""The jobs that a storage pod does, one function each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from podtune.protocol.storage_job import ExportedCheckpoint, StoragePurpose, StorageReport, StorageTask, StoredTrial
from podtune.storage.checkpoint.address import CheckpointAddress, StoreAddress, TrialAddress
from podtune.storage.checkpoint.download import CorruptCheckpoint
from podtune.storage.checkpoint.manifest import InvalidManifest
from podtune.storage.cleanup.export import Exporter
from podtune.storage.cleanup.orphan_ledger import store_orphan_decisions
from podtune.storage.cleanup.prune import prune_checkpoints, purge
from podtune.storage.errors import StoreSettingsError
from podtune.storage.object_store import ObjectStore


class Stores:
    """The experiment's bucket, and others that the same credentials open."""

    def __init__(self, address: StoreAddress, make_store: Callable[[StoreAddress], ObjectStore]) -> None:
        self.address = address
        self._make_store = make_store
        self._made: dict[str, ObjectStore] = {}

    def open_bucket(self, name: str) -> ObjectStore:
        """A bucket of the same server."""
        if name not in self._made:
            self._made[name] = self._make_store(replace(self.address, bucket=name))
        return self._made[name]

    @property
    def own(self) -> ObjectStore:
        """The experiment's bucket."""
        return self.open_bucket(self.address.bucket)


Job = Callable[[StorageTask, Iterable[StoredTrial], Stores], StorageReport]


def prune_bucket(task: StorageTask, trials: Iterable[StoredTrial], stores: Stores) -> StorageReport:
    """Leaves what is kept, and nothing else, and stores what no agent has; see `podtune.storage.cleanup.prune`."""
    bucket = stores.address.bucket
    kept: dict[str, frozenset[str]] = {}
    for trial in trials:
        kept[trial.trial] = frozenset(_list_roots(trial.kept, bucket))
        address = TrialAddress(stores.address, task.experiment_uid, trial.trial)
        store_orphan_decisions(stores.own, address.orphan_ledger, trial.ledger)
    found = prune_checkpoints(stores.own, stores.address.experiment_prefix(task.experiment_uid), kept)
    message = f"{found.checkpoints} checkpoints that are not kept, {found.objects} objects in all, were deleted"
    if found.uploads is None:
        message += "; the store does not show unfinished uploads"
    elif found.uploads:
        message += f"; {found.uploads} unfinished uploads were aborted"
    return StorageReport(task.purpose, ok=True, message=message, deleted=found.objects)


def purge_bucket(task: StorageTask, trials: Iterable[StoredTrial], stores: Stores) -> StorageReport:  # noqa: ARG001
    """Leaves nothing of the experiment; see `podtune.storage.cleanup.prune`."""
    prefix = stores.address.experiment_prefix(task.experiment_uid)
    deleted = purge(stores.own, prefix)
    message = f"{deleted} objects below {prefix} were deleted"
    return StorageReport(task.purpose, ok=True, message=message, deleted=deleted)


def export_checkpoints(task: StorageTask, trials: Iterable[StoredTrial], stores: Stores) -> StorageReport:
    """Copies the checkpoints to export, except damaged ones; see `podtune.storage.cleanup.export`."""
    bucket, _, root = task.export_to.removeprefix("s3://").partition("/")
    if not bucket or not root:
        raise StoreSettingsError(f"{task.export_to!r} is not an address for exports; write it like s3://bucket/path")
    same = bucket == stores.address.bucket
    exporter = Exporter(stores.own, stores.open_bucket(bucket), same_bucket=same)
    count, size, uri, problems = 0, 0, "", []
    for wanted in (trial.export for trial in trials if trial.export is not None):
        try:
            target = CheckpointAddress(bucket, f"{root}/{wanted.folder}")
            done = exporter.export(_find_source(wanted, stores), wanted.digest, target, json.loads(wanted.card))
        except (CorruptCheckpoint, InvalidManifest) as error:
            problems.append(str(error))
            continue
        count, size = count + 1, size + done.size
        uri = done.uri if wanted.is_best else uri
    message = f"{count} checkpoints, {size} bytes, were exported to {task.export_to}"
    if problems:
        message += f"; {len(problems)} could not be: {problems[0]}"
    return StorageReport(task.purpose, ok=not problems, message=message, uri=uri)


def _find_source(wanted: ExportedCheckpoint, stores: Stores) -> CheckpointAddress:
    address = CheckpointAddress.from_uri(wanted.uri)
    if address.bucket != stores.address.bucket:
        raise StoreSettingsError(f"{wanted.uri} is not in the store's bucket, {stores.address.bucket!r}")
    return address


def _list_roots(uris: Iterable[str], bucket: str) -> Iterable[str]:
    addresses = map(CheckpointAddress.from_uri, uris)
    return [address.root for address in addresses if address.bucket == bucket]


JOBS: Mapping[StoragePurpose, Job] = {
    StoragePurpose.EXPORT: export_checkpoints,
    StoragePurpose.PRUNE: prune_bucket,
    StoragePurpose.PURGE: purge_bucket,
}
