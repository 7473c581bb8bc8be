"""The files of one checkpoint on their way from the bucket.

Large files come in chunks, side by side, each written to its offset and held to its own hash; files that lie next to
each other in one object come in one request. So memory is bounded, whatever the checkpoint's size.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath
from typing import Protocol

from podtune.storage.checkpoint.address import CheckpointAddress
from podtune.storage.checkpoint.manifest import CheckpointManifest, ManifestFile
from podtune.storage.content import Bytes
from podtune.storage.directory import Directory
from podtune.storage.errors import NotFound
from podtune.storage.object_store import ReadableStore
from podtune.storage.parallel import run_all

RUN = 4 << 20
"""Files of a pack are fetched together up to this size, and held in memory for it."""


class CorruptCheckpoint(Exception):
    """What is in the bucket is not what was committed; the message says what differs."""


class CheckpointTooLarge(OSError):
    """A checkpoint claims more bytes than there is room for; nothing of it was fetched."""


class LocalSource(Protocol):
    """Where files may be had without asking the bucket."""

    def fetch(self, file: ManifestFile, target: int) -> bool:
        """Writes to an open file; returns whether it is the one that is wanted now, and else of no use."""


class Download:
    """Fetches and checks all files; `run` goes on where it failed before."""

    def __init__(
        self,
        store: ReadableStore,
        address: CheckpointAddress,
        manifest: CheckpointManifest,
        directory: Directory,
        *,
        local: LocalSource | None = None,
        checked: Callable[[], None] = lambda: None,
    ) -> None:
        """Fetches nothing yet.

        Args:
            store: Where the checkpoint is.
            address: Where it is in there.
            manifest: Its files.
            directory: Where they go; it does not exist yet.
            local: Where some may be had without the store.
            checked: Called again and again; raises where nothing more is to be fetched.
        """
        self._source = _Source(store, address, directory, checked)
        self._directory = directory
        self._local = local
        self.manifest = manifest
        self._files = manifest.files
        self._missing: list[_Piece] | None = None
        self.local_bytes = 0

    def run(self) -> None:
        """Fetches what is missing, and checks it. Everyone may read the result.

        Raises:
            CorruptCheckpoint: A file is missing or is not what the manifest says.
            CheckpointTooLarge: There is no room for it.
            StoreError: The store can't be asked.
            OSError: The files can't be written.
        """
        if self._missing is None:
            self._prepare()
            self._missing = list(_list_pieces(self._take_local()))
        done: set[int] = set()
        pieces = self._missing

        def fetch(number: int) -> None:
            _fetch(self._source, pieces[number])
            done.add(number)

        try:
            run_all(lambda number=number: fetch(number) for number in range(len(pieces)))  # type: ignore[misc]
        finally:
            self._missing = [piece for number, piece in enumerate(pieces) if number not in done]

    def _prepare(self) -> None:
        folders = {folder for file in self._files for folder in PurePosixPath(file.path).parents}
        self._directory.make(0o755)  # a checkpoint may be without files
        self._check_room()
        for folder in sorted(folders.difference({PurePosixPath()})):
            self._directory.join(*folder.parts).make(0o755)
        for file in self._files:
            parent, name = self._directory.split(file.path)
            with parent.make_file(name) as stream:
                os.ftruncate(stream, file.size)

    def _check_room(self) -> None:
        """Checks that all files fit: a manifest may name one object a hundred thousand times, or claim any size.

        Else they would fill the node's disk, and take other pods with them, until the kubelet evicts this one.
        """
        with self._directory.open_descriptor() as opened:
            system = os.fstatvfs(opened)
        free, size = system.f_bavail * system.f_frsize, self.manifest.size
        if system.f_blocks and size > free:
            raise CheckpointTooLarge(f"it has {size:,} bytes, and there is room for {free:,}; free disk space")

    def _take_local(self) -> list[ManifestFile]:
        """Takes what is at hand locally; returns the others."""
        local = self._local
        if local is None:
            return list(self._files)
        local_paths: set[str] = set()

        def take(file: ManifestFile) -> None:
            with _open(self._directory, file.path) as target:
                if local.fetch(file, target):
                    local_paths.add(file.path)

        run_all(lambda file=file: take(file) for file in self._files)  # type: ignore[misc]
        self.local_bytes = sum(file.size for file in self._files if file.path in local_paths)
        return [file for file in self._files if file.path not in local_paths]


@dataclass(frozen=True, slots=True)
class _Source:
    store: ReadableStore
    address: CheckpointAddress
    directory: Directory
    checked: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Whole:
    """A file that comes in one stream."""

    file: ManifestFile

    def fetch(self, source: _Source) -> Iterator[ManifestFile]:
        file = self.file
        if file.size == 0:
            return
        size = file.size if file.object else None  # an object of its own is asked for whole: it may be too long
        pieces = source.store.get(source.address.find_object(file), file.offset, size)
        if not _write(source, _Destination(file.path, 0, file.size, file.sha256), pieces):
            yield file

    def find_key(self, address: CheckpointAddress) -> str:
        return address.find_object(self.file)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A chunk of a large file."""

    file: ManifestFile
    number: int

    def fetch(self, source: _Source) -> Iterator[ManifestFile]:
        file, size = self.file, self.file.count_chunk_bytes(self.number)
        key, first = source.address.find_chunk(file, self.number)
        destination = _Destination(file.path, self.number * file.chunk_size, size, file.chunks[self.number])
        if not _write(source, destination, source.store.get(key, first, size)):
            yield file

    def find_key(self, address: CheckpointAddress) -> str:
        return address.find_chunk(self.file, self.number)[0]


@dataclass(frozen=True, slots=True)
class _Run:
    """Files that lie next to each other in one object."""

    files: Sequence[ManifestFile]

    def fetch(self, source: _Source) -> Iterator[ManifestFile]:
        first, last = self.files[0], self.files[-1]
        size = last.offset + last.size - first.offset
        data = bytearray()
        for piece in source.store.get(source.address.find_object(first), first.offset, size) if size else ():
            data += piece
        for file in self.files:
            start = file.offset - first.offset
            content = memoryview(data)[start : start + file.size]
            if not _write(source, _Destination(file.path, 0, file.size, file.sha256), [content]):
                yield file

    @property
    def file(self) -> ManifestFile:
        return self.files[0]

    def find_key(self, address: CheckpointAddress) -> str:
        return address.find_object(self.file)


_Piece = _Whole | _Chunk | _Run


def _list_pieces(files: Iterable[ManifestFile]) -> Iterator[_Piece]:
    """The pieces of work, the largest first."""
    small: list[ManifestFile] = []
    for file in sorted(files, key=lambda file: -file.size):
        if file.chunks:
            yield from (_Chunk(file, number) for number in range(len(file.chunks)))
        elif file.object and file.size <= RUN:
            small.append(file)
        else:
            yield _Whole(file)
    run: list[ManifestFile] = []
    for file in sorted(small, key=lambda file: (file.object, file.offset, file.size)):
        if run and not _belongs(run, file):
            yield _Run(tuple(run))
            run = []
        run.append(file)
    if run:
        yield _Run(tuple(run))


def _belongs(run: Sequence[ManifestFile], file: ManifestFile) -> bool:
    """Whether a file is fetched along with those before it; the gap may be what others needed."""
    reach = file.offset + file.size - run[0].offset
    used = sum(other.size for other in run) + file.size
    return file.object == run[-1].object and reach <= min(RUN, 2 * used)


def _fetch(source: _Source, piece: _Piece) -> None:
    """Fetches a piece, and once more where it was damaged: that may have happened on the way."""
    source.checked()
    try:
        if not list(piece.fetch(source)):
            return
        damaged = list(piece.fetch(source))
    except NotFound as error:
        key = piece.find_key(source.address)
        if not source.store.exists(key):
            raise CorruptCheckpoint(f"{piece.file.path} is missing") from error
        damaged = [piece.file]  # it ends before this piece
    if damaged:
        raise CorruptCheckpoint(f"{damaged[0].path} is damaged: its size or its SHA-256 is not what the manifest says")


@dataclass(frozen=True, slots=True)
class _Destination:
    """Where a piece of a file goes, and what it is to be."""

    path: str
    start: int
    size: int
    sha256: str


def _write(source: _Source, destination: _Destination, pieces: Iterable[Bytes]) -> bool:
    """Writes a piece of a file to its destination; returns whether it is what it should be."""
    digest = hashlib.sha256()
    written = 0
    with _open(source.directory, destination.path) as stream:
        for piece in pieces:
            source.checked()
            if written + len(piece) > destination.size:
                return False
            digest.update(piece)
            os.pwrite(stream, piece, destination.start + written)
            written += len(piece)
    return written == destination.size and digest.hexdigest() == destination.sha256


def _open(directory: Directory, path: str) -> AbstractContextManager[int]:
    """A file of the checkpoint, to be written to."""
    parent, name = directory.split(path)
    return parent.open_file(name, os.O_RDWR)


def read_file(store: ReadableStore, address: CheckpointAddress, file: ManifestFile) -> Iterator[bytes]:
    """One file of a checkpoint, wherever it lies; unchecked.

    Raises:
        StoreError: The store can't be asked, or has lost it.
    """
    if not file.size:
        return iter(())
    if not file.split:
        return store.get(address.find_object(file), file.offset, file.size)
    ranges = ((*address.find_chunk(file, number), file.count_chunk_bytes(number)) for number in range(len(file.chunks)))
    return chain.from_iterable(store.get(*destination) for destination in ranges)
