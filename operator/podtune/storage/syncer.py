"""Storing a checkpoint: its data first, in no particular order, and when all of it is there, the manifest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO

from podtune.storage.address import CheckpointAddress
from podtune.storage.errors import NotFound
from podtune.storage.local_tree import LocalFile, LocalTree, UnusableTree
from podtune.storage.manifest import MAX_BYTES, Manifest, ManifestFile, digest_of
from podtune.storage.object_store import ObjectStore

WORKERS = 6
SMALL = 4 << 20
"""Files up to this size are stored side by side, larger ones one by one, each in several parts at once: so memory is
bounded by `WORKERS` times this."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What is known of a checkpoint besides its files.

    Attributes:
        attempt: Id of the attempt that took it.
        step: `step` of its result.
        iteration: Iterations of the trial up to it.
        metric: Value of the objective's metric with it, written.
    """

    attempt: str
    step: int
    iteration: int
    metric: str


def upload_checkpoint(store: ObjectStore, tree: LocalTree, address: CheckpointAddress, taken: Taken) -> str:
    """Stores a checkpoint, and returns its manifest's digest. It may be repeated: the same files give the same digest.

    Raises:
        UnusableTree: The directory holds what can't be stored, or was changed meanwhile.
        StoreError: The store can't take it now, or at all.
        OSError: A file can't be read.
    """
    files = tree.files()
    manifest = Manifest(
        attempt=taken.attempt,
        step=taken.step,
        iteration=taken.iteration,
        metric=taken.metric,
        created=datetime.fromtimestamp(tree.modified, UTC).isoformat(),
        files=_upload_files(store, tree, address, files),
    )
    data = manifest.to_bytes()
    store.put_bytes(address.manifest, data)
    return digest_of(data)


def stored_digest(store: ObjectStore, address: CheckpointAddress) -> str | None:
    """The digest of a checkpoint that was stored before; None where there is none.

    Raises:
        StoreError: The store can't be asked.
    """
    try:
        return digest_of(store.get_bytes(address.manifest, MAX_BYTES))
    except NotFound:
        return None


def upload_file(store: ObjectStore, tree: LocalTree, path: str, key: str) -> None:
    """Stores one file by itself, such as an attempt's results.

    Raises:
        UnusableTree: It is missing, or no regular file.
        StoreError: The store can't take it now, or at all.
        OSError: It can't be read.
    """
    with tree.open(path) as stream:
        store.put(key, stream, os.fstat(stream.fileno()).st_size)


def _upload_files(
    store: ObjectStore, tree: LocalTree, address: CheckpointAddress, files: Iterable[LocalFile]
) -> tuple[ManifestFile, ...]:
    files = tuple(files)
    small = [file for file in files if file.size <= SMALL]
    done: dict[str, ManifestFile] = {}
    with ThreadPoolExecutor(max(1, min(WORKERS, len(small))), thread_name_prefix="upload") as pool:
        futures = [pool.submit(_upload_file, store, tree, address, file) for file in small]
        wait(futures, return_when=FIRST_EXCEPTION)
        pool.shutdown(cancel_futures=True)  # nothing is, unless one has failed, which result() then raises
        done.update((future.result().path, future.result()) for future in futures if not future.cancelled())
    for file in files:
        if file.path not in done:
            done[file.path] = _upload_file(store, tree, address, file)
    return tuple(done[file.path] for file in files)


def _upload_file(store: ObjectStore, tree: LocalTree, address: CheckpointAddress, file: LocalFile) -> ManifestFile:
    with tree.open(file.path) as stream:
        source = _HashingReader(stream, file)
        store.put(address.data(file.path), source, file.size)
    return ManifestFile(file.path, file.size, source.sha256)


class _HashingReader:
    """Hashes what is read, and fails at the end where it was not what had been announced."""

    def __init__(self, stream: BinaryIO, file: LocalFile) -> None:
        self._stream = stream
        self._file = file
        self._hash = hashlib.sha256()
        self._size = 0

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._hash.update(data)
        self._size += len(data)
        if self._size > self._file.size or (not data and size != 0 and self._size < self._file.size):
            raise UnusableTree(
                f"{self._file.path} was changed while it was stored; write each checkpoint to a directory of its own"
            )
        return data
