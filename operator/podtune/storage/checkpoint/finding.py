"""Finds the checkpoints that a trial has in the bucket, where no record of them is left.

The prefix holds the experiment's UID, so nothing is found that an earlier experiment of the same name has left.
Below it the manifests say what each checkpoint was trained with.
"""

from __future__ import annotations

from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage.checkpoint.address import MANIFEST, CheckpointAddress, TrialAddress
from podtune.storage.checkpoint.manifest import (
    MAX_BYTES,
    CheckpointManifest,
    InvalidManifest,
    digest_of,
    parse_manifest,
)
from podtune.storage.errors import NotFound
from podtune.storage.object_store import ObjectStore

MAX_LOOKED_AT = 100
"""So many manifests are read, of the highest steps; a trial keeps no more than 40 checkpoints."""


def find_checkpoints(store: ObjectStore, trial: TrialAddress, configuration: str) -> tuple[CheckpointRef, ...]:
    """Finds the checkpoints of a trial that were taken with a configuration.

    A manifest that does not say what its checkpoint was taken with fits no configuration, nor does one that can't be
    read.

    Args:
        store: The bucket.
        trial: The trial's address in it.
        configuration: Digest of what the trial trains with; nothing is found where it is empty.

    Returns:
        What was found: the one that has come furthest first, of several that have come as far the newest.

    Raises:
        StoreError: The store can't be asked now, or at all.
    """
    if not configuration:
        return ()
    found: list[tuple[CheckpointManifest, CheckpointRef]] = []
    for address in _addresses(store, trial):
        try:
            data = store.get_bytes(address.manifest, MAX_BYTES)
            manifest = parse_manifest(data)
        except (NotFound, InvalidManifest):
            continue  # it goes at this moment, or is none
        if manifest.configuration == configuration:
            found.append((manifest, CheckpointRef(address.uri, digest_of(data), manifest.step)))
    found.sort(key=lambda pair: (pair[0].iteration, pair[0].created), reverse=True)
    return tuple(candidate for _, candidate in found)


def _addresses(store: ObjectStore, trial: TrialAddress) -> list[CheckpointAddress]:
    """The addresses of the checkpoints of the highest steps."""
    addresses = []
    for key in store.list(trial.prefix):
        attempt, _, rest = key.removeprefix(trial.prefix).partition("/")
        step, _, what = rest.partition("/")
        address = CheckpointAddress(trial.store.bucket, f"{trial.prefix}{attempt}/{step}")
        if what == MANIFEST and address.step >= 0:
            addresses.append(address)
    return sorted(addresses, key=lambda address: address.step, reverse=True)[:MAX_LOOKED_AT]
