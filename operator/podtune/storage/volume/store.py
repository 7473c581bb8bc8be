"""A store on a volume that is mounted: each object is a plain file, and each slash in its key a folder.

Others may use the volume too, so nothing of it is trusted: see `podtune.storage.directory`. An object is written beside
its place, made to stay, and renamed: readers see the old one or the new one, and a node that loses power loses nothing
that was acknowledged.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path

from podtune.storage.address import FileAddress, VolumeAddress
from podtune.storage.content import PIECE, Bytes, Content
from podtune.storage.directory import Directory, sync_directory
from podtune.storage.errors import NotFound, RequestRejected
from podtune.storage.object_store import PartialUpload, Reader, StoredPart
from podtune.storage.volume.errors import translate_os_errors
from podtune.storage.volume.unfinished import (
    UnfinishedName,
    finish_file,
    make_name,
    open_new_file,
    parse_name,
    write_at,
)

_DELETED_BUT_OPEN = re.compile(r"\.nfs[0-9a-f]{16,}")
"""What NFS makes of a file that is deleted while somebody reads it; it goes by itself."""
_COPIED_AT_ONCE = 1 << 30


class VolumeStore:
    """The objects on a volume, or in any other directory."""

    def __init__(self, address: VolumeAddress | FileAddress) -> None:
        self._address = address
        self._root = Directory(Path(address.directory))
        self._own = self._root.join(*filter(None, address.prefix.split("/")))

    def check(self) -> None:
        """See `ObjectStore.check`."""
        name = make_name("Probe")
        with self._asked("storing something"), open_new_file(self._own, name) as (directory, file):
            try:
                write_at(file, b"probe", 0)
                os.fsync(file)
                folds = _is_there(str(name).lower(), directory)
            finally:
                os.unlink(str(name), dir_fd=directory)
        if folds:
            raise RequestRejected(
                f"{self._address.where} does not tell capitals from small letters; use a file system that does"
            )

    def put(self, key: str, source: Reader, size: int) -> None:  # noqa: ARG002 - a file may have any size
        """See `ObjectStore.put`."""
        self._store(key, iter(lambda: source.read(PIECE), b""))

    def put_bytes(self, key: str, data: bytes) -> None:
        """See `ObjectStore.put_bytes`."""
        self._store(key, [data])

    def put_content(self, key: str, content: Content) -> None:
        """See `ObjectStore.put_content`."""
        self._store(key, content.read_pieces())

    def start_upload(self, key: str, part_size: int) -> PartialUpload:
        """See `ObjectStore.start_upload`."""
        folder, final = self._find_place(key)
        name = make_name(final)
        with self._asked(f"storing {key}"), open_new_file(folder, name):
            return PartialUpload(key, name.token, part_size)

    def put_part(self, upload: PartialUpload, number: int, content: Content) -> StoredPart:
        """See `ObjectStore.put_part`."""
        doing, digest = f"storing {upload.key}", hashlib.sha256()
        folder, name = self._find_unfinished(upload)
        position = (number - 1) * upload.part_size
        with ExitStack() as stack:
            with self._asked(doing):
                file = stack.enter_context(folder.open_file(str(name), os.O_WRONLY))
            for piece in content.read_pieces():  # what goes wrong in there says nothing of the volume
                digest.update(piece)
                with self._asked(doing):
                    position = write_at(file, piece, position)
            with self._asked(doing):
                os.fsync(file)  # else NFS would tell what went wrong when the file is closed
        return StoredPart(number, "", digest.hexdigest())

    def complete_upload(self, upload: PartialUpload, parts: Sequence[StoredPart]) -> None:
        """See `ObjectStore.complete_upload`."""
        if [part.number for part in parts] != list(range(1, len(parts) + 1)):
            raise RequestRejected(f"{self._address.where} refuses storing {upload.key}: parts of it are missing")
        folder, name = self._find_unfinished(upload)
        try:
            with (
                self._asked(f"storing {upload.key}"),
                folder.open_descriptor() as directory,
                folder.open_file(str(name), os.O_WRONLY) as file,
            ):
                finish_file(directory, file, name)
        except NotFound:
            if not self.exists(upload.key):  # an earlier call may have come so far
                raise

    def abort_upload(self, upload: PartialUpload) -> None:
        """See `ObjectStore.abort_upload`."""
        folder, name = self._find_unfinished(upload)
        with self._asked(f"giving up {upload.key}"), suppress(FileNotFoundError, NotADirectoryError):
            folder.unlink(str(name))
            self._remove_empty(folder)

    def list_uploads(self, prefix: str) -> Iterator[PartialUpload]:
        """See `ObjectStore.list_uploads`."""
        for folder, found in self._walk(prefix):
            name = parse_name(found)
            if name is not None:
                yield PartialUpload(folder + name.final, name.token)

    def get(self, key: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
        """See `ObjectStore.get`."""
        folder, name = self._find_place(key)
        with self._asked(f"reading {key}"), folder.open_file(name) as file:
            length = os.fstat(file).st_size
            if start and start >= length:
                raise NotFound(f"{self._address.where} holds no more than {length} bytes of {key}")
            end = length if size is None else min(length, start + size)
            while start < end and (piece := os.pread(file, min(PIECE, end - start), start)):
                start += len(piece)
                yield piece

    def get_bytes(self, key: str, limit: int) -> bytes:
        """See `ObjectStore.get_bytes`."""
        return b"".join(self.get(key, size=limit + 1))

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        folder, name = self._find_place(key)
        with self._asked(f"looking for {key}"), suppress(FileNotFoundError, NotADirectoryError):
            return stat.S_ISREG(folder.stat(name).st_mode)
        return False

    def list(self, prefix: str) -> Iterator[str]:
        """See `ObjectStore.list`."""
        for folder, name in self._walk(prefix):
            if parse_name(name) is None and not _DELETED_BUT_OPEN.fullmatch(name):
                yield folder + name

    def delete(self, keys: Iterable[str]) -> None:
        """See `ObjectStore.delete`."""
        folders: dict[Directory, list[str]] = {}
        for key in keys:
            folder, name = self._find_place(key)
            folders.setdefault(folder, []).append(name)
        for folder, names in folders.items():
            with self._asked(f"deleting {names[0]} of {folder}"), suppress(FileNotFoundError, NotADirectoryError):
                with folder.open_descriptor() as directory:
                    for name in names:
                        with suppress(FileNotFoundError):
                            os.unlink(name, dir_fd=directory)
                    sync_directory(directory)
                self._remove_empty(folder)

    def copy(self, source: str, key: str) -> None:
        """See `ObjectStore.copy`."""
        (folder, name), (target, final) = self._find_place(source), self._find_place(key)
        new = make_name(final)
        with (
            self._asked(f"copying {source}"),
            folder.open_file(name) as original,
            open_new_file(target, new) as (directory, file),
        ):
            try:
                while os.copy_file_range(original, file, _COPIED_AT_ONCE):
                    pass
                finish_file(directory, file, new)
            except BaseException:
                _discard(new, directory)
                raise

    def _store(self, key: str, pieces: Iterable[Bytes]) -> None:
        doing, position = f"storing {key}", 0
        folder, final = self._find_place(key)
        name = make_name(final)
        with ExitStack() as stack:
            with self._asked(doing):
                directory, file = stack.enter_context(open_new_file(folder, name))
            try:
                for piece in pieces:  # what goes wrong in there says nothing of the volume
                    with self._asked(doing):
                        position = write_at(file, piece, position)
                with self._asked(doing):
                    finish_file(directory, file, name)
            except BaseException:
                _discard(name, directory)
                raise

    def _find_place(self, key: str) -> tuple[Directory, str]:
        """The folder that an object lies in, and its name there."""
        try:
            folder, name = self._root.split(key)
            folder.join(name)
        except ValueError as error:
            raise RequestRejected(f"{self._address.where} can't hold {key!r}: {error}") from error
        if parse_name(name) is not None:
            raise RequestRejected(
                f"{self._address.where} can't hold {key!r}: files that are not finished have such names"
            )
        return folder, name

    def _find_unfinished(self, upload: PartialUpload) -> tuple[Directory, UnfinishedName]:
        folder, final = self._find_place(upload.key)
        return folder, UnfinishedName(upload.upload_id, final)

    def _walk(self, prefix: str) -> Iterator[tuple[str, str]]:
        """All files below a prefix, each by what its key begins with and its name, in the order of whole keys.

        Links, pipes and the like are passed over, and so are names that can't be keys.
        """
        names = prefix.removesuffix("/").split("/") if prefix else []
        with self._asked(f"listing {prefix}"):
            entries = _scan(self._root.join(*names))
        for entry in entries:
            if entry.endswith("/"):
                yield from self._walk(prefix + entry)
            else:
                yield prefix, entry

    def _remove_empty(self, folder: Directory) -> None:
        """Removes a folder, and those above it, as far as nothing else is in them."""
        while folder.names and folder.names != self._own.names:
            name, folder = folder.names[-1], Directory(folder.root, folder.names[:-1])
            try:
                with folder.open_descriptor() as directory:
                    os.rmdir(name, dir_fd=directory)
            except OSError:
                return  # most often it is not empty; in any case an empty folder does no harm

    def _asked(self, doing: str) -> AbstractContextManager[None]:
        return translate_os_errors(self._address, doing)


def _scan(folder: Directory) -> list[str]:
    """The names of files and folders, these with a slash at their end, sorted; none where there is no such folder."""
    with (
        suppress(FileNotFoundError, NotADirectoryError),
        folder.open_descriptor() as directory,
        os.scandir(directory) as entries,
    ):
        return sorted(filter(_is_key, map(_describe, entries)))
    return []


def _describe(entry: os.DirEntry[str]) -> str:
    """Its name, with a slash at the end where it is a folder; empty where it is neither file nor folder."""
    if entry.is_dir(follow_symlinks=False):
        return f"{entry.name}/"
    return entry.name if entry.is_file(follow_symlinks=False) else ""


def _is_key(name: str) -> bool:
    """Whether a name is one, and in UTF-8."""
    return bool(name) and not any("\ud800" <= character <= "\udfff" for character in name)


def _is_there(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _discard(name: UnfinishedName, directory: int) -> None:
    with suppress(OSError):
        os.unlink(str(name), dir_fd=directory)
