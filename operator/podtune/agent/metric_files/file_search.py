"""Finds the files below a directory that the training program logs metrics to; links are not followed.

The directory is a path below the shared one, in which `*` stands for any one directory: some scripts have one for each
run, named after the time. What lies deeper than that is a part of the names of metrics.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from podtune.agent.metric_files.file_kinds import FileKind
from podtune.storage.directory import Directory

ANY_DIRECTORY = "*"
MAX_METRIC_FILES = 200
"""Files that are read; of more, the first by their names."""
_MAX_ENTRIES = 20_000
"""Entries of directories that are looked at, at most."""


@dataclass(frozen=True, slots=True)
class MetricFile:
    """A file that was found.

    Attributes:
        directory: Where it is.
        name: What it is called there.
        run: The directories between the one that is searched and the file.
        inode: Tells it from another file of the same name.
        size: In bytes.
    """

    directory: Directory
    name: str
    run: tuple[str, ...]
    inode: int
    size: int

    @property
    def path(self) -> str:
        """Its path below the shared directory."""
        return "/".join((*self.directory.names, self.name))


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is in a directory."""

    name: str
    is_directory: bool
    status: os.stat_result | None


class MetricFileSearch:
    """One search below the shared directory, in which all that it looks at counts."""

    def __init__(self, kind: FileKind, complain: Callable[[OSError], None]) -> None:
        """Prepares it; `complain` is told of each directory that can't be read."""
        self._kind = kind
        self._complain = complain
        self._entries = 0

    def find(self, shared: Directory, pattern: Sequence[str]) -> list[MetricFile]:
        """Finds the files in the order of their names, at most one more than `MAX_METRIC_FILES`.

        Args:
            shared: The directory shared with the program.
            pattern: The names of the directories that lead to where the files are, `*` for any.
        """
        files = (file for directory in self._match(shared, pattern) for file in self._walk(directory, ()))
        return list(islice(files, MAX_METRIC_FILES + 1))

    def _match(self, directory: Directory, pattern: Sequence[str]) -> Iterator[Directory]:
        """The directories that a pattern leads to."""
        if not pattern:
            yield directory
        elif pattern[0] == ANY_DIRECTORY:
            for entry in self._list(directory):
                if entry.is_directory:
                    yield from self._match(directory.join(entry.name), pattern[1:])
        else:
            yield from self._match(directory.join(pattern[0]), pattern[1:])

    def _walk(self, directory: Directory, run: tuple[str, ...]) -> Iterator[MetricFile]:
        for entry in self._list(directory):
            if entry.is_directory:
                if len(run) < self._kind.depth:
                    yield from self._walk(directory.join(entry.name), (*run, entry.name))
            elif entry.status is not None:
                yield MetricFile(directory, entry.name, run, entry.status.st_ino, entry.status.st_size)

    def _list(self, directory: Directory) -> list[_Entry]:
        """What is in a directory, by name; nothing where it is not there."""
        try:
            with directory.open_descriptor() as descriptor, os.scandir(descriptor) as scan:
                found = list(islice(scan, _MAX_ENTRIES - self._entries))
                self._entries += len(found)
                return sorted(map(self._examine, found), key=lambda entry: entry.name)
        except FileNotFoundError:
            return []  # not yet, or no longer
        except OSError as error:
            self._complain(error)
            return []

    def _examine(self, entry: os.DirEntry[str]) -> _Entry:
        """Tells a directory from a file, and from a link to either, while the directory that it is in is open."""
        status = None
        if self._kind.is_one(entry.name) and entry.is_file(follow_symlinks=False):
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
        return _Entry(entry.name, entry.is_dir(follow_symlinks=False), status)
