"""Sharded checkpoints: each rank stores its files and then its shard; rank 0 commits the whole when all are there.

The ranks tell each other through the bucket: a shard is the manifest of one rank's files, stored after them. All of it
lies below the attempt's prefix, so ranks of an attempt that is over can't get in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from podtune.storage.checkpoint.address import CheckpointAddress
from podtune.storage.checkpoint.manifest import (
    MAX_MANIFEST_BYTES,
    CheckpointManifest,
    InvalidManifest,
    ManifestFile,
    parse_manifest,
)
from podtune.storage.errors import NotFound, StoreError
from podtune.storage.object_store import ObjectStore

_PATIENCE = 30.0
"""Seconds that rank 0 waits for the others before it says so; after that it tries again."""
FIRST_LOOK = 0.1
LONGEST_LOOK = 2.0
REMEDY = "have each rank report a checkpoint with the same step, or set checkpoints.ranks to RankZero"


class ShardsMissing(StoreError):
    """Not all ranks have stored their shards yet."""

    permanent = False


class ShardsConflict(StoreError):
    """Two ranks have written different things to the same path."""


class Commit(Protocol):
    """Makes a checkpoint count whose files are stored."""

    def __call__(
        self, store: ObjectStore, address: CheckpointAddress, manifest: CheckpointManifest
    ) -> CheckpointManifest:
        """Stores a manifest, and returns the one that was stored.

        Raises:
            StoreError: It can't be stored now, or at all.
        """


def commit_alone(store: ObjectStore, address: CheckpointAddress, manifest: CheckpointManifest) -> CheckpointManifest:
    """Commits a checkpoint that has no other shards."""
    store.put_bytes(address.manifest, manifest.to_bytes())
    return manifest


class StoreShard:
    """What a rank above 0 does: its shard is there for rank 0 to find."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def __call__(
        self, store: ObjectStore, address: CheckpointAddress, manifest: CheckpointManifest
    ) -> CheckpointManifest:
        """See `Commit`."""
        store.put_bytes(address.shard(self._rank), manifest.to_bytes())
        return manifest


class GatherShards:
    """What rank 0 does: it waits for the shards of all others, and commits the whole."""

    def __init__(
        self,
        replicas: int,
        *,
        patience: float = _PATIENCE,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepares gathering; after `patience` seconds the other ranks are said to be missing."""
        self._ranks = range(1, replicas)
        self._patience = patience
        self._clock = clock
        self._sleep = sleep

    def __call__(
        self, store: ObjectStore, address: CheckpointAddress, manifest: CheckpointManifest
    ) -> CheckpointManifest:
        """See `Commit`.

        Raises:
            ShardsMissing: Some ranks have not stored theirs yet; it may be tried again.
            ShardsConflict: Two ranks have written different things to the same path.
            StoreError: The store can't be asked.
        """
        end, look = self._clock() + self._patience, FIRST_LOOK
        shards: dict[int, CheckpointManifest] = {}
        while missing := [rank for rank in self._ranks if rank not in shards]:
            for rank in missing:
                shard = _shard(store, address, rank, manifest)
                if shard is not None:
                    shards[rank] = shard
            if len(shards) < len(self._ranks):
                if self._clock() >= end:
                    raise ShardsMissing(
                        _describe_missing([rank for rank in self._ranks if rank not in shards], manifest)
                    )
                self._sleep(look)
                look = min(2 * look, LONGEST_LOOK)
        return commit_alone(store, address, _merge(manifest, shards))


def _shard(
    store: ObjectStore, address: CheckpointAddress, rank: int, own: CheckpointManifest
) -> CheckpointManifest | None:
    """The shard of a rank; None where it is not there, or can't be one of this checkpoint."""
    try:
        shard = parse_manifest(store.get_bytes(address.shard(rank), MAX_MANIFEST_BYTES))
    except (NotFound, InvalidManifest):
        return None
    return shard if (shard.attempt, shard.step) == (own.attempt, own.step) else None


def _merge(own: CheckpointManifest, shards: dict[int, CheckpointManifest]) -> CheckpointManifest:
    files: dict[str, tuple[int, ManifestFile]] = {file.path: (0, file) for file in own.files}
    for rank, shard in sorted(shards.items()):
        for file in shard.files:
            other, known = files.setdefault(file.path, (rank, file))
            if known.content != file.content:
                raise ShardsConflict(
                    f"ranks {other} and {rank} have both written {file.path!r}, with different content; include "
                    "PODTUNE_RANK in the names of files that differ"
                )
    return replace(own, files=tuple(file for _, (_, file) in sorted(files.items())))


def _describe_missing(ranks: list[int], manifest: CheckpointManifest) -> str:
    named = ", ".join(map(str, ranks[:8])) + (", …" if len(ranks) > 8 else "")
    return f"no shard of the checkpoint of step {manifest.step} has come from rank {named} yet; {REMEDY}"
