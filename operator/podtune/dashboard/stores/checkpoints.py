"""What the manifests of a trial's checkpoints say of their size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podtune.api.resources.trial import Checkpoint
from podtune.dashboard.stores.limits import LimitReached
from podtune.storage.address import StoreAddress
from podtune.storage.checkpoint.address import CheckpointAddress, parse_checkpoint_uri
from podtune.storage.checkpoint.manifest import (
    MAX_MANIFEST_BYTES,
    CheckpointManifest,
    InvalidManifest,
    digest_of,
    parse_manifest,
)
from podtune.storage.errors import NotFound, StoreSettingsError
from podtune.storage.object_store import ReadableStore


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint, and what its manifest says.

    Attributes:
        size: Bytes of all its files; None where that is not known.
        added: Those of them that lie in no earlier checkpoint's objects.
        files: How many files.
        created: When the program had finished it, as the API writes times.
        problem: Why it is not known; empty where it is.
    """

    checkpoint: Checkpoint
    size: int | None = None
    added: int = 0
    files: int = 0
    created: str = ""
    problem: str = ""


def read_sizes(
    store: ReadableStore, address: StoreAddress, folders: Sequence[str], checkpoints: Sequence[Checkpoint]
) -> list[StoredCheckpoint]:
    """Reads the manifests of checkpoints, the last first.

    Args:
        store: The store, which may have limits: what is left when they are reached is not known.
        address: Where it is.
        folders: What the keys of the Experiment start with, those from before it was restored, too. What is outside of
            them is not read.
        checkpoints: As they stand in a Trial's status.

    Raises:
        StoreError: The store can't be read.
    """
    found: list[StoredCheckpoint] = []
    cut = ""
    for checkpoint in reversed(checkpoints):
        if not cut:
            try:
                found.append(_read_size(store, address, folders, checkpoint))
                continue
            except LimitReached as error:
                cut = f"not read: {error}"
        found.append(StoredCheckpoint(checkpoint, problem=cut))
    return found


def _read_size(
    store: ReadableStore, address: StoreAddress, folders: Sequence[str], checkpoint: Checkpoint
) -> StoredCheckpoint:
    try:
        place = parse_checkpoint_uri(address, checkpoint.uri)
    except StoreSettingsError:
        return StoredCheckpoint(checkpoint, problem="in another store")
    if not place.root.startswith(tuple(folders)):
        return StoredCheckpoint(checkpoint, problem="in another experiment’s part of the store")
    try:
        data = store.get_bytes(place.manifest, MAX_MANIFEST_BYTES)
    except NotFound:
        return StoredCheckpoint(checkpoint, problem="no longer in the store")
    if digest_of(data) != checkpoint.digest:
        return StoredCheckpoint(checkpoint, problem="its manifest is not the one that was committed")
    try:
        manifest = parse_manifest(data)
    except InvalidManifest as error:
        return StoredCheckpoint(checkpoint, problem=str(error))
    return StoredCheckpoint(
        checkpoint,
        size=manifest.size,
        added=_count_added(place, manifest),
        files=len(manifest.files),
        created=manifest.created,
    )


def _count_added(place: CheckpointAddress, manifest: CheckpointManifest) -> int:
    """Bytes of files whose objects this checkpoint has brought."""
    own = f"{place.root.removeprefix(place.trial_prefix)}/"
    return sum(file.size for file in manifest.files if not file.object or file.object.startswith(own))
