"""A directory that somebody else wrote, read and deleted without ever being led out of it.

The agent has the store's credentials and the program has not. So a program must not be able to have the agent read,
or delete, anything else by putting a link where a file is expected: every part of every path is opened by itself,
relative to the directory opened before it, and never through a link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from podtune.storage.manifest import MAX_FILES, ManifestError, check_paths

MAX_DEPTH = 32
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe would wait for its other end.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UnusableTree(Exception):
    """The directory holds what can't be stored; the message names it and the remedy."""


class MissingTree(UnusableTree):
    """There is no such directory."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """One file.

    Attributes:
        path: Relative to the directory, with slashes.
        size: Bytes when it was looked at.
        modified: When it was last written to then, in nanoseconds since the epoch.
    """

    path: str
    size: int
    modified: int = 0


class LocalTree:
    """An open directory."""

    def __init__(self, directory: int, name: str) -> None:
        """Takes an open directory over; use `open_tree` to get one.

        Args:
            directory: File descriptor.
            name: What it is called in messages.
        """
        self._directory = directory
        self._name = name

    @property
    def modified(self) -> float:
        """When something was last added to the directory, or taken away, in seconds since the epoch."""
        return os.fstat(self._directory).st_mtime

    def files(
        self, excluded: Callable[[str], bool] = lambda _: False, refused: Callable[[str], None] | None = None
    ) -> tuple[LocalFile, ...]:
        """All files at any depth, sorted by path.

        Args:
            excluded: Says of a path whether it is to be passed over, with all that lies below it.
            refused: Told of links and the like, which are then passed over; without it they are an error.

        Raises:
            UnusableTree: It holds a link, a device or a pipe, or too much.
            OSError: It can't be read.
        """
        found: list[LocalFile] = []
        for file in self._walk(self._directory, "", excluded, refused):
            found.append(file)
            if len(found) > MAX_FILES:
                raise UnusableTree(f"{self._name} holds more than {MAX_FILES} files; pack them")
        found.sort(key=lambda file: file.path)
        try:
            check_paths([file.path for file in found])
        except ManifestError as error:
            raise UnusableTree(f"{self._name}: {error}") from error
        return tuple(found)

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        """Opens one of the files for reading.

        Raises:
            UnusableTree: It is no regular file any more.
            OSError: It can't be opened.
        """
        *parents, name = path.split("/")
        with _descended(self._directory, parents, self._name) as directory:
            file = _open(name, _FILE, directory, f"{self._name}/{path}")
        with os.fdopen(file, "rb") as stream:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise UnusableTree(f"{self._name}/{path} is not a regular file; leave it out of the checkpoint")
            yield stream

    def _walk(
        self,
        directory: int,
        prefix: str,
        excluded: Callable[[str], bool],
        refused: Callable[[str], None] | None,
    ) -> Iterator[LocalFile]:
        if prefix.count("/") > MAX_DEPTH:
            raise UnusableTree(f"{self._name}/{prefix} is nested too deeply; use at most {MAX_DEPTH} levels")
        with os.scandir(directory) as entries:
            listed = list(entries)
        for entry in listed:
            path = prefix + entry.name
            if excluded(path):
                continue
            try:
                mode = os.stat(entry.name, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                if refused is None:
                    raise
                continue  # gone since it was listed
            if stat.S_ISDIR(mode.st_mode):
                with _descended(directory, [entry.name], self._name) as child:
                    yield from self._walk(child, f"{path}/", excluded, refused)
            elif stat.S_ISREG(mode.st_mode):
                yield LocalFile(path, mode.st_size, mode.st_mtime_ns)
            else:
                kind = "a symbolic link" if stat.S_ISLNK(mode.st_mode) else "not a regular file"
                problem = f"{self._name}/{path} is {kind}; leave it out of the checkpoint"
                if refused is None:
                    raise UnusableTree(problem)
                refused(problem)


@contextmanager
def open_tree(root: Path, parts: Sequence[str]) -> Iterator[LocalTree]:
    """Opens the directory `root/parts…`.

    Args:
        root: A directory that is trusted to be what it is.
        parts: Names below it that are not.

    Raises:
        MissingTree: It does not exist.
        UnusableTree: It is a link, or no directory.
        OSError: It can't be opened.
    """
    trusted = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _descended(trusted, parts, str(root)) as directory:
            yield LocalTree(directory, parts[-1] if parts else str(root))
    finally:
        os.close(trusted)


def delete_tree(root: Path, parts: Sequence[str]) -> None:
    """Deletes the directory `root/parts…`, links in it as links; nothing happens where it does not exist.

    Raises:
        UnusableTree: It is a link, or no directory.
        OSError: Something in it can't be deleted.
    """
    *parents, name = parts
    trusted = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _descended(trusted, parents, str(root)) as parent:
            _delete(name, parent)
    except MissingTree:
        return
    finally:
        os.close(trusted)


def _delete(name: str, parent: int) -> None:
    with _descended(parent, [name], "") as directory:
        with os.scandir(directory) as entries:
            listed = list(entries)
        for entry in listed:
            if entry.is_dir(follow_symlinks=False):
                _delete(entry.name, directory)
            else:
                os.unlink(entry.name, dir_fd=directory)
    os.rmdir(name, dir_fd=parent)


@contextmanager
def _descended(directory: int, parts: Sequence[str], name: str) -> Iterator[int]:
    """Opens one directory after the other."""
    current = os.dup(directory)
    try:
        for part in parts:
            name = f"{name}/{part}"
            child = _open(part, _DIRECTORY, current, name)
            os.close(current)
            current = child
        yield current
    finally:
        os.close(current)


def _open(name: str, flags: int, directory: int, shown: str) -> int:
    try:
        return os.open(name, flags, dir_fd=directory)
    except FileNotFoundError as error:
        raise MissingTree(f"{shown} does not exist; write a checkpoint before it is reported") from error
    except PermissionError as error:
        raise UnusableTree(
            f"{shown} can't be read by the agent, which is another user; make it readable for everyone"
        ) from error
    except OSError as error:
        raise UnusableTree(f"{shown} is a link, or not what it should be: {error.strerror}") from error
