"""Files on their way into a volume: they become objects by one rename, and nobody sees them before.

What is killed in between leaves them behind. They lie beside what they were to become, so that they can be found again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from podtune.storage.content import Bytes
from podtune.storage.directory import Directory, open_entry, sync_directory

_FOLDER_MODE = 0o750
_FILE_MODE = 0o640
_NAME = re.compile(r"\.podtune-([0-9a-f]{16})-(.+)", re.DOTALL)
_TRIES = 5


@dataclass(frozen=True, slots=True)
class UnfinishedName:
    """The name of a file that is to be called `final` when it is whole."""

    token: str
    final: str

    def __str__(self) -> str:
        return f".podtune-{self.token}-{self.final}"


def make_name(final: str) -> UnfinishedName:
    """A name that no other file has."""
    return UnfinishedName(os.urandom(8).hex(), final)


def parse_name(name: str) -> UnfinishedName | None:
    """The name of an unfinished file; None where it is that of any other."""
    match = _NAME.fullmatch(name)
    return UnfinishedName(match[1], match[2]) if match else None


@contextmanager
def open_new_file(folder: Directory, name: UnfinishedName) -> Iterator[tuple[int, int]]:
    """Makes a file, and its folder where it is missing; yields the descriptors of the folder and of the file.

    Raises:
        OSError: They can't be made.
    """
    with ExitStack() as stack:
        yield _make(stack, folder, name)


def _make(stack: ExitStack, folder: Directory, name: UnfinishedName) -> tuple[int, int]:
    for left in reversed(range(_TRIES)):
        with ExitStack() as opened:
            try:
                directory = opened.enter_context(folder.open_or_make(_FOLDER_MODE))
                file = open_entry(str(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, directory, _FILE_MODE)
            except FileNotFoundError:  # it was empty, and somebody has removed it meanwhile
                if not left:
                    raise
                continue
            opened.callback(os.close, file)
            stack.push(opened.pop_all())
            return directory, file
    raise AssertionError("the last try returns or raises")


def write_at(file: int, piece: Bytes, position: int) -> int:
    """Writes all of a piece; returns the position after it.

    Raises:
        OSError: It can't be written.
    """
    rest = memoryview(piece)
    while rest:
        written = os.pwrite(file, rest, position)
        rest = rest[written:]
        position += written
    return position


def finish_file(directory: int, file: int, name: UnfinishedName) -> None:
    """Gives a file that is whole its final name, in place of another that may have it: there to stay.

    Raises:
        OSError: It can't be made to stay, or has been taken away.
    """
    os.fsync(file)
    os.rename(str(name), name.final, src_dir_fd=directory, dst_dir_fd=directory)
    sync_directory(directory)
