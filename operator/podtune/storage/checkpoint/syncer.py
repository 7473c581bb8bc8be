"""Storing a checkpoint: its data first, in no particular order, and when all of it is there, the manifest."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from podtune.storage.cancel import CancelToken
from podtune.storage.checkpoint.address import CheckpointAddress
from podtune.storage.checkpoint.content_index import ContentIndex
from podtune.storage.checkpoint.file_upload import UploadContext, upload_files
from podtune.storage.checkpoint.local_tree import LocalFile, LocalTree, build_matcher
from podtune.storage.checkpoint.manifest import MAX_MANIFEST_BYTES, CheckpointManifest, ManifestFile, digest_of
from podtune.storage.checkpoint.shards import Commit, commit_alone
from podtune.storage.errors import NotFound
from podtune.storage.object_store import ObjectStore, ReadableStore


@dataclass(frozen=True, slots=True)
class Options:
    """How checkpoints are stored.

    Attributes:
        packs: Whether small files are put together in larger objects, and large ones split into smaller ones.
        reuses: Whether what the trial has in the bucket already is referred to, and not stored again.
        exclude: Patterns of files that are left out.
        writer: Tells those apart that each store a shard of one checkpoint.
    """

    packs: bool = False
    reuses: bool = True
    exclude: tuple[str, ...] = ()
    writer: int = 0


DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """What is known of a checkpoint besides its files.

    Attributes:
        metric: Value of the objective's metric with it, written.
        time_total: Seconds of training of the trial up to it.
        configuration: Digest of what it was trained with; empty where that is not known.
    """

    attempt: str
    step: int
    iteration: int
    metric: str
    time_total: float = 0.0
    configuration: str = ""


def upload_checkpoint(
    store: ObjectStore,
    tree: LocalTree,
    address: CheckpointAddress,
    info: CheckpointInfo,
    *,
    options: Options = DEFAULTS,
    content_index: ContentIndex | None = None,
    cancel_token: CancelToken | None = None,
    done: dict[LocalFile, ManifestFile] | None = None,
    commit: Commit = commit_alone,
) -> str:
    """Stores a checkpoint, and returns its manifest's digest. It may be repeated: the same files give the same digest.

    Args:
        store: The bucket.
        tree: The checkpoint's directory.
        address: Where it goes in the bucket.
        info: What is known of it besides its files.
        options: How it is stored.
        content_index: What the trial has in the bucket; it learns of this checkpoint.
        cancel_token: Says when to give up.
        done: The files that an earlier try has stored; it learns of those that this one stores.
        commit: Stores the manifest.

    Raises:
        UnusableTree: The directory holds what can't be stored, or was changed meanwhile.
        StoreError: The store can't take it now, or at all.
        OSError: A file can't be read.
    """
    content_index = ContentIndex(address.trial_prefix) if content_index is None else content_index
    context = UploadContext(
        store,
        address,
        content_index if options.reuses else ContentIndex(address.trial_prefix),
        cancel_token or CancelToken(time.monotonic),
        options.packs,
        {} if done is None else done,
        options.writer,
    )
    manifest = CheckpointManifest(
        attempt=info.attempt,
        step=info.step,
        iteration=info.iteration,
        metric=info.metric,
        created=datetime.fromtimestamp(tree.modified, UTC).isoformat(),
        files=upload_files(context, tree, tree.list_files(build_matcher(options.exclude))),
        time_total=info.time_total,
        configuration=info.configuration,
    )
    committed = commit(store, address, manifest)
    content_index.add(address, committed)
    return digest_of(committed.to_bytes())


def read_stored_digest(store: ReadableStore, address: CheckpointAddress) -> str | None:
    """The digest of a checkpoint that was stored before; None where there is none.

    Raises:
        StoreError: The store can't be asked.
    """
    try:
        return digest_of(store.get_bytes(address.manifest, MAX_MANIFEST_BYTES))
    except NotFound:
        return None
