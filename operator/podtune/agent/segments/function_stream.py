"""The source of the function that the program runs, on its way to the store: the operator may read no ConfigMap."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from podtune.agent.event_log import EventLog
from podtune.storage.object_store import ObjectStore
from podtune.storage.snapshots.function_store import has_function, store_function


class FunctionStream:
    """Stores the files of a mounted ConfigMap once, unless another agent has; see `SegmentStream`.

    Attributes:
        kind: What it is called in the agent's log.
        left_out: Always 0.
    """

    kind = "function"
    left_out = 0

    def __init__(self, directory: Path, store: ObjectStore, experiment_prefix: str, log: EventLog) -> None:
        self._directory = directory
        self._config_map = directory.name
        self._store = store
        self._prefix = experiment_prefix
        self._log = log
        self._is_done = False

    def resume(self) -> None:
        """See `SegmentStream.resume`: nothing has to be known of what is there."""

    def store_changes(self, is_over: Callable[[], bool]) -> None:
        """See `SegmentStream.store_changes`."""
        if self._is_done or is_over():
            return
        if not has_function(self._store, self._prefix, self._config_map):
            try:
                files = dict(_read_files(self._directory))
            except (OSError, UnicodeDecodeError) as error:
                message = f"ConfigMap {self._config_map} can't be read as text, so no snapshot holds it: {error}"
                self._log.warning("function not stored", message=message)
            else:
                store_function(self._store, self._prefix, self._config_map, files)
        self._is_done = True


def _read_files(directory: Path) -> Iterator[tuple[str, str]]:
    """Path and text of each file; the kubelet makes links, to what it keeps in folders that begin with two dots."""

    def fail(error: OSError) -> None:
        raise error

    for root, folders, names in os.walk(directory, onerror=fail, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith("..")]
        for name in names:
            file = Path(root, name)
            if not name.startswith(".."):
                yield file.relative_to(directory).as_posix(), file.read_text(encoding="utf-8")
