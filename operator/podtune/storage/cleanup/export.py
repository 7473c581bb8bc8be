"""Exports a checkpoint to a fixed address, from which it can be served after its experiment is gone.

An export is a checkpoint like any other, with a model card beside the manifest: `restoreFrom` and the agent read it. It
holds all of its data itself, where a trial's checkpoints may share theirs. The store copies what it can by itself; in
any case everything is read back from there, and held to the hashes that were committed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from podtune.storage.checkpoint.address import DATA, CheckpointAddress
from podtune.storage.checkpoint.download import CorruptCheckpoint, read_file
from podtune.storage.checkpoint.manifest import (
    MAX_MANIFEST_BYTES,
    CheckpointManifest,
    ManifestFile,
    digest_of,
    parse_manifest,
)
from podtune.storage.content import PieceReader
from podtune.storage.errors import AccessDenied, NotFound, RequestRejected, StoreError
from podtune.storage.object_store import ObjectStore
from podtune.storage.parallel import run_all

CARD = "model-card.json"
MAX_CARD = 1 << 20
LARGEST_COPY = 1 << 30
"""Bytes that a store is asked to copy by itself: more may take it longer than an answer is waited for."""


class NotOurs(StoreError):
    """The destination holds what somebody else has exported."""


@dataclass(frozen=True, slots=True)
class Exported:
    """An export that is whole.

    Attributes:
        uri: Where it is.
        digest: `sha256:…` of its manifest.
        size: Bytes of its files.
    """

    uri: str
    digest: str
    size: int


class Exporter:
    """Copies checkpoints from a store to the same or another one."""

    def __init__(self, source: ObjectStore, target: ObjectStore, *, same_store: bool) -> None:
        self._source = source
        self._target = target
        self._can_copy = same_store

    def export(
        self, checkpoint: CheckpointAddress, digest: str, destination: CheckpointAddress, card: Mapping[str, Any]
    ) -> Exported:
        """Copies one checkpoint. It may be repeated: what is there already is left as it is.

        Args:
            checkpoint: Where it is.
            digest: Of the manifest that was committed.
            destination: Where it goes; an earlier export of this experiment, or of one of its name, is replaced there.
            card: What is to be known of it besides; its `experiment` says whose it is.

        Raises:
            CorruptCheckpoint: It is not what was committed.
            InvalidManifest: Its manifest can't be read.
            StoreError: The store can't do it now, or at all.
        """
        manifest = self._read_manifest(checkpoint, digest)
        exported = replace(
            manifest, files=tuple(replace(file, object="", offset=0, split=False) for file in manifest.files)
        )
        data = exported.to_bytes()
        whole_card = _build_card(card, checkpoint, digest, data, exported)
        done = Exported(destination.uri, digest_of(data), exported.size)
        if self._is_there(destination, data, whole_card, card):
            return done
        self._target.delete(
            [destination.manifest]
        )  # so that nobody takes the old one's manifest for the new one's data
        run_all(self._list_tasks(checkpoint, destination, manifest.files))
        self._target.put_bytes(f"{destination.root}/{CARD}", whole_card)
        self._target.put_bytes(destination.manifest, data)
        kept = {destination.data(file.path) for file in exported.files}
        self._target.delete([key for key in self._target.list(f"{destination.root}/{DATA}/") if key not in kept])
        return done

    def _read_manifest(self, checkpoint: CheckpointAddress, digest: str) -> CheckpointManifest:
        try:
            data = self._source.get_bytes(checkpoint.manifest, MAX_MANIFEST_BYTES)
        except NotFound as error:
            raise CorruptCheckpoint(f"the manifest of {checkpoint.uri} is missing") from error
        if digest_of(data) != digest:
            raise CorruptCheckpoint(f"the manifest of {checkpoint.uri} is not the one that was committed")
        return parse_manifest(data)

    def _is_there(self, destination: CheckpointAddress, manifest: bytes, card: bytes, facts: Mapping[str, Any]) -> bool:
        """Whether just this was exported before.

        Raises:
            NotOurs: Somebody else has exported something here.
        """
        before = self._read(f"{destination.root}/{CARD}", MAX_CARD)
        if before is None:
            return False
        owner, ours = _read_owner(before), facts.get("experiment", {})
        if (owner.get("namespace"), owner.get("name")) != (ours.get("namespace"), ours.get("name")):
            raise NotOurs(
                f"{destination.uri} holds an export of experiment {owner.get('name')!r} of namespace "
                f"{owner.get('namespace')!r}; name another address in checkpoints.export.to, or delete it"
            )
        return before == card and self._read(destination.manifest, MAX_MANIFEST_BYTES) == manifest

    def _read(self, key: str, limit: int) -> bytes | None:
        try:
            return self._target.get_bytes(key, limit)
        except NotFound:
            return None

    def _list_tasks(
        self, checkpoint: CheckpointAddress, destination: CheckpointAddress, files: Iterable[ManifestFile]
    ) -> Iterator[Any]:
        for file in files:
            yield lambda file=file: self._copy(checkpoint, destination.data(file.path), file)

    def _copy(self, checkpoint: CheckpointAddress, key: str, file: ManifestFile) -> None:
        if not (self._is_object_of_its_own(file) and self._try_copy(checkpoint.find_object(file), key)):
            self._target.put(key, PieceReader(read_file(self._source, checkpoint, file)), file.size)
        check = _Check(file)
        for piece in self._target.get(key):
            check.take(piece)
        if not check.holds:
            self._target.delete([key])
            raise CorruptCheckpoint(f"{file.path} of {checkpoint.uri} is damaged: it is not what its manifest says")

    def _is_object_of_its_own(self, file: ManifestFile) -> bool:
        if not self._can_copy or file.split or file.size > LARGEST_COPY:
            return False
        return not file.object or (file.offset == 0 and f"/{DATA}/" in file.object)

    def _try_copy(self, key: str, to: str) -> bool:
        """Has the store copy an object by itself, if it can."""
        try:
            self._target.copy(key, to)
        except NotFound as error:
            raise CorruptCheckpoint(f"{key} is missing") from error
        except (RequestRejected, AccessDenied):
            self._can_copy = False
            return False
        return True


def _build_card(
    facts: Mapping[str, Any], checkpoint: CheckpointAddress, digest: str, manifest: bytes, exported: CheckpointManifest
) -> bytes:
    """The model card: the same checkpoint always gives the same bytes."""
    body = {
        **facts,
        "checkpoint": {"uri": checkpoint.uri, "digest": digest, "attempt": exported.attempt, "taken": exported.created},
        "manifest": digest_of(manifest),
        "files": len(exported.files),
        "bytes": exported.size,
    }
    return json.dumps(body, indent=2, ensure_ascii=False).encode() + b"\n"


def _read_owner(card: bytes) -> Mapping[str, Any]:
    try:
        owner = json.loads(card)["experiment"]
    except (ValueError, LookupError, TypeError, RecursionError):
        owner = {}
    return owner if isinstance(owner, Mapping) else {}


class _Check:
    """Hashes a file as its manifest does, whole or in chunks."""

    def __init__(self, file: ManifestFile) -> None:
        self._file = file
        self._size = 0
        self._hash = hashlib.sha256()
        self._chunks: list[str] = []

    def take(self, piece: bytes) -> None:
        chunk = self._file.chunk_size if self._file.chunks else 0
        while piece:
            room = chunk - self._size % chunk if chunk else len(piece)
            self._hash.update(piece[:room])
            self._size += len(piece[:room])
            piece = piece[room:]
            if chunk and self._size % chunk == 0:
                self._end_chunk()

    def _end_chunk(self) -> None:
        self._chunks.append(self._hash.hexdigest())
        self._hash = hashlib.sha256()

    @property
    def holds(self) -> bool:
        """Whether all that was taken is the file."""
        if self._size != self._file.size:
            return False
        if not self._file.chunks:
            return self._hash.hexdigest() == self._file.sha256
        if self._size % self._file.chunk_size:
            self._end_chunk()
        return tuple(self._chunks) == self._file.chunks
