"""An index of a trial's files in the bucket by content: nothing is stored twice, nothing deleted that is needed."""

from __future__ import annotations

from dataclasses import replace

from podtune.storage.checkpoint.address import CheckpointAddress
from podtune.storage.checkpoint.manifest import (
    MAX_MANIFEST_BYTES,
    CheckpointManifest,
    InvalidManifest,
    ManifestFile,
    UnknownVersion,
    parse_manifest,
)
from podtune.storage.errors import NotFound, RequestRejected
from podtune.storage.object_store import ReadableStore


class ContentIndex:
    """The manifests of a trial's checkpoints that are in the bucket. Not thread-safe while it is changed.

    A checkpoint that was deleted is forgotten, but what later ones refer to of it is still there, and known by them.
    """

    def __init__(self, trial_prefix: str) -> None:
        """Knows nothing yet; all keys of the trial start with `trial_prefix`."""
        self._prefix = trial_prefix
        self._manifests: dict[CheckpointAddress, CheckpointManifest] = {}
        self._by_content: dict[tuple[int, str], ManifestFile] | None = None
        self._by_size: dict[int, list[ManifestFile]] = {}

    def add(self, address: CheckpointAddress, manifest: CheckpointManifest) -> None:
        """Learns of a checkpoint that was stored."""
        self._manifests[address] = manifest
        self._by_content = None

    def get(self, address: CheckpointAddress) -> CheckpointManifest | None:
        """The manifest of a checkpoint; None where it is not known."""
        return self._manifests.get(address)

    def forget(self, address: CheckpointAddress) -> None:
        """Learns that a checkpoint was deleted."""
        if self._manifests.pop(address, None) is not None:
            self._by_content = None

    def forget_all_but(self, address: CheckpointAddress) -> None:
        """Learns that only this checkpoint is sure to be there."""
        for other in self._manifests.keys() - {address}:
            self.forget(other)

    def load(self, store: ReadableStore, address: CheckpointAddress) -> None:
        """Looks a checkpoint up that another process has stored; nothing happens where it is known, or is not there.

        A damaged one needs nothing: it can't be restored any more.

        Raises:
            StoreError: The store can't be asked, or a newer program has stored it.
        """
        if address in self._manifests:
            return
        try:
            self.add(address, parse_manifest(store.get_bytes(address.manifest, MAX_MANIFEST_BYTES)))
        except NotFound:
            return
        except UnknownVersion as error:
            raise RequestRejected(f"{address.uri} can't be read: {error}; delete it, or use a newer agent") from error
        except InvalidManifest:
            return

    def find(self, size: int, sha256: str) -> ManifestFile | None:
        """A file with this content; its `object` and `offset` say where it lies."""
        return self._index().get((size, sha256))

    def may_hold(self, size: int, chunk_size: int, first_chunk: str) -> bool:
        """Whether there is a file of this size whose first chunk has this SHA-256."""
        self._index()
        return any(
            file.chunk_size == chunk_size and file.chunks[:1] == (first_chunk,) for file in self._by_size.get(size, ())
        )

    def has_size(self, size: int) -> bool:
        """Whether there is a file of this size."""
        self._index()
        return size in self._by_size

    def list_references(self) -> frozenset[str]:
        """The keys of all objects that the known checkpoints need."""
        return frozenset(
            key
            for address, manifest in self._manifests.items()
            for file in manifest.files
            for key in address.list_objects(file)
        )

    def prepare(self) -> None:
        """Makes `find` and its like safe to be called by several threads, until the next change."""
        self._index()

    def _index(self) -> dict[tuple[int, str], ManifestFile]:
        if self._by_content is None:
            by_content: dict[tuple[int, str], ManifestFile] = {}
            self._by_size = {}
            for address, manifest in self._manifests.items():
                for file in manifest.files:
                    key = address.find_object(file).removeprefix(self._prefix)
                    found = replace(file, object=key)
                    by_content.setdefault(file.content, found)
                    self._by_size.setdefault(file.size, []).append(found)
            self._by_content = by_content
        return self._by_content
