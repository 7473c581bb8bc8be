"""Whether a checkpoint in a store is whole: every hash is checked, and nothing is kept."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence

from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage.checkpoint.address import CheckpointAddress
from podtune.storage.checkpoint.download import read_file
from podtune.storage.checkpoint.manifest import (
    MAX_MANIFEST_BYTES,
    CheckpointManifest,
    InvalidManifest,
    ManifestFile,
    digest_of,
    parse_manifest,
)
from podtune.storage.errors import NotFound
from podtune.storage.object_store import ReadableStore
from podtune.storage.parallel import run_all


def read_committed_manifest(
    store: ReadableStore, address: CheckpointAddress, committed: CheckpointRef
) -> CheckpointManifest:
    """Reads a checkpoint's manifest, held to the digest that was committed.

    Raises:
        InvalidManifest: It is missing, or is not the one that was committed.
        StoreError: The store can't be asked.
    """
    try:
        data = store.get_bytes(address.manifest, MAX_MANIFEST_BYTES)
    except NotFound as error:
        raise InvalidManifest("its manifest is missing: it was deleted, or never stored") from error
    if digest_of(data) != committed.digest:
        raise InvalidManifest("its manifest is not the one that was committed")
    return parse_manifest(data)


def find_damaged_files(store: ReadableStore, address: CheckpointAddress, manifest: CheckpointManifest) -> list[str]:
    """Reads all files of a checkpoint; says of each that is missing or damaged what is wrong, by its path.

    Raises:
        StoreError: The store can't be asked.
    """
    damaged: dict[str, str] = {}
    lock = threading.Lock()

    def check(file: ManifestFile) -> None:
        problem = _find_damage(store, address, file)
        if problem:
            with lock:
                damaged[file.path] = problem

    run_all(lambda file=file: check(file) for file in manifest.files)  # type: ignore[misc]
    return [f"{path} {damaged[path]}" for path in sorted(damaged)]


def _find_damage(store: ReadableStore, address: CheckpointAddress, file: ManifestFile) -> str:
    chunks = [(file.count_chunk_bytes(number), sha256) for number, sha256 in enumerate(file.chunks)]
    try:
        is_whole = _matches(_read(store, address, file), chunks or [(file.size, file.sha256)])
    except NotFound:
        return "is missing"
    return "" if is_whole else "is damaged: its size or its SHA-256 is not what the manifest says"


def _read(store: ReadableStore, address: CheckpointAddress, file: ManifestFile) -> Iterator[bytes]:
    """The file's content; of an object of its own all that is there, for it may be too long."""
    if file.size and not file.object and not file.split:
        return store.get(address.find_object(file))
    return read_file(store, address, file)


def _matches(content: Iterator[bytes], chunks: Sequence[tuple[int, str]]) -> bool:
    """Whether a stream is made of chunks of just these sizes and hashes, and nothing more."""
    expected = iter(chunks)
    (left, sha256), digest = next(expected), hashlib.sha256()
    for piece in content:
        rest = memoryview(piece)
        while rest:
            if not left:
                if digest.hexdigest() != sha256 or (following := next(expected, None)) is None:
                    return False
                (left, sha256), digest = following, hashlib.sha256()
            digest.update(rest[:left])
            taken = min(left, len(rest))
            left, rest = left - taken, rest[taken:]
    return not left and digest.hexdigest() == sha256 and next(expected, None) is None
