"""Storing what else a program writes: logs, figures, the like. Files may change, and be changed, at any time.

Nobody restores them, so there is no manifest: each file is an object, stored again whenever it has changed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.checkpoint.local_tree import LocalFile, UnusableTree, open_tree
from podtune.storage.content import PIECE
from podtune.storage.directory import Directory
from podtune.storage.object_store import ObjectStore, Reader
from podtune.storage.parallel import run_all


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass over the directory has done.

    Attributes:
        files: How many files were stored.
        size: Their bytes.
        is_complete: Whether it was not asked to leave off.
        problems: What can't be stored, and why; the other files were stored.
    """

    files: int
    size: int
    is_complete: bool
    problems: tuple[str, ...]


class ArtifactSync:
    """Stores files that have changed since it last looked."""

    def __init__(
        self,
        store: ObjectStore,
        trial: TrialAddress,
        attempt: str,
        directory: Directory,
        selected: Callable[[str], bool],
        *,
        skipped: Callable[[str], bool],
    ) -> None:
        """Stores nothing yet.

        Args:
            store: The bucket.
            trial: Where the trial is in it.
            attempt: Id of the attempt.
            directory: Where the files are.
            selected: Says of a file's path whether it is to be stored.
            skipped: Says of the path of a file or directory that it is passed over, with all that lies below.
        """
        self._store = store
        self._trial = trial
        self._attempt = attempt
        self._directory = directory
        self._selected = selected
        self._skipped = skipped
        self._stored: dict[str, LocalFile] = {}

    def run(self, leave_off: Callable[[], bool], checked: Callable[[], None]) -> Pass:
        """Stores what has changed.

        Args:
            leave_off: Asked before each file: whether something else is more urgent. The next call goes on.
            checked: Called again and again; raises where nothing more is to be sent.

        Raises:
            StoreError: The store can't take it now, or at all.
            UnusableTree: The directory can't be read.
            OSError: Likewise.
        """
        problems: list[str] = []
        lock = threading.Lock()
        stored: list[LocalFile] = []
        with open_tree(self._directory, ()) as tree:
            found = tree.list_files(self._skipped, problems.append)
            # What is gone is forgotten: a program may write a file of another name each minute.
            paths = {file.path for file in found}
            self._stored = {path: file for path, file in self._stored.items() if path in paths}
            changed = [file for file in found if self._selected(file.path) and self._stored.get(file.path) != file]
            left = len(changed)

            def tasks() -> Iterator[Callable[[], None]]:
                nonlocal left
                for file in changed:
                    if leave_off():
                        return
                    left -= 1
                    yield lambda file=file: send(file)  # type: ignore[misc]

            def send(file: LocalFile) -> None:
                try:
                    with tree.open(file.path) as stream:
                        size = os.fstat(stream.fileno()).st_size
                        self._store.put(self._build_key(file), _Checked(stream, size, checked), size)
                except (UnusableTree, OSError) as error:
                    with lock:
                        problems.append(str(error))
                    return
                with lock:
                    self._stored[file.path] = file
                    stored.append(file)

            run_all(tasks(), workers=2)
        return Pass(len(stored), sum(file.size for file in stored), left == 0, tuple(problems))

    def _build_key(self, file: LocalFile) -> str:
        return self._trial.artifact(self._attempt, file.path)


class _Checked:
    """Reads as many bytes as a file had when it was opened: a log may be written to faster than it can be sent."""

    def __init__(self, source: Reader, size: int, checked: Callable[[], None]) -> None:
        self._source = source
        self._left = size
        self._checked = checked

    def read(self, size: int = -1, /) -> bytes:
        self._checked()
        data = self._source.read(min(self._left, size if size >= 0 else PIECE))
        self._left -= len(data)
        return data
