"""How the files of a checkpoint become objects.

A large file goes in chunks, which are hashed and sent side by side. They become one object, as the parts of a multipart
upload, or, in the packed layout, an object each. A store that takes no parts is given the file as one stream. Any other
file goes as an object of its own, or, if it is small, among others in a pack. What the trial has in the bucket already
is referred to instead.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from podtune.storage.cancel import CancelToken
from podtune.storage.checkpoint.address import CheckpointAddress
from podtune.storage.checkpoint.content_index import ContentIndex
from podtune.storage.checkpoint.local_tree import LocalFile, LocalTree, UnusableTree
from podtune.storage.checkpoint.manifest import ManifestFile, digest_of_chunks
from podtune.storage.content import PIECE, BytesContent, Content, ContentChanged, FileSlice, PieceReader
from podtune.storage.errors import StoreError
from podtune.storage.object_store import MultipartStore, ObjectStore, PartialUpload, StoredPart, compute_part_size
from podtune.storage.parallel import run_all

WHOLE = 64 << 20
"""A larger file is sent in chunks. Each costs a request, and the store may have to copy them into one object."""
CHUNK = 16 << 20
PACK = 4 << 20
"""Small files are put together up to this size; as much is held in memory by each thread."""
PACKED_BELOW = 1 << 20
REWRITE = "write each checkpoint to a directory of its own"


@dataclass(frozen=True, slots=True)
class UploadContext:
    """What all uploads of one checkpoint's files share.

    Attributes:
        packs: Whether small files are put together, and large ones split.
        done: The files that are stored, by an earlier try as well.
        writer: Tells those apart that each store a shard of one checkpoint.
    """

    store: ObjectStore
    address: CheckpointAddress
    content_index: ContentIndex
    cancel_token: CancelToken
    packs: bool
    done: dict[LocalFile, ManifestFile] = field(default_factory=dict)
    writer: int = 0


def upload_files(context: UploadContext, tree: LocalTree, files: Sequence[LocalFile]) -> tuple[ManifestFile, ...]:
    """Stores files, and returns how the manifest is to describe them, in the same order.

    Raises:
        UnusableTree: One was changed meanwhile.
        StoreError: The store can't take them now, or at all; uploads that were begun are aborted.
        OSError: One can't be read.
    """
    left = [file for file in files if file not in context.done]
    context.content_index.prepare()
    with ExitStack() as stack:
        large = [_make_upload(context, tree, file, stack) for file in left if _is_large(file)]
        stack.callback(_abort, large)
        try:
            run_all(_list_tasks(context, tree, left, large))
            run_all(upload.finish for upload in large)
        except ContentChanged as error:
            raise UnusableTree(f"{error}; {REWRITE}") from error
    return tuple(context.done[file] for file in files)


def _make_upload(context: UploadContext, tree: LocalTree, file: LocalFile, stack: ExitStack) -> _LargeFile:
    if context.packs:
        return _SplitFile(context, tree, file, stack)
    if isinstance(context.store, MultipartStore):
        return _WholeFile(context, context.store, tree, file, stack)
    return _StreamedFile(context, tree, file, stack)


def _list_tasks(
    context: UploadContext, tree: LocalTree, files: Sequence[LocalFile], large: Sequence[_LargeFile]
) -> Iterator[Callable[[], None]]:
    """The largest pieces of work first, so that all threads come to their end at about the same time."""
    # Packs of an earlier try stay as they are: those that follow have other numbers.
    first = sum(1 for file in context.done.values() if file.object)
    for upload in large:
        yield from upload.list_tasks()
    others = [file for file in files if not _is_large(file)]
    packed = [file for file in others if context.packs and file.size < PACKED_BELOW]
    for file in sorted(set(others).difference(packed), key=lambda file: (-file.size, file.path)):
        yield _Single(context, tree, file)
    for number, group in enumerate(_build_groups(packed), first):
        yield _Pack(context, tree, group, number)


def _is_large(file: LocalFile) -> bool:
    return file.size > WHOLE


def _build_groups(files: Sequence[LocalFile]) -> Iterator[list[LocalFile]]:
    group: list[LocalFile] = []
    size = 0
    for file in files:
        if group and size + file.size > PACK:
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class _Single:
    """A file that is sent in one request."""

    context: UploadContext
    tree: LocalTree
    file: LocalFile

    def __call__(self) -> None:
        file, checked = self.file, self.context.cancel_token.check
        checked()
        if file.size <= PIECE:
            stored = self._store(BytesContent(_read(self.tree, file)))
        else:
            with self.tree.open(file.path) as stream:
                stored = self._store(FileSlice(stream.fileno(), 0, file.size, path=file.path, checked=checked))
                _check_unchanged(stream.fileno(), file)
        self.context.done[file] = stored

    def _store(self, content: Content) -> ManifestFile:
        known = self.context.content_index.find(content.size, content.sha256)
        if known is not None:
            return replace(known, path=self.file.path)
        self.context.store.put_content(self.context.address.data(self.file.path), content)
        return ManifestFile(self.file.path, content.size, content.sha256)


@dataclass(frozen=True, slots=True)
class _Pack:
    """Small files that are sent together."""

    context: UploadContext
    tree: LocalTree
    files: Sequence[LocalFile]
    number: int

    def __call__(self) -> None:
        key = self.context.address.pack(self.context.writer, self.number)
        path = key.removeprefix(self.context.address.trial_prefix)
        packed = bytearray()
        described: dict[LocalFile, ManifestFile] = {}
        for file in self.files:
            self.context.cancel_token.check()
            data = _read(self.tree, file)
            digest = BytesContent(data).sha256
            known = self.context.content_index.find(file.size, digest)
            if known is None:
                known = ManifestFile(file.path, file.size, digest, object=path, offset=len(packed))
                packed += data
            described[file] = replace(known, path=file.path)
        if packed:
            self.context.store.put_content(key, BytesContent(packed))
        self.context.done.update(described)


class _LargeFile(ABC):
    """A file that is sent in chunks."""

    def __init__(self, context: UploadContext, tree: LocalTree, file: LocalFile, stack: ExitStack) -> None:
        self.file = file
        self._context = context
        self._stream = stack.enter_context(tree.open(file.path))
        self._chunk_size = compute_part_size(file.size, CHUNK)
        self._known = self._find_known()

    def list_tasks(self) -> Iterator[Callable[[], None]]:
        """What sends it, piece by piece; nothing where the bucket has it already."""
        if self._known is None:
            yield from self._begin()

    def finish(self) -> None:
        """Describes the file, all of whose chunks are stored."""
        _check_unchanged(self._stream.fileno(), self.file)
        known = self._known
        self._context.done[self.file] = replace(known, path=self.file.path) if known else self._complete()

    @abstractmethod
    def abort(self) -> None:
        """Gives up what was begun and is not finished."""

    @abstractmethod
    def _begin(self) -> Iterator[Callable[[], None]]:
        """Does what comes first, and returns what sends the chunks."""

    @abstractmethod
    def _complete(self) -> ManifestFile:
        """Makes a file of the chunks."""

    @property
    def _count(self) -> int:
        return -(-self.file.size // self._chunk_size)

    def _describe(self, digests: Sequence[str]) -> ManifestFile:
        return ManifestFile(self.file.path, self.file.size, digest_of_chunks(digests), self._chunk_size, tuple(digests))

    def _slice(self, number: int) -> FileSlice:
        start = number * self._chunk_size
        size = min(self._chunk_size, self.file.size - start)
        file = self._stream.fileno()
        return FileSlice(file, start, size, path=self.file.path, checked=self._context.cancel_token.check)

    def _find_known(self) -> ManifestFile | None:
        """The same content in the bucket. The first chunk tells files of one size apart, mostly."""
        content_index = self._context.content_index
        if not content_index.has_size(self.file.size):
            return None
        if not content_index.may_hold(self.file.size, self._chunk_size, self._slice(0).sha256):
            return None
        digests = [""] * self._count

        def hash_chunk(number: int) -> None:
            digests[number] = self._slice(number).sha256

        run_all(partial(hash_chunk, number) for number in range(self._count))
        return content_index.find(self.file.size, digest_of_chunks(digests))


class _WholeFile(_LargeFile):
    """It becomes one object: each chunk is a part of a multipart upload; some stores copy them together at its end."""

    _upload: PartialUpload | None = None

    def __init__(
        self, context: UploadContext, store: MultipartStore, tree: LocalTree, file: LocalFile, stack: ExitStack
    ) -> None:
        super().__init__(context, tree, file, stack)
        self._store = store

    def _begin(self) -> Iterator[Callable[[], None]]:
        self._parts: dict[int, StoredPart] = {}
        key = self._context.address.data(self.file.path)
        self._upload = self._store.start_upload(key, self._chunk_size)
        return (partial(self._send, number) for number in range(self._count))

    def _send(self, number: int) -> None:
        assert self._upload is not None
        self._parts[number] = self._store.put_part(self._upload, number + 1, self._slice(number))

    def _complete(self) -> ManifestFile:
        assert self._upload is not None
        parts = [self._parts[number] for number in range(self._count)]
        self._store.complete_upload(self._upload, parts)
        self._upload = None
        return self._describe([part.sha256 for part in parts])

    def abort(self) -> None:
        if self._upload is not None:
            self._store.abort_upload(self._upload)


class _StreamedFile(_LargeFile):
    """It becomes one object: a thread reads and hashes it, and the store sends it as it likes."""

    def _begin(self) -> Iterator[Callable[[], None]]:
        yield self._send

    def _send(self) -> None:
        self._digests: list[str] = []
        reader = PieceReader(piece for number in range(self._count) for piece in self._read_chunk(number))
        self._context.store.put(self._context.address.data(self.file.path), reader, self.file.size)

    def _read_chunk(self, number: int) -> Iterator[bytes]:
        digest = hashlib.sha256()
        for piece in self._slice(number).read_pieces():
            digest.update(piece)
            yield bytes(piece)
        self._digests.append(digest.hexdigest())

    def _complete(self) -> ManifestFile:
        return self._describe(self._digests)

    def abort(self) -> None:
        """The store gives up by itself what it can't finish."""


class _SplitFile(_LargeFile):
    """Each chunk becomes an object."""

    def _begin(self) -> Iterator[Callable[[], None]]:
        self._digests = [""] * self._count
        return (partial(self._send, number) for number in range(self._count))

    def _send(self, number: int) -> None:
        content = self._slice(number)
        self._context.store.put_content(self._context.address.data_chunk(self.file.path, number), content)
        self._digests[number] = content.sha256

    def _complete(self) -> ManifestFile:
        return replace(self._describe(self._digests), split=True)

    def abort(self) -> None:
        """Chunks that no manifest names do no harm."""


def _abort(large: Sequence[_LargeFile]) -> None:
    """Gives up what was begun and not finished; what that leaves behind, the trial's next attempt clears away."""
    for file in large:
        try:
            file.abort()
        except StoreError:
            return  # the store is away


def _read(tree: LocalTree, file: LocalFile) -> bytes:
    """A small file, whole."""
    with tree.open(file.path) as stream:
        data = stream.read(file.size + 1)
        _check_unchanged(stream.fileno(), file)
    if len(data) != file.size:
        raise ContentChanged(f"{file.path} changed while it was being stored")
    return data


def _check_unchanged(file: int, seen: LocalFile) -> None:
    status = os.fstat(file)
    if (status.st_size, status.st_mtime_ns) != (seen.size, seen.modified):
        raise ContentChanged(f"{seen.path} changed while it was being stored")
