"""The experiments that a store has snapshots of, whoever made them: where to begin when a whole cluster is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podtune.api.names import ANNOTATION_FORMER
from podtune.cli.archives.snapshot_reader import list_config_maps, list_secrets, read_newest_record
from podtune.storage.object_store import ReadableStore
from podtune.storage.snapshots.record_store import find_experiments, list_records


@dataclass(frozen=True, slots=True)
class StoredExperiment:
    """An experiment as its own record in a store has it.

    Attributes:
        prefix: What all its keys start with, without a slash at the end; its last folder is the Experiment's UID.
        namespace: Where it was; empty if its record can't be read.
        name: Its name.
        state: Its state when it was recorded.
        trials: How many trials it had.
        ended: How many of them had ended.
        secrets: Secrets that it needs, which no snapshot holds.
        config_maps: ConfigMaps likewise.
        former: UIDs of those that it was restored from.
        problem: Why its record can't be read; empty where it can.
    """

    prefix: str
    namespace: str = ""
    name: str = ""
    state: str = ""
    trials: int = 0
    ended: int = 0
    secrets: Sequence[str] = ()
    config_maps: Sequence[str] = ()
    former: frozenset[str] = frozenset()
    problem: str = ""

    @property
    def uid(self) -> str:
        """The Experiment's UID."""
        return self.prefix.rpartition("/")[2]


def find_stored_experiments(store: ReadableStore, prefix: str) -> list[StoredExperiment]:
    """Reads the records of all experiments below a prefix, by namespace and name; those that can't be read come last.

    Raises:
        StoreError: The store can't be read.
    """
    found = [_read(store, one) for one in find_experiments(store, prefix)]
    return sorted(found, key=lambda one: (bool(one.problem), one.namespace, one.name, one.prefix))


def leave_out_former(found: Sequence[StoredExperiment]) -> list[StoredExperiment]:
    """Those that none of the others was restored from: of each experiment the last."""
    former = {uid for one in found for uid in one.former}
    return [one for one in found if one.uid not in former]


def _read(store: ReadableStore, prefix: str) -> StoredExperiment:
    problems: list[str] = []
    body = read_newest_record(store, prefix, list_records(store, prefix).get("", []), problems)
    folder = prefix.rstrip("/")
    if body is None:
        return StoredExperiment(folder, problem="; ".join(problems) or "its record is gone")
    metadata, status = body["metadata"], body["status"]
    counts = status.get("trials") or {}
    entries = (metadata.get("annotations") or {}).get(ANNOTATION_FORMER, "").split(",")
    return StoredExperiment(
        folder,
        metadata["namespace"],
        metadata["name"],
        str(status.get("state") or ""),
        int(counts.get("total") or 0),
        int(counts.get("terminated") or 0) + int(counts.get("error") or 0),
        tuple(list_secrets(body["spec"])),
        tuple(list_config_maps(body["spec"])),
        frozenset(entry.partition("/")[0] for entry in entries if entry) - {folder.rpartition("/")[2]},
    )
