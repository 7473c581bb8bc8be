"""A checkpoint's directory, which a program wrote: its files, none of them a link, however it is changed meanwhile."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import translate
from itertools import islice
from typing import BinaryIO

from podtune.storage.checkpoint.manifest import MAX_FILES, InvalidManifest, check_paths
from podtune.storage.directory import Directory, descend, open_entry

_MAX_DEPTH = 32


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
        """Takes over an open directory that messages call `name`; use `open_tree` to get one."""
        self._directory = directory
        self._name = name

    @property
    def modified(self) -> float:
        """When something was last added to the directory, or taken away, in seconds since the epoch."""
        return os.fstat(self._directory).st_mtime

    def list_files(
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
                raise self._make_error_of_many()
        found.sort(key=lambda file: file.path)
        try:
            check_paths([file.path for file in found])
        except InvalidManifest as error:
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
        shown = f"{self._name}/{path}"
        with _descend(self._directory, parents, self._name) as directory, _explain_errors(shown):
            # Without O_NONBLOCK, opening a pipe would wait for its other end.
            file = open_entry(name, os.O_RDONLY | os.O_NONBLOCK, directory)
        with os.fdopen(file, "rb") as stream:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise UnusableTree(f"{shown} is not a regular file; leave it out of the checkpoint")
            yield stream

    def _make_error_of_many(self) -> UnusableTree:
        return UnusableTree(f"{self._name} holds more than {MAX_FILES} files; pack them")

    def _walk(
        self,
        directory: int,
        prefix: str,
        excluded: Callable[[str], bool],
        refused: Callable[[str], None] | None,
    ) -> Iterator[LocalFile]:
        if prefix.count("/") > _MAX_DEPTH:
            raise UnusableTree(f"{self._name}/{prefix} is nested too deeply; use at most {_MAX_DEPTH} levels")
        with os.scandir(directory) as entries:
            kept = (entry for entry in entries if not excluded(prefix + entry.name))
            listed = list(islice(kept, MAX_FILES + 1))
        if len(listed) > MAX_FILES:
            raise self._make_error_of_many()
        for entry in listed:
            path = prefix + entry.name
            try:
                mode = os.stat(entry.name, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                if refused is None:
                    raise
                continue  # gone since it was listed
            if stat.S_ISDIR(mode.st_mode):
                with _descend(directory, [entry.name], self._name) as child:
                    yield from self._walk(child, f"{path}/", excluded, refused)
            elif stat.S_ISREG(mode.st_mode):
                yield LocalFile(path, mode.st_size, mode.st_mtime_ns)
            else:
                kind = "a symbolic link" if stat.S_ISLNK(mode.st_mode) else "not a regular file"
                problem = f"{self._name}/{path} is {kind}; leave it out of the checkpoint"
                if refused is None:
                    raise UnusableTree(problem)
                refused(problem)


def build_matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Says of a path, relative and with slashes, whether one of the patterns fits.

    Args:
        patterns: With `*` (slashes, too), `?` and `[…]`. One without a slash is held to the path's last part, any other
            to the whole path; one that ends with a slash fits a directory.
    """
    whole: list[str] = []
    last: list[str] = []
    for pattern in patterns:
        plain = pattern.rstrip("/")
        (whole if "/" in plain else last).append(translate(plain.lstrip("/")))
    fits_whole, fits_last = (re.compile("|".join(found)).match if found else None for found in (whole, last))

    def fits(path: str) -> bool:
        if fits_whole and fits_whole(path):
            return True
        return bool(fits_last and fits_last(path.rpartition("/")[2]))

    return fits


@contextmanager
def open_tree(root: Directory, parts: Sequence[str]) -> Iterator[LocalTree]:
    """Opens the directory `root/parts…`.

    Raises:
        MissingTree: It does not exist.
        UnusableTree: It is a link, or no directory.
        OSError: `root` can't be opened.
    """
    with root.open_descriptor() as opened, _descend(opened, parts, str(root)) as directory:
        yield LocalTree(directory, parts[-1] if parts else str(root))


def delete_tree(root: Directory, parts: Sequence[str]) -> None:
    """Deletes the directory `root/parts…`, links in it as links; nothing happens where it does not exist.

    Raises:
        UnusableTree: It is a link, or no directory.
        OSError: Something in it can't be deleted.
    """
    *parents, name = parts
    try:
        with (
            root.open_descriptor() as opened,
            _descend(opened, parents, str(root)) as parent,
            _descend(parent, [name], ""),
        ):
            shutil.rmtree(name, dir_fd=parent)
    except MissingTree:
        return


@contextmanager
def _descend(directory: int, parts: Sequence[str], name: str) -> Iterator[int]:
    """As `descend`, with errors that say what to do."""
    with ExitStack() as stack:
        with _explain_errors(name):
            child = stack.enter_context(descend(directory, parts))
        yield child


@contextmanager
def _explain_errors(shown: str) -> Iterator[None]:
    """Turns an error into one that says what to do; `shown` is the place, or where it lies."""
    try:
        yield
    except OSError as error:
        below = f"/{error.filename}" if error.filename and not shown.endswith(f"/{error.filename}") else ""
        raise _explain(error, f"{shown}{below}") from error


def _explain(error: OSError, shown: str) -> UnusableTree:
    match error:
        case FileNotFoundError():
            return MissingTree(f"{shown} does not exist; write a checkpoint before you report it")
        case PermissionError():
            return UnusableTree(
                f"{shown} can't be read by the agent, which runs as another user; make it readable for everyone"
            )
        case _:
            return UnusableTree(f"{shown} is a link or has the wrong type: {error.strerror}")
