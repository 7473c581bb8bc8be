"""The jobs that a storage pod does, one function each."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping

from podtune.protocol.snapshot import SnapshotRecord
from podtune.protocol.storage_job import StoragePurpose, StorageReport, StorageTask, StoredTrial
from podtune.storage.address import StoreAddress
from podtune.storage.checkpoint.address import CheckpointAddress, TrialAddress, parse_checkpoint_uri
from podtune.storage.checkpoint.download import CorruptCheckpoint
from podtune.storage.checkpoint.manifest import InvalidManifest
from podtune.storage.cleanup.export import Exporter
from podtune.storage.cleanup.orphan_ledger import store_orphan_decisions
from podtune.storage.cleanup.prune import PruneResult, prune_checkpoints, purge
from podtune.storage.object_store import ObjectStore
from podtune.storage.snapshots.record_store import store_records


class Stores:
    """The experiment's store, and others that are reached in the same way."""

    def __init__(self, address: StoreAddress, make_store: Callable[[StoreAddress], ObjectStore]) -> None:
        self.address = address
        self._make_store = functools.cache(make_store)

    def open(self, address: StoreAddress) -> ObjectStore:
        """One of these stores."""
        return self._make_store(address)

    @property
    def own(self) -> ObjectStore:
        """The experiment's store."""
        return self.open(self.address)


Job = Callable[[StorageTask, Iterable[StoredTrial], Stores], StorageReport]


def prune_bucket(task: StorageTask, trials: Iterable[StoredTrial], stores: Stores) -> StorageReport:
    """Stores what no agent has, and then leaves what is kept, and nothing else; see `podtune.storage.cleanup.prune`."""
    kept: dict[str, frozenset[str]] = {}
    prefix = stores.address.experiment_prefix(task.experiment_uid)

    def take_in() -> Iterator[SnapshotRecord]:
        """Goes through the trials once, for there may be very many; their records are stored on the way."""
        for trial in trials:
            if trial.record is not None:
                yield trial.record
            if trial.record is None or trial.record.is_of_trial:
                kept[trial.trial] = frozenset(_find_roots(stores.address, trial.kept))
                address = TrialAddress(stores.address, task.experiment_uid, trial.trial)
                store_orphan_decisions(stores.own, address.orphan_ledger, trial.ledger)

    count = store_records(stores.own, prefix, take_in())
    found = prune_checkpoints(stores.own, prefix, kept)
    message = f"{_tell_stored(count)}; {_tell_deleted(found)}" if count else _tell_deleted(found)
    if found.uploads is None:
        message += "; the store does not show unfinished uploads"
    elif found.uploads:
        message += f"; {found.uploads} unfinished uploads were aborted"
    return StorageReport(task.purpose, ok=True, message=message, deleted=found.objects)


def prune_stopped_trials(task: StorageTask, trials: Iterable[StoredTrial], stores: Stores) -> StorageReport:
    """Leaves what is kept of trials that were stopped; the experiment's others run, and are left alone."""
    kept = {trial.trial: frozenset(_find_roots(stores.address, trial.kept)) for trial in trials}
    prefix = stores.address.experiment_prefix(task.experiment_uid)
    found = prune_checkpoints(stores.own, prefix, kept, aborts=False)
    return StorageReport(task.purpose, ok=True, message=_tell_deleted(found), deleted=found.objects)


def purge_bucket(task: StorageTask, trials: Iterable[StoredTrial], stores: Stores) -> StorageReport:  # noqa: ARG001
    """Leaves nothing of the experiment; see `podtune.storage.cleanup.prune`."""
    prefix = stores.address.experiment_prefix(task.experiment_uid)
    deleted = purge(stores.own, prefix)
    message = f"{deleted} objects below {prefix} were deleted"
    return StorageReport(task.purpose, ok=True, message=message, deleted=deleted)


def export_checkpoints(task: StorageTask, trials: Iterable[StoredTrial], stores: Stores) -> StorageReport:
    """Copies the checkpoints to export, except damaged ones; see `podtune.storage.cleanup.export`."""
    store, root = stores.address.find_sibling(task.export_to)
    exporter = Exporter(stores.own, stores.open(store), same_store=store == stores.address)
    count, size, uri, problems = 0, 0, "", []
    for wanted in (trial.export for trial in trials if trial.export is not None):
        try:
            source = parse_checkpoint_uri(stores.address, wanted.uri)
            target = CheckpointAddress(store.uri, f"{root}/{wanted.folder}")
            done = exporter.export(source, wanted.digest, target, json.loads(wanted.card))
        except (CorruptCheckpoint, InvalidManifest) as error:
            problems.append(str(error))
            continue
        count, size = count + 1, size + done.size
        uri = done.uri if wanted.is_best else uri
    message = f"{count} checkpoints, {size} bytes, were exported to {task.export_to}"
    if problems:
        message += f"; {len(problems)} could not be: {problems[0]}"
    return StorageReport(task.purpose, ok=not problems, message=message, uri=uri)


def store_snapshot(task: StorageTask, trials: Iterable[StoredTrial], stores: Stores) -> StorageReport:
    """Stores records that no agent does; see `podtune.storage.snapshots.record_store`."""
    prefix = stores.address.experiment_prefix(task.experiment_uid)
    count = store_records(stores.own, prefix, (trial.record for trial in trials if trial.record is not None))
    return StorageReport(task.purpose, ok=True, message=_tell_stored(count))


def _tell_stored(count: int) -> str:
    return f"{count} records of the snapshot were stored"


def _tell_deleted(found: PruneResult) -> str:
    return f"{found.checkpoints} checkpoints that are not kept, {found.objects} objects in all, were deleted"


def _find_roots(store: StoreAddress, uris: Iterable[str]) -> Iterator[str]:
    """What the checkpoints that lie in the store have all their keys start with."""
    return (parse_checkpoint_uri(store, uri).root for uri in uris if store.holds(uri))


JOBS: Mapping[StoragePurpose, Job] = {
    StoragePurpose.EXPORT: export_checkpoints,
    StoragePurpose.PRUNE: prune_bucket,
    StoragePurpose.PRUNE_STOPPED: prune_stopped_trials,
    StoragePurpose.PURGE: purge_bucket,
    StoragePurpose.SNAPSHOT: store_snapshot,
}
