"""Getting a checkpoint back: only whole, and if not this one, then the one before."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from podtune.storage.address import CheckpointAddress
from podtune.storage.backoff import Backoff
from podtune.storage.errors import NotFound, StoreError, StoreSettingsError, Unreachable
from podtune.storage.manifest import MAX_BYTES, Manifest, ManifestError, ManifestFile, digest_of, parse_manifest
from podtune.storage.object_store import ObjectStore

WORKERS = 6
_T = TypeVar("_T")


class CorruptCheckpoint(Exception):
    """What is in the bucket is not what was committed; the message says what differs."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint that may be restored.

    Attributes:
        uri: Where it is.
        digest: `sha256:…` of the manifest that was committed.
        step: Its step.
    """

    uri: str
    digest: str
    step: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a restore.

    Attributes:
        candidate: What was restored; None for a fresh start.
        manifest: Its manifest.
        message: What went wrong on the way; empty when nothing did.
    """

    candidate: Candidate | None
    manifest: Manifest | None
    message: str


class Restorer:
    """Restores the first of several checkpoints that is whole.

    A store that does not answer is asked again until patience is at an end. What is missing or damaged stays so: then
    the next one is tried, and after the last a fresh start is the outcome, never an error.
    """

    def __init__(
        self,
        store: ObjectStore,
        bucket: str,
        *,
        backoff: Backoff,
        patience: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        """Prepares a restore.

        Args:
            store: Where the checkpoints are.
            bucket: Name of the store's bucket: others can't be reached through it.
            backoff: Waits between two tries.
            patience: Seconds after which a store that does not answer is given up.
            clock: Monotonic time in seconds.
            sleep: Waits.
        """
        self._store = store
        self._bucket = bucket
        self._backoff = backoff
        self._give_up_at = clock() + patience
        self._clock = clock
        self._sleep = sleep

    def restore(self, candidates: Sequence[Candidate], directory: Path) -> Outcome:
        """Restores into `directory`, which is there afterwards only if something was restored.

        Args:
            candidates: The one to try first at the front.
            directory: Does not have to exist; what it holds is deleted.

        Raises:
            OSError: The directory can't be emptied.
        """
        problems: list[str] = []
        for candidate in candidates:
            _remove(directory)
            try:
                manifest = self._restore_one(candidate, directory)
            except (CorruptCheckpoint, ManifestError, StoreError, OSError) as error:
                problems.append(f"step {candidate.step} was not restored: {error}")
                continue
            return Outcome(candidate, manifest, "; ".join(problems))
        _remove(directory)
        return Outcome(None, None, "; ".join(problems))

    def _restore_one(self, candidate: Candidate, directory: Path) -> Manifest:
        address = CheckpointAddress.from_uri(candidate.uri)
        if address.bucket != self._bucket:
            raise StoreSettingsError(f"it is in bucket {address.bucket!r}, the store's bucket is {self._bucket!r}")
        manifest = self._patiently(lambda: self._fetch_manifest(candidate, address))
        unfinished = directory.with_name(f".{directory.name}")
        _remove(unfinished)
        download = Download(self._store, address, manifest, unfinished)
        try:
            self._patiently(download.run)
            unfinished.rename(directory)
        finally:
            _remove(unfinished)
        return manifest

    def _fetch_manifest(self, candidate: Candidate, address: CheckpointAddress) -> Manifest:
        try:
            data = self._store.get_bytes(address.manifest, MAX_BYTES)
        except NotFound as error:
            raise CorruptCheckpoint("its manifest is missing") from error
        if digest_of(data) != candidate.digest:
            raise CorruptCheckpoint(f"its manifest is not the one that was committed: {digest_of(data)}")
        return parse_manifest(data)

    def _patiently(self, attempt: Callable[[], _T]) -> _T:
        while True:
            try:
                return attempt()
            except Unreachable:
                wait_for = self._backoff.next()
                if self._clock() + wait_for > self._give_up_at:
                    raise
                self._sleep(wait_for)


class Download:
    """The files of one checkpoint on their way; `run` goes on where it failed before."""

    def __init__(self, store: ObjectStore, address: CheckpointAddress, manifest: Manifest, directory: Path) -> None:
        self._store = store
        self._address = address
        self._directory = directory
        self._missing = {file.path: file for file in manifest.files}

    def run(self) -> None:
        """Fetches what is missing, and checks it. Everyone may read the result.

        Raises:
            CorruptCheckpoint: A file is missing or is not what the manifest says.
            StoreError: The store can't be asked.
            OSError: The files can't be written.
        """
        _make_directory(self._directory)
        for parent in sorted({parent for path in self._missing for parent in Path(path).parents}):
            _make_directory(self._directory / parent)
        files = list(self._missing.values())
        with ThreadPoolExecutor(max(1, min(WORKERS, len(files))), thread_name_prefix="restore") as pool:
            futures = [pool.submit(self._fetch, file) for file in files]
            wait(futures, return_when=FIRST_EXCEPTION)
            pool.shutdown(cancel_futures=True)
            for future in futures:
                if not future.cancelled():
                    future.result()

    def _fetch(self, file: ManifestFile) -> None:
        digest = hashlib.sha256()
        size = 0
        try:
            with (self._directory / file.path).open("wb") as stream:
                os.fchmod(stream.fileno(), 0o644)
                for piece in self._store.get(self._address.data(file.path)):
                    digest.update(piece)
                    size += len(piece)
                    if size > file.size:
                        break
                    stream.write(piece)
        except NotFound as error:
            raise CorruptCheckpoint(f"{file.path} is missing") from error
        if size != file.size or digest.hexdigest() != file.sha256:
            raise CorruptCheckpoint(f"{file.path} is damaged: its size or its SHA-256 is not what the manifest says")
        del self._missing[file.path]


def _make_directory(path: Path) -> None:
    path.mkdir(exist_ok=True)
    path.chmod(0o755)  # whatever the umask


def _remove(directory: Path) -> None:
    if directory.is_symlink() or directory.is_file():
        directory.unlink()
    elif directory.exists():
        shutil.rmtree(directory)
