"""Where the records of a snapshot are in the store, and how they get there.

All lie in one folder of the experiment, so that one short listing finds them. A record's key tells the version of its
object: an agent that is late stores a record of its own and overwrites no newer one, and whoever reads takes the
newest. Whoever stores a newer record deletes the older ones.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from podtune.protocol.snapshot import WARM_START, SnapshotRecord
from podtune.storage.object_store import ObjectStore, ReadableStore

SNAPSHOT_FOLDER = "_snapshot"
"""No Trial can have this name."""
_EXPERIMENT = "experiment"
_WARM_START = "warm-start"
_TRIALS = "trials"
_VERSION = re.compile(r"([0-9]{20})\.json")


@dataclass(frozen=True, slots=True, order=True)
class RecordName:
    """What a record's key says of it.

    Attributes:
        trial: Name of the Trial; empty for the Experiment, `WARM_START` for its warm start.
        version: Resource version of the object.
    """

    trial: str
    version: int


def format_key(experiment_prefix: str, name: RecordName) -> str:
    """The key of a record; `experiment_prefix` ends with a slash."""
    return f"{_format_folder(experiment_prefix, name.trial)}{name.version:020d}.json"


def parse_key(experiment_prefix: str, key: str) -> RecordName | None:
    """What a key says of the record that it belongs to; None where it is no record's."""
    parts = key.removeprefix(f"{experiment_prefix}{SNAPSHOT_FOLDER}/").split("/")
    match = _VERSION.fullmatch(parts[-1])
    if match is None or not key.startswith(experiment_prefix):
        return None
    match parts[:-1]:
        case [kind] if kind == _EXPERIMENT:
            return RecordName("", int(match[1]))
        case [kind] if kind == _WARM_START:
            return RecordName(WARM_START, int(match[1]))
        case [kind, trial] if kind == _TRIALS and trial:
            return RecordName(trial, int(match[1]))
        case _:
            return None


def list_records(store: ReadableStore, experiment_prefix: str) -> dict[str, list[RecordName]]:
    """All records of an experiment by their `RecordName.trial`, the newest first.

    Raises:
        StoreError: The store can't tell now, or at all.
    """
    found: defaultdict[str, list[RecordName]] = defaultdict(list)
    for key in store.list(f"{experiment_prefix}{SNAPSHOT_FOLDER}/"):
        if (name := parse_key(experiment_prefix, key)) is not None:
            found[name.trial].append(name)
    return {trial: sorted(names, reverse=True) for trial, names in found.items()}


def list_records_of(store: ReadableStore, experiment_prefix: str, trial: str) -> list[RecordName]:
    """The records of one object, by its `RecordName.trial`, the newest first: a short listing, however many there are.

    Raises:
        StoreError: The store can't tell now, or at all.
    """
    keys = store.list(_format_folder(experiment_prefix, trial))
    return sorted((name for key in keys if (name := parse_key(experiment_prefix, key)) is not None), reverse=True)


def has_warm_start(store: ReadableStore, experiment_prefix: str) -> bool:
    """Whether there is a record of what the experiment has learnt from an earlier one.

    Raises:
        StoreError: The store can't tell now, or at all.
    """
    return any(True for _ in store.list(_format_folder(experiment_prefix, WARM_START)))


def store_record(store: ObjectStore, experiment_prefix: str, record: SnapshotRecord) -> None:
    """Stores a record, and deletes those that it replaces. It may be repeated.

    Raises:
        StoreError: The store can't do it now, or at all.
    """
    _store(store, experiment_prefix, record, list_records_of(store, experiment_prefix, record.trial))


def store_records(store: ObjectStore, experiment_prefix: str, records: Iterable[SnapshotRecord]) -> int:
    """Stores many records, but for those that are there in the same version or a newer one; how many it stored.

    Raises:
        StoreError: The store can't do it now, or at all.
    """
    known, stored = list_records(store, experiment_prefix), 0
    for record in records:
        names = known.get(record.trial, [])
        if not names or names[0].version < record.version:
            _store(store, experiment_prefix, record, names)
            stored += 1
    return stored


def _store(store: ObjectStore, prefix: str, record: SnapshotRecord, known: Iterable[RecordName]) -> None:
    store.put_bytes(format_key(prefix, RecordName(record.trial, record.version)), record.body.encode())
    older = [format_key(prefix, name) for name in known if name.version < record.version]
    if older:
        store.delete(older)


def _format_folder(prefix: str, trial: str) -> str:
    own = {"": _EXPERIMENT, WARM_START: _WARM_START}
    return f"{prefix}{SNAPSHOT_FOLDER}/{own.get(trial, f'{_TRIALS}/{trial}')}/"


def find_experiments(store: ReadableStore, prefix: str) -> Iterator[str]:
    """What all keys of each experiment start with that has a snapshot below a prefix, which ends with a slash.

    Raises:
        StoreError: The store can't tell now, or at all.
    """
    last = ""
    for key in store.list(prefix):
        experiment, found, _ = key.partition(f"{SNAPSHOT_FOLDER}/{_EXPERIMENT}/")
        if found and experiment != last:
            last = experiment
            yield experiment
