"""Directories that somebody else can write to, used without ever being led out of them.

The agent has a token and the store's credentials, and the program beside it has not. So a program must not be able to
have the agent read, write or delete anything else by putting a link where a file or a directory is expected. All that
an agent does below a volume that it shares goes through here: every part of every path is opened by itself, relative to
the directory opened before it, and never through a link. Only the volume's own place is trusted: it is a mount point,
which no program in the pod can move.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_DIRECTORY = _ROOT | os.O_NOFOLLOW
# Without O_NONBLOCK, opening a pipe would wait for its other end.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_CREAT | os.O_EXCL
_READABLE = 0o644
_UMASK = threading.Lock()
"""Held while the process has none."""


class NotAFile(OSError):
    """There is something other than a regular file."""


@dataclass(frozen=True, slots=True)
class Directory:
    """Where a directory is; it is opened anew for each use, and need not exist.

    Attributes:
        root: A directory that is trusted to be what it is: where a volume is mounted.
        names: One name for each level below it; these are not trusted.
    """

    root: Path
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.names:
            _check_name(name)

    def __str__(self) -> str:
        """What it is called in messages."""
        return "/".join((str(self.root), *self.names))

    def join(self, *names: str) -> Directory:
        """A directory in this one."""
        return Directory(self.root, (*self.names, *names))

    def split(self, path: str) -> tuple[Directory, str]:
        """The directory that a file lies in, and its name there; `path` is relative, with slashes."""
        *parents, name = path.split("/")
        return self.join(*parents), name

    @contextmanager
    def open_descriptor(self) -> Iterator[int]:
        """Its file descriptor.

        Raises:
            OSError: It does not exist, can't be opened, or is no directory but a link, say.
        """
        root = os.open(self.root, _ROOT)
        try:
            with descend(root, self.names) as directory:
                yield directory
        finally:
            os.close(root)

    def stat(self, name: str) -> os.stat_result:
        """What is known of an entry; of a link, of the link itself.

        Raises:
            OSError: There is none, or the directory can't be opened.
        """
        _check_name(name)
        with self.open_descriptor() as directory:
            return os.stat(name, dir_fd=directory, follow_symlinks=False)

    @contextmanager
    def open_file(self, name: str, flags: int = os.O_RDONLY) -> Iterator[int]:
        """A file's descriptor; `flags` are such as `os.O_RDWR`.

        Raises:
            OSError: It does not exist, can't be opened, or is no regular file.
        """
        file = self.take_file(name, flags)
        try:
            yield file
        finally:
            os.close(file)

    def take_file(self, name: str, flags: int = os.O_RDONLY) -> int:
        """As `open_file`; closing it is the caller's business."""
        with self.open_descriptor() as directory:
            file = open_entry(name, flags | _FILE, directory)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise NotAFile(f"{self}/{name} is not a regular file; put a plain file there")
        return file

    @contextmanager
    def open_or_make(self, mode: int) -> Iterator[int]:
        """Its file descriptor; it is made if need be, there to stay, with all that is missing above it.

        Raises:
            OSError: It can't be made or opened, or is no directory but a link, say.
        """
        current = os.open(self.root, _ROOT)
        try:
            for name in self.names:
                try:
                    child = open_entry(name, _DIRECTORY, current)
                except FileNotFoundError:
                    with suppress(FileExistsError):
                        os.mkdir(name, mode, dir_fd=current)
                    sync_directory(current)
                    child = open_entry(name, _DIRECTORY, current)
                os.close(current)
                current = child
            yield current
        finally:
            os.close(current)

    def make(self, mode: int) -> None:
        """Makes it in its parent, which exists; one that is there already stays as it is.

        Raises:
            OSError: It can't be made.
        """
        name, parent = self.names[-1], Directory(self.root, self.names[:-1])
        with parent.open_descriptor() as directory, suppress(FileExistsError), _lift_umask():
            os.mkdir(name, mode, dir_fd=directory)

    @contextmanager
    def make_file(self, name: str, mode: int = _READABLE) -> Iterator[int]:
        """Makes a file, open to be written and read.

        Raises:
            FileExistsError: There is something of this name, a link perhaps.
            OSError: It can't be made.
        """
        with self.open_descriptor() as directory, _lift_umask():
            file = open_entry(name, os.O_RDWR | _NEW | _FILE, directory, mode)
        try:
            yield file
        finally:
            os.close(file)

    def replace_file(self, name: str, content: bytes) -> None:
        """Replaces a file whole: a new one under a name that nobody can have put a link at, then one rename.

        Raises:
            OSError: It can't be replaced.
        """
        temporary = f".{name}-{os.urandom(8).hex()}"
        try:
            with self.make_file(temporary) as file:
                while content:
                    content = content[os.write(file, content) :]
            self.rename(temporary, name)
        except OSError:
            with suppress(OSError):
                self.unlink(temporary)
            raise

    def read_file(self, name: str, limit: int) -> bytes:
        """The first bytes of a file, at most `limit`.

        Raises:
            OSError: It can't be read.
        """
        with self.open_file(name) as file, os.fdopen(file, "rb", closefd=False) as stream:
            return stream.read(limit)

    def list(self) -> list[str]:
        """The names of what is in it.

        Raises:
            OSError: It can't be read.
        """
        with self.open_descriptor() as directory:
            return os.listdir(directory)  # noqa: PTH208 - of a descriptor

    def rename(self, name: str, new: str) -> None:
        """Renames an entry; what has the new name already is replaced.

        Raises:
            OSError: It can't be renamed.
        """
        _check_name(name)
        _check_name(new)
        with self.open_descriptor() as directory:
            os.rename(name, new, src_dir_fd=directory, dst_dir_fd=directory)

    def unlink(self, name: str) -> None:
        """Deletes an entry that is no directory, a link as a link; nothing happens where there is none.

        Raises:
            OSError: It can't be deleted.
        """
        _check_name(name)
        with self.open_descriptor() as directory, suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)

    def remove(self, name: str) -> None:
        """Deletes an entry, whatever it is, with all that lies below it; nothing happens where there is none.

        Raises:
            OSError: Something can't be deleted.
        """
        try:
            self.unlink(name)
        except IsADirectoryError:
            with self.open_descriptor() as directory:
                shutil.rmtree(name, dir_fd=directory)


@contextmanager
def descend(directory: int, names: Sequence[str]) -> Iterator[int]:
    """Opens one directory after the other; yields the last one's descriptor.

    Raises:
        OSError: One can't be opened, or is a link; `filename` says which.
    """
    current = os.dup(directory)
    try:
        for depth, name in enumerate(names, 1):
            try:
                child = open_entry(name, _DIRECTORY, current)
            except OSError as error:
                error.filename = "/".join(names[:depth])
                raise
            os.close(current)
            current = child
        yield current
    finally:
        os.close(current)


def sync_directory(directory: int) -> None:
    """Makes what was made, renamed or deleted in an open directory stay so.

    Raises:
        OSError: It can't be made to.
    """
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno != errno.EINVAL:  # of a file system that has nothing of the kind
            raise


def open_entry(name: str, flags: int, directory: int, mode: int = _READABLE) -> int:
    """Opens what has this name in an open directory, and no link; `mode` is that of a file that is made.

    Raises:
        OSError: It can't be opened.
    """
    _check_name(name)
    return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=directory)


@contextmanager
def _lift_umask() -> Iterator[None]:
    """Has things be made with their very mode: a program that finds one may use it before its mode could be changed."""
    with _UMASK:
        before = os.umask(0)
        try:
            yield
        finally:
            os.umask(before)


def _check_name(name: str) -> None:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{name!r} is not the name of a file or directory")
