"""Files on a volume that outlives the attempt, by their content: what a retry need not fetch from the bucket.

Nothing on it is believed: a file is hashed while it is copied, and one that is not what its name says is deleted.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from pathlib import Path

from podtune.storage.checkpoint.local_tree import LocalTree
from podtune.storage.checkpoint.manifest import CheckpointManifest, ManifestFile, digest_of_chunks
from podtune.storage.content import PIECE
from podtune.storage.directory import Directory
from podtune.storage.parallel import run_all

FOLDER = "by-content"


class LocalCache:
    """A directory of files that are named by their content."""

    def __init__(self, directory: Path) -> None:
        self._directory = Directory(directory, (FOLDER,))

    def fetch(self, file: ManifestFile, target: int) -> bool:
        """See `LocalSource.fetch`."""
        try:
            with self._directory.open_file(_format_name(file)) as source:
                is_right = _copy(source, target, file)
            if not is_right:
                self._directory.unlink(_format_name(file))
        except OSError:
            return False  # it is not there, or can't be read: the bucket has it
        return is_right

    def keep(self, tree: LocalTree, manifest: CheckpointManifest) -> int:
        """Takes a checkpoint's files in, and lets go of all that belongs to other checkpoints; returns bytes copied.

        Raises:
            UnusableTree: The directory is not what it was.
            OSError: The volume is full, or broken.
        """
        self._directory.make(0o700)
        self._delete_all_but({_format_name(file) for file in manifest.files})  # first: there may be room for one only
        held = set(self._directory.list())
        missing = {_format_name(file): file for file in manifest.files if _format_name(file) not in held}
        run_all((lambda file=file: self._take(tree, file)) for file in missing.values())  # type: ignore[misc]
        return sum(file.size for file in missing.values())

    def _take(self, tree: LocalTree, file: ManifestFile) -> None:
        unfinished = f".{_format_name(file)}"
        with tree.open(file.path) as source, self._directory.make_file(unfinished, 0o600) as copy:
            is_right = _copy(source.fileno(), copy, file)
        if is_right:
            self._directory.rename(unfinished, _format_name(file))
        else:
            self._directory.unlink(unfinished)

    def _delete_all_but(self, names: Collection[str]) -> None:
        for name in self._directory.list():
            if name not in names:
                self._directory.unlink(name)


def _format_name(file: ManifestFile) -> str:
    """Files that were hashed in chunks have a SHA-256 of their own kind."""
    return f"{file.sha256}-{file.size}-{file.chunk_size}"


def _copy(source: int, target: int, file: ManifestFile) -> bool:
    """Copies a file, and returns whether it is what the manifest says."""
    chunk_size = file.chunk_size or max(1, file.size)
    digests: list[str] = []
    buffer = memoryview(bytearray(PIECE))
    position = 0
    while position < file.size:
        end = min(file.size, position + chunk_size)
        digest = hashlib.sha256()
        while position < end:
            size = os.preadv(source, [buffer[: end - position]], position)
            if not size:
                return False
            digest.update(buffer[:size])
            os.pwrite(target, buffer[:size], position)
            position += size
        digests.append(digest.hexdigest())
    whole = digest_of_chunks(digests) if file.chunks else (digests or [hashlib.sha256().hexdigest()])[0]
    return whole == file.sha256
